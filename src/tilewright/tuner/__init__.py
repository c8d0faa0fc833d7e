"""Model-guided search over tile sizes: analytical features and dynamic gradient descent.

The modules here use only numpy and do not depend on a compiler: a workload consists of loops and
affine accesses, a candidate of integers, and features and validity have closed forms. Only
`tuner.tvm` imports TVM; it turns candidates into schedules and measures them.
"""
