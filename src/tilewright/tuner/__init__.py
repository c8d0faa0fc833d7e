"""Model-guided search over tile sizes: analytical features and dynamic gradient descent.

The modules here are pure numpy and know nothing of a compiler: a workload is loops and affine
accesses, a candidate is integers, features and validity are closed forms. `tuner.tvm` is the only
part that imports TVM; it turns candidates into schedules and measures them.
"""
