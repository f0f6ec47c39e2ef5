"""Boards of a lab: places of a labgrid coordinator."""
