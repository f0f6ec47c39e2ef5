"""Boards: reaching them, moving files, running programs, keeping records."""
