"""Work that several boards do at once."""
