"""The front end for kernels in C that all built-in rewriters share: macros, parser, syntax."""
