"""What ``scripts/`` and ``benchmarks/`` take from the tests: stand-ins for what is not there, and small models."""
