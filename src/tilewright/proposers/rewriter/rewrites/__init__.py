"""The rewrites: functions from a kernel to a kernel, with before and after in the docstring."""
