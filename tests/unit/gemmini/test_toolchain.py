"""Which compiler is used, and what is said when there is none; no compiler is run."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilewright.core.errors import ToolchainMissingError
from tilewright.targets.gemmini import create_target, simulator, toolchain


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    toolchain.find_toolchain.cache_clear()
    yield
    toolchain.find_toolchain.cache_clear()


@pytest.fixture
def no_zig(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


@pytest.fixture
def empty_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def fake_gcc(folder: Path, version: str) -> None:
    script = folder / toolchain.GCC
    script.write_text(f"#!/bin/sh\necho '{version}'\ncase $1 in --version) ;; *) exit 1;; esac\n")
    script.chmod(0o755)


@pytest.mark.usefixtures("no_zig", "empty_path")
def test_no_compiler_says_how_to_get_one() -> None:
    with pytest.raises(ToolchainMissingError) as raised:
        toolchain.find_toolchain()
    text = str(raised.value)
    assert "apt install gcc-riscv64-unknown-elf" in text
    assert "pip install 'tilewright[toolchain]'" in text
    assert "\n" not in text


@pytest.mark.usefixtures("no_zig", "empty_path")
def test_doctor_reports_a_missing_compiler() -> None:
    rows = {name: (usable, text) for name, usable, text in create_target().doctor()}
    assert rows["RISC-V compiler"] == (False, toolchain.HOW_TO_GET)


def test_gcc_on_path_comes_first(empty_path: Path) -> None:
    fake_gcc(empty_path, "riscv64-unknown-elf-gcc (test) 99.1")
    found = toolchain.find_toolchain()
    assert found.id == "riscv64-unknown-elf-gcc (test) 99.1"
    assert found.command == (str(empty_path / toolchain.GCC),)
    assert "-march=rv64imafd" in found.compile_flags


def test_a_broken_compiler_says_so(empty_path: Path) -> None:
    fake_gcc(empty_path, "riscv64-unknown-elf-gcc (test) 99.2")
    found = toolchain.find_gcc()
    assert found is not None
    with pytest.raises(ToolchainMissingError, match="cannot compile RISC-V code"):
        toolchain.compile_kernel(found, "void kernel(void) {}", "", 5.0)


@pytest.mark.usefixtures("empty_path")
def test_zig_is_used_without_gcc() -> None:
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("ziglang is not installed")
    assert toolchain.find_toolchain().id.startswith("zig cc ")


def test_an_opened_task_needs_neither_compiler_nor_simulator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing() -> None:
        raise ToolchainMissingError("no")

    monkeypatch.setattr(toolchain, "find_toolchain", missing)
    monkeypatch.setattr(simulator, "load_sim", missing)
    assert "kernel" in create_target().open("gemm-16x16x16", {}).start


GNU_TWICE = """/usr/riscv/bin/ld: runtime.o: in function `memcpy':
././runtime.c:11: multiple definition of `memcpy'; ./ccQ2WQy5.o:././kernel.c:1: first defined here
collect2: error: ld returned 1 exit status
"""
LLD_TWICE = """ld.lld: error: duplicate symbol: memcpy
>>> defined at kernel.c:1
>>> defined at runtime.c:11
"""
GNU_MISSING = """kernel.c:2:9: warning: implicit declaration of function 'malloc'
/usr/riscv/bin/ld: ./ccDJQkkM.o: in function `kernel':
././kernel.c:2: undefined reference to `malloc'
collect2: error: ld returned 1 exit status
"""
LLD_MISSING = """ld.lld: error: undefined symbol: malloc
>>> referenced by kernel.c:2
"""


@pytest.mark.parametrize("log", [GNU_TWICE, LLD_TWICE])
def test_a_name_that_the_program_defines_too_is_named_without_the_linkers_output(log: str) -> None:
    failed = toolchain.failure_of(log)
    assert failed.kind == "link_error"
    assert failed.log == (
        "the kernel defines memcpy, which every kernel's program defines: rename it."
    )


@pytest.mark.parametrize("log", [GNU_MISSING, LLD_MISSING])
def test_a_missing_function_is_named_without_the_linkers_output(log: str) -> None:
    failed = toolchain.failure_of(log)
    assert (failed.kind, failed.line) == ("link_error", 2)
    assert failed.log.splitlines()[-1].startswith("the kernel uses malloc, which it does not defin")
    assert "ld" not in failed.log.replace(":", " ").split()
    assert "collect2" not in failed.log
    assert ("implicit declaration" in failed.log) == ("implicit declaration" in log)


def test_the_headers_of_the_target_include_only_one_another() -> None:
    target = create_target()
    headers = target.headers()
    included = {name for text in headers.values() for name in re.findall('#include "(.*)"', text)}
    assert included == {"configuration.h"}
    assert included | {"gemmini.h", "string.h"} <= set(headers)
    assert headers["configuration.h"] == target.instance.header
