"""One run of a program on a board, from the check before it to the record after it."""
