"""Pictures of what a model is and does, one file per idea; the numbers come from the model's own
code.
"""
