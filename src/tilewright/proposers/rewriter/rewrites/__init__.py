"""The rewrites: functions from a kernel to a kernel. Docstrings show kernels before and after."""
