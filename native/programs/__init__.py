"""The programs that ohforge brings: a folder for each, with its recipe and, where it is ours, its C or C++ sources."""

from pathlib import Path

PROGRAMS = Path(__file__).resolve().parent
