"""Boards that are reached over SSH."""
