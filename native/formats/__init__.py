"""Model files: what is inside, read from the header only."""
