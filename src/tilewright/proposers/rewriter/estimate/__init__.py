"""A static estimate of a kernel's time, to compare plans before a kernel is run."""
