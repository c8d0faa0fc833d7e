"""The stages of an evaluation, and the kinds of failure that every target may have."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Stage = Literal["build", "check", "measure"]
GeneralFailure = Literal[
    "compile_error",  # the compiler rejected the source
    "link_error",  # the source calls a function that is not defined, or defines no `kernel`
    "illegal_instruction",  # the CPU or the accelerator met an instruction it does not have
    "illegal_address",  # a CPU or DMA access outside the kernel's arguments, code and stack
    "wrong_result",  # the output differs from the reference
    "untested_condition",  # a condition on input values had the same result in all checks
    "input_modified",  # the kernel wrote to one of its inputs
    "forbidden_call",  # the kernel asked the operating system for something (a thread, a file)
    "non_deterministic",  # the same binary gave two different results
    "slower_than_limit",  # the measurement was stopped because the kernel is too slow to be kept
    "timeout",  # a stage ran out of wall time or instructions and was killed
    "crash",  # the evaluating process died
    "invalid",  # measured faster than the hardware could be
    "unconfirmed",  # rebuilt and run on fresh inputs, it was wrong or slower
    "no_result",  # an external program printed no result, or a result that is not its own
]
"""Kinds of failure that every target may have; the target's brief declares further ones."""
GENERAL_FAILURES: frozenset[str] = frozenset(get_args(GeneralFailure))
FailureKind: TypeAlias = str
"""A `GeneralFailure`, or one that the target's brief declares."""
