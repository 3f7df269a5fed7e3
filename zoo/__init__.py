"""A laboratory for ablations of transformers."""
