"""Servers of language models: asking one for an answer, and keeping when each piece of it came."""
