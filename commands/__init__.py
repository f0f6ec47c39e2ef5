"""The command line: one module per collection of tasks."""
