"""What a Gemmini kernel's source may hold: the headers it may include, and no assembler."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.core.records import Failed
from tilewright.parts import source_rules
from tilewright.parts.languages import C

HEADERS = (
    "gemmini.h", "stdint.h", "stddef.h", "stdbool.h", "limits.h",
    "assert.h", "stdlib.h", "stdio.h", "string.h",
)  # fmt: skip
"""The only headers a candidate may include. There is no C library: runtime/ has the last four."""

LOOP_HEADERS = (*HEADERS, "gemmini_loops.h")
"""Those a baseline may include: the hardware loop unrollers are there to be compared with. As in
the published experiments, candidates issue their commands themselves."""


def check_source(source: str, headers: Sequence[str] = HEADERS) -> Failed | None:
    """A `compile_error` that names the line of the first forbidden construct, or None."""
    return source_rules.check_source(source, C, headers, "use the command macros")
