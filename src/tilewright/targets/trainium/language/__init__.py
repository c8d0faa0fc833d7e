"""The restricted Python of kernels: walked by an evaluator of our own, never run by Python.

A kernel's text is parsed into a syntax tree; every kind of node is either translated here or
refused. What a kernel can name are numbers, texts, lists, tiles, and the functions of `library`.
"""
