"""Emulated boards that need no hardware, and the stand-in for the ``hdc`` command that reaches them."""

from pathlib import Path

CODE = Path(__file__).parents[2]
"""The folder from which ``python -m deploy.emulator…`` finds its modules."""
