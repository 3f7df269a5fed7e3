"""Claims about time and memory, measured: one module for each, with its rule stated beforehand."""
