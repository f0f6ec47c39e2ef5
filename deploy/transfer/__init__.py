"""Files to and from a board, each verified there."""
