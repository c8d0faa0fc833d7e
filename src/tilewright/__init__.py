"""tilewright: makes kernels for tensor accelerators fast, with results that hold."""

__version__ = "0.1.0"
