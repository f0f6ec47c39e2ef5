"""Computers that build for this one, reached over SSH."""
