"""The restricted Python of kernels, which this package evaluates and Python never runs.

A kernel's text is parsed to a syntax tree. Every kind of node is either translated here or refused.
The values in a kernel are numbers, texts, lists, tiles, and the functions of `library`.
"""
