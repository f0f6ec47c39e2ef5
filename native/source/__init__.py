"""Where the source of a program comes from, and how it gets here."""
