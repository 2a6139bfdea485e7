"""Algorithms: how transitions become better weights, and where transitions are kept."""
