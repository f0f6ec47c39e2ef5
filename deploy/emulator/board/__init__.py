"""The emulated board: its folder, the process that keeps it up, its daemon, and the faults that it can have."""
