"""Numbers of binary digits that a product keeps of its operands, if it keeps fewer than float32
has.
"""

from __future__ import annotations

HALF = 8
"""Binary digits of bfloat16."""
TRANSPOSING = 11
"""Binary digits that float32 operands keep in a product with is_transpose."""
