"""Builds, sandboxes, checks and times kernels that run on this machine; see docs/targets.md.

The targets whose kernels run natively import this package, which does not depend on an instruction
set.
"""
