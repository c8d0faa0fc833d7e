"""A bundle's file: what was packed comes back, and no byte changes unnoticed."""

from __future__ import annotations

import hashlib
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core.errors import InputError
from tilewright.storage.bundle_file import FORMAT, pack, unpack

DOCUMENT = {"winner": "void kernel(void) {}\n" * 20, "numbers": [1, 2.5, None], "run": {"id": "x"}}
FILE = pack(DOCUMENT)

json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), json, max_size=5))
def test_documents_come_back(document: dict[str, object]) -> None:
    assert unpack(pack(document), "x.twb") == document


@pytest.mark.parametrize("place", range(len(FILE)))
def test_every_byte_counts(place: int) -> None:
    for bit in (1, 128):
        changed = bytearray(FILE)
        changed[place] ^= bit
        with pytest.raises(InputError):
            unpack(bytes(changed), "x.twb")


@given(st.data())
def test_any_other_bytes_are_detected(data: st.DataObject) -> None:
    changed = bytearray(FILE)
    places = data.draw(st.sets(st.integers(0, len(FILE) - 1), min_size=1, max_size=8))
    for place in places:
        changed[place] = data.draw(st.integers(0, 255).filter(lambda b, p=place: b != FILE[p]))
    with pytest.raises(InputError):
        unpack(bytes(changed), "x.twb")


@pytest.mark.parametrize("length", [0, 1, 7, 20, 51, 52, 60, len(FILE) - 1])
def test_truncated_files_say_so(length: int) -> None:
    with pytest.raises(InputError, match="truncated"):
        unpack(FILE[:length], "x.twb")


def test_added_bytes_are_detected() -> None:
    with pytest.raises(InputError, match="changed after it was written"):
        unpack(FILE + b"x", "x.twb")


@given(st.binary(max_size=200))
def test_other_files_are_no_bundles(data: bytes) -> None:
    with pytest.raises(InputError, match=r"x\.twb"):
        unpack(data, "x.twb")


def with_head(version: int, packed: bytes) -> bytes:
    """A file whose digest is right, whoever wrote it."""
    head = struct.pack("<8sIQ", b"TWBUNDLE", version, len(packed))
    return head + hashlib.sha256(head + packed).digest() + packed


def test_a_newer_format_says_so() -> None:
    with pytest.raises(InputError, match=f"has format {FORMAT + 1}.*newer version"):
        unpack(with_head(FORMAT + 1, b"whatever"), "x.twb")


EVIDENCE = {
    "empty": lambda: b"",
    "no zlib": lambda: b"no zlib",
    "no json": lambda: zlib.compress(b"no json"),
    "a list": lambda: zlib.compress(b"[1]"),
    "cut inside": lambda: zlib.compress(b"{}")[:-2],
    "a flood": lambda: zlib.compress(b" " * (300 << 20), 1),
    "many empty lists": lambda: zlib.compress(b'{"a":[' + b"[]," * (3 << 20) + b"[]]}", 1),
}
"""Functions, so that what is large is made by the process that runs the test."""


@pytest.mark.parametrize("kind", EVIDENCE)
def test_evidence_that_cannot_be_read(kind: str) -> None:
    with pytest.raises(InputError, match="contains no readable evidence"):
        unpack(with_head(FORMAT, EVIDENCE[kind]()), "x.twb")
