"""Measuring, evaluating, comparing, reporting."""
