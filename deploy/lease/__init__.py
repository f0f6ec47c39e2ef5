"""Who uses a board, so that two do not use it at once."""
