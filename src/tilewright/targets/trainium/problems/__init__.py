"""The oracles: the definition of each workload as a formula in float64.

If a kernel may store values in bfloat16 (eight binary digits), the formula rounds at that place,
and the allowed error follows from it (`parts.float_error`).
"""
