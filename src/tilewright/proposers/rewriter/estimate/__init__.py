"""A static estimate of a kernel's time, to choose between plans before anything is run."""
