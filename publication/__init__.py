"""Pages of this repository that are made of its code, its archived results and its measurements.

Users of zoo need none of it, and the wheel does not contain it.
"""
