"""Pages about records: what was measured, how steady it was, what speaks against it, and how to repeat it."""
