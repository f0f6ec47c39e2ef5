"""From what a user names to a run: which model, program, build and board."""
