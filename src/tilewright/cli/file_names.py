"""Messages about a kernel name the file that the user gave."""

from __future__ import annotations

import re
from pathlib import Path

_PLACE = re.compile(r"\bkernel\.\w+(?=:\d|\(\d|: )|^line (?=\d+: )")
"""The name under which a kernel is compiled or parsed, if a place in it or a message follows it, or
a place without a name at the start of the text.
"""


def with_file_name(text: str, file: Path) -> str:
    """The text with the name of the user's file in each place in the kernel.

    Kernels are compiled and parsed under the name `kernel` with the suffix of their language.
    """
    return _PLACE.sub(lambda found: f"{file}:" if found[0] == "line " else str(file), text)
