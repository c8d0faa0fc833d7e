"""Which compiler of this machine is used, and what is said where CC names none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tilewright.core.errors import ToolchainMissingError
from tilewright.native import toolchain


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    toolchain.find_toolchain.cache_clear()
    yield
    toolchain.find_toolchain.cache_clear()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder where programs are looked for, with a gcc and a compiler of another name."""
    for name in ("gcc", "mycc"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} 1.0\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("chosen", ["no-such-cc", "/nowhere/gcc", "gcc -m32", "ccache gcc"])
def test_cc_that_is_no_program_is_refused_in_a_sentence(
    chosen: str, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", chosen)
    with pytest.raises(ToolchainMissingError) as refused:
        toolchain.find_toolchain()
    said = str(refused.value)
    assert f"CC is {chosen!r}" in said
    assert "without arguments" in said
    assert "\n" not in said


@pytest.mark.parametrize(("chosen", "used"), [("mycc", "mycc"), ("", "gcc"), (None, "gcc")])
def test_cc_is_used_where_it_names_a_program(
    chosen: str | None, used: str, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if chosen is None:
        monkeypatch.delenv("CC", raising=False)
    else:
        monkeypatch.setenv("CC", chosen)
    found = toolchain.find_toolchain()
    assert (found.path, found.id) == (str(programs / used), f"{used} 1.0")


def test_without_any_compiler_the_sentence_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(ToolchainMissingError, match="apt install gcc"):
        toolchain.find_toolchain()
