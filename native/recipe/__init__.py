"""How one program is built and run, as data."""
