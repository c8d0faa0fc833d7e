"""What a kernel computes from distances between its own variables is found, and nothing else."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest

from tilewright.native.conditions import distances as module
from tilewright.native.conditions.distances import distances
from tilewright.native.conditions.examination import Examined, failure_of
from tilewright.native.toolchain import Listed, assembly_of, find_toolchain
from tilewright.parts.languages import C
from tilewright.parts.machine_code.post_dominance import TooLargeError

SOURCE = Path(__file__).with_name("distances.c").read_text()
needs_gcc = pytest.mark.skipif(
    platform.machine() != "x86_64" or shutil.which("gcc") is None or not find_toolchain().is_gcc,
    reason="only gcc writes GIMPLE, and kernels are examined on x86-64",
)


@pytest.fixture(scope="module")
def listed() -> Listed:
    found = assembly_of(find_toolchain(), SOURCE, 60.0)
    assert isinstance(found, Listed), found.log
    return found


@needs_gcc
def test_distances_are_found_and_honest_uses_of_addresses_are_not(listed: Listed) -> None:
    marked = {at for at, line in enumerate(SOURCE.splitlines(), 1) if line.endswith("// FOUND")}
    assert len(marked) == SOURCE.count("// FOUND")
    assert set(distances(listed, "kernel.c")) == marked


@needs_gcc
def test_members_of_a_union_share_their_place() -> None:
    source = """\
union place { char *address; float numbers[2]; };
void kernel(float *C) {
  volatile char x[24] = {1}, y[24] = {1}; union place both[2];
  both[0].address = (char *)x; both[1].address = (char *)y;
  C[0] = both[0].numbers[0] == both[1].numbers[0];
}
"""
    listed = assembly_of(find_toolchain(), source, 60.0)
    assert isinstance(listed, Listed), listed.log
    assert set(distances(listed, "kernel.c")) == {5}


@needs_gcc
def test_lines_of_other_files_have_no_number_or_are_left_out(listed: Listed) -> None:
    assert set(distances(listed, "other.c")) == {None}
    assert distances(listed, "other.c", only_own_lines=True) == []


@needs_gcc
def test_following_values_ends(listed: Listed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SWEEPS", 1)
    with pytest.raises(TooLargeError):
        distances(listed, "kernel.c")


def test_without_gimple_nothing_is_found() -> None:
    assert distances(Listed("kernel:\n\tret\n", ""), "kernel.c") == []


def test_the_failure_names_the_line_and_is_forgiven_only_with_such_a_start() -> None:
    found = Examined(distances=(7, 9))
    failed = failure_of(found, C)
    assert (failed.kind, failed.line) == ("untested_condition", 7)
    assert "where the compiler has placed a variable" in failed.log
    assert not Examined().allows(found)
    assert Examined(distances=(3,)).allows(found)
