"""Our helper program on a board, as the host sees it."""
