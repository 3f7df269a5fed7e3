"""How many tokens a text gets unless told otherwise; a module of its own because it needs no JAX."""

NEW_TOKENS = 100
