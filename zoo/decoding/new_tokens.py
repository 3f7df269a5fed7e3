"""How many tokens are generated."""

NEW_TOKENS = 100
"""Most tokens that a text gets unless told otherwise."""
MAX_NEW_TOKENS = 1 << 24
"""Most tokens that can be asked for: positions are counted in float32."""
