"""Figures of what a model is and computes, one module per idea, from the model's own code."""
