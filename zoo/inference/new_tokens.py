"""The default number of new tokens; a module of its own because it needs no JAX."""

NEW_TOKENS = 100
