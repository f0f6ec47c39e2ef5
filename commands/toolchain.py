"""``invoke toolchain.*``: toolchain files, for us and for other tools."""
