"""The hash that identifies records of equal content."""

from __future__ import annotations

import hashlib


def content_id(*parts: str) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of the parts and their lengths."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:16]
