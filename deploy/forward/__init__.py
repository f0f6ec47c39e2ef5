"""Ports of a board, reached at ports of this computer."""
