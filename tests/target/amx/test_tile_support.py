"""Whether tiles may be used is asked of CPU and system, and the sandbox lets it be asked."""

from __future__ import annotations

import ctypes
import platform
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.native.machine import processor
from tilewright.native.toolchain import HARNESS, compile_program, find_toolchain
from tilewright.sandbox import Limits, find_sandbox, open_folder
from tilewright.targets.amx import create_int8_target, support
from tilewright.targets.amx.elements import INT8

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None or platform.machine() != "x86_64",
    reason="no C compiler for x86-64",
)
ASK = """\
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
  unsigned long mask = 0;
  errno = 0;
  long supported = syscall(SYS_arch_prctl, 0x1021, &mask);
  int asked = errno;
  errno = 0;
  long wanted = syscall(SYS_arch_prctl, 0x1023, 18);
  printf("%ld %d %lu %ld %d", supported, asked, mask >> 18 & 1, wanted, errno);
}
"""
EPERM = 1


def test_the_sandbox_lets_a_process_ask_for_tile_data() -> None:
    program = compile_program(find_toolchain(), ASK)
    with open_folder("tilewright-ask-") as name:
        (Path(name) / "ask").write_bytes(program)
        (Path(name) / "ask").chmod(0o755)
        finished = find_sandbox().run(["./ask"], Path(name), Limits(20.0))
    supported, asked, has_tiles, wanted, refused = map(int, finished.output.split())
    assert EPERM not in (asked, refused)
    assert (wanted == 0) == (supported == 0 and has_tiles == 1)


class _Libc:
    """Answers `syscall` with a result, an error number and a mask."""

    def __init__(self, result: int, error: int, mask: int) -> None:
        self._answer = result, error, mask

    def syscall(self, number: int, code: int, mask: object) -> int:
        result, error, value = self._answer
        ctypes.set_errno(error)
        mask._obj.value = value  # type: ignore[attr-defined]
        return result


@pytest.mark.parametrize(
    ("result", "error", "mask", "says"),
    [
        (0, 0, 1 << 17 | 1 << 18, None),
        (0, 0, 1 << 17, "does not save their data"),
        (-1, 22, 0, "5.16 or later"),
        (-1, 1, 0, "Operation not permitted.* allow arch_prctl"),
    ],
)
def test_the_system_may_refuse_tiles_that_the_cpu_has(
    monkeypatch: pytest.MonkeyPatch, result: int, error: int, mask: int, says: str | None
) -> None:
    known = processor()
    having = replace(known, features=known.features | {"amx_tile", "amx_int8", "amx_bf16"})
    monkeypatch.setattr(support, "processor", lambda: having)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: _Libc(result, error, mask))
    support.tile_data_refused.cache_clear()
    try:
        if says is None:
            assert support.refusal(INT8) is None
            return
        with pytest.raises(AssertionError, match=says):
            raise AssertionError(support.refusal(INT8))
        assert create_int8_target().doctor()[0][1] is None
        assert create_int8_target().versions()["tiles"].startswith("emulated")
    finally:
        support.tile_data_refused.cache_clear()


@pytest.mark.skipif(support.missing_feature(INT8) is None, reason="this CPU has tiles")
def test_a_process_that_gets_no_tiles_is_told_apart() -> None:
    """The program that calls kernels does not start them where tiles were promised and refused."""
    program = compile_program(find_toolchain(), HARNESS.read_text(), ("-DTILES",))
    with open_folder("tilewright-tiles-") as name:
        folder = Path(name)
        (folder / "harness").write_bytes(program)
        (folder / "harness").chmod(0o755)
        command = ["./harness", *("0" for _ in range(12))]
        assert find_sandbox().run(command, folder, Limits(20.0)).status == 7
