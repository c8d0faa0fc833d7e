"""The binary digits that a kernel may keep where it need not keep those of float32."""

from __future__ import annotations

HALF = 8
"""Binary digits of bfloat16."""
TRANSPOSING = 11
"""Binary digits that float32 operands keep in a product with is_transpose."""
