"""Rules for the source of a Gemmini kernel: the headers that it may include, and no assembler."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.core.records import Failed
from tilewright.parts import source_rules
from tilewright.parts.languages import C

HEADERS = (
    "gemmini.h", "stdint.h", "stddef.h", "stdbool.h", "limits.h",
    "assert.h", "stdlib.h", "stdio.h", "string.h",
)  # fmt: skip
"""The only headers that a candidate may include. There is no C library, so runtime/ contains the
last four.
"""

LOOP_HEADERS = (*HEADERS, "gemmini_loops.h")
"""Further headers that a baseline may include. Results are compared with kernels that use the
hardware loop unrollers, but candidates must issue commands themselves, as in the published
experiments.
"""


def check_source(source: str, headers: Sequence[str] = HEADERS) -> Failed | None:
    """A `compile_error` that names the line of the first forbidden construct, or None."""
    return source_rules.check_source(source, C, headers, "use the command macros")
