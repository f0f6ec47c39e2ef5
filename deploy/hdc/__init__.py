"""Boards behind hdc: finding them, choosing one, running commands, understanding what hdc prints."""
