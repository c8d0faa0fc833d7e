"""Says which of the packages that the pack counts on are missing on this machine; exit 1 if any.

The pack brings TVM, its foreign-function layer and xgboost without what those need themselves, to
keep small what has to be carried. Standard library only, so that it always runs.

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
