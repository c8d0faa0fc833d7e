"""Lists the packages that the archive requires and that this machine lacks; exits with 1 if any.

To stay small, the archive contains TVM, its foreign-function layer and xgboost without their
dependencies. This script uses only the standard library, so that it always runs.

    python benchmarks/gpu/needs.py
"""

from __future__ import annotations

import importlib.util
import sys

NEEDED = ("numpy", "scipy", "ml_dtypes", "typing_extensions")


def missing() -> list[str]:
    """Modules of `NEEDED` that this Python cannot import."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def main() -> int:
    absent = missing()
    if absent:
        print(
            f"this machine's Python ({sys.executable}) lacks {', '.join(absent)}: the pack counts "
            f"on {', '.join(NEEDED)} being installed here; install what is missing, or name "
            "another Python by PYTHON."
        )
    return 1 if absent else 0


if __name__ == "__main__":
    sys.exit(main())
