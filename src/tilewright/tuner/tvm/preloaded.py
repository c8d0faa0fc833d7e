"""Imports TVM in the process from which those of the builder and of the runner are forked."""

import tvm  # noqa: F401
