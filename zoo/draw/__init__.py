"""Figures of a model and of its computations, one module per idea, from the model's own code."""
