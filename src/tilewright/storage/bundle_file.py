"""The file format of evidence bundles: one compressed JSON document with a digest.

Layout: 8 bytes of magic, version and length of the packed document (little-endian, 4 and 8 bytes),
SHA-256 of all the rest, the document compressed by zlib. Every changed, missing or added byte is
detected. Anyone who forges a bundle can also write a new digest, so `verify` relies on nothing in
the file.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

from tilewright.core.errors import InputError

FORMAT = 1
_MAGIC = b"TWBUNDLE"
_HEAD = struct.Struct("<8sIQ")
_DIGEST_BYTES = 32
MAX_BYTES = 64 << 20
"""Maximum size of the document, so that a small compressed file cannot fill the memory. Real
documents are smaller.
"""

MOST_VALUES = 4_000_000
"""Maximum number of values in the document, counted by separators, including those in texts. 64 MiB
of empty lists would need 2 GB of memory.
"""

_AGAIN = "ask its author for it again"


def pack(document: Mapping[str, object]) -> bytes:
    """The bundle file with this document. Equal documents give equal files. `InputError` if the
    document is too large.
    """
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    if len(text) > MAX_BYTES:
        raise InputError(
            f"the evidence takes {len(text) >> 20} MiB, but a bundle may contain at most "
            f"{MAX_BYTES >> 20} MiB. Bundle a run with fewer steps or a smaller kernel."
        )
    packed = zlib.compress(text, 9)
    head = _HEAD.pack(_MAGIC, FORMAT, len(packed))
    return head + _digest(head, packed) + packed


def unpack(data: bytes, name: str) -> dict[str, Any]:
    """The document of the file `name`; `InputError` says what is wrong with it."""
    start = _HEAD.size + _DIGEST_BYTES
    if len(data) < start or not data.startswith(_MAGIC):
        raise InputError(
            f"{name} is not a bundle, or it is truncated. Give a file that "
            f"`tilewright bundle` wrote; {_AGAIN}."
        )
    _, version, length = _HEAD.unpack_from(data)
    packed = data[start:]
    intact = data[_HEAD.size : start] == _digest(data[: _HEAD.size], packed)
    if intact and version > FORMAT:
        raise InputError(
            f"{name} has format {version}, and this version of tilewright knows up to {FORMAT}. "
            "Verify it with a newer version."
        )
    if len(packed) < length:
        raise InputError(
            f"{name} is truncated ({len(packed)} of {length} bytes of evidence): {_AGAIN}."
        )
    if not intact or version != FORMAT or len(packed) != length:
        raise InputError(f"{name} was changed after it was written (its digest differs): {_AGAIN}.")
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(packed, MAX_BYTES)
        is_whole = unpacker.eof and sum(map(text.count, (b",", b"[", b"{"))) <= MOST_VALUES
        document = json.loads(text) if is_whole else None
    except (zlib.error, ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise InputError(f"{name} contains no readable evidence: {_AGAIN}.")
    return document


def _digest(head: bytes, packed: bytes) -> bytes:
    return hashlib.sha256(head + packed).digest()
