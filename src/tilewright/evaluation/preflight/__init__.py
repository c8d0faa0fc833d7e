"""Attacks on the user's own task: what a check must reject before a budget is spent on it."""
