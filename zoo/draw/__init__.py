"""Pictures of what a model is and computes, one module per idea, drawn from the model's own code."""
