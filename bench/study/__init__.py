"""A whole study as one file: what is measured and evaluated, in cells that are done once and kept."""
