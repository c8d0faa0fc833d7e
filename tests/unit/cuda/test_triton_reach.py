"""What a Triton file must not reach or keep, and launches no GPU would do; without Triton."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.targets.cuda.triton import create_target
from tilewright.targets.cuda.triton.rules import refused
from tilewright.targets.cuda.triton.target import FOLDER

START = create_target().open("gemm-64x64x64", {}).start
JIT, LAUNCH = "@triton.jit", "    product[grid]"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (JIT, f"t = triton\n{JIT}", "triton is a module"),
        (JIT, f"t = triton.language\n{JIT}", "triton.language is a module"),
        (LAUNCH, f"    (lambda m: m)(triton)\n{LAUNCH}", "triton is a module"),
        (LAUNCH, f"    m = tl.math\n{LAUNCH}", "tl.math is a module"),
        (LAUNCH, f"    tl.math.core\n{LAUNCH}", "tl.math.core"),
        (LAUNCH, f"    triton.language.math.wraps\n{LAUNCH}", "math.wraps"),
        (LAUNCH, f"    triton.language.core\n{LAUNCH}", "tl.core"),
        (LAUNCH, f"    product.used_global_vals\n{LAUNCH}", ".used_global_vals"),
        (LAUNCH, f"    product.parse()\n{LAUNCH}", ".parse"),
        (LAUNCH, f"    product[grid](A).asm\n{LAUNCH}", ".asm"),
        (LAUNCH, f"    A.data_ptr()\n{LAUNCH}", ".data_ptr"),
        (LAUNCH, f"    A.room\n{LAUNCH}", ".room"),
        (JIT, f"kept = []\n{JIT}", "`[]` outlives a call"),
        (JIT, f"kept = (1, {{}})\n{JIT}", "outlives a call"),
        (JIT, f"kept = list((1,))\n{JIT}", "outlives a call"),
        (JIT, f"kept = tl.constexpr([1])\n{JIT}", "outlives a call"),
        (JIT, f"kept = lambda seen=[]: seen\n{JIT}", "outlives a call"),
        (JIT, f"kept: tuple = enumerate((1, 2))\n{JIT}", "outlives a call"),
        ("def kernel(A, B, C", "def kernel(A, B, C, seen=[]", "outlives a call"),
        ("def kernel(A, B, C", "def kernel(A, B, C, *, seen={}", "outlives a call"),
    ],
)  # fmt: skip
def test_nothing_reaches_a_module_or_outlives_a_call(old: str, new: str, says: str) -> None:
    assert old in START
    failed = refused(START.replace(old, new, 1))
    assert failed is not None
    assert failed.kind == "compile_error"
    assert says in failed.log


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (JIT, f"TILES = (64, -1, 2 ** 3)\nWIDE = tl.constexpr(triton.cdiv(9, 2))\n{JIT}"),
        (JIT, f"LOG = math.log2(8)\nHALF = lambda n, by=2: [n // by]\n{JIT}"),
        (JIT, f"@triton.heuristics(values={{'EVEN': lambda a: a['K'] % 64 == 0}})\n{JIT}"),
        (LAUNCH, f"    words = [1]\n    words.append(A.stride(0))\n{LAUNCH}"),
        ("left = tl", "left = tl.math.exp(0.0) * triton.language"),
        ("left = tl.load", "left = rows.to(A.dtype.element_ty).sum(axis=0) * tl.load"),
    ],
)
def test_what_a_kernel_needs_is_allowed(old: str, new: str) -> None:
    assert old in START
    assert refused("import math\n" + START.replace(old, new, 1)) is None


@pytest.fixture
def program() -> Iterator[Any]:
    """The contained process as a module, without anything of Triton."""
    before, path = dict(sys.modules), list(sys.path)
    spec: Any = importlib.util.spec_from_file_location(
        "contained_program", FOLDER / "contained" / "program.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = path
    for name in ("arrays", "kernel", "memory"):
        sys.modules.pop(name, None)
        if name in before:
            sys.modules[name] = before[name]


@pytest.mark.parametrize(
    ("grid", "says"),
    [
        (4, "a tuple of one to three"),
        ((), "a tuple of one to three"),
        ((1, 1, 1, 1), "a tuple of one to three"),
        ((2.0, 1), "not an integer"),
        ((-1, 1), "not possible"),
        ((1, 65536), "not possible"),
        ((1 << 31,), "not possible"),
    ],
)
def test_a_grid_that_no_gpu_takes_is_refused(program: Any, grid: object, says: str) -> None:
    with pytest.raises(program._arrays.LauncherError, match=says) as raised:
        program._arrays.extents(grid)
    assert program._failed(raised.value)["kind"] == "launch_failure"


def test_a_grid_is_completed(program: Any) -> None:
    assert program._arrays.extents((7,)) == (7, 1, 1)
    assert program._arrays.extents([0, 65535]) == (0, 65535, 1)


def test_inputs_are_not_filled_with_zeros(program: Any) -> None:
    arrays = program._arrays
    given = [
        arrays.Array(arrays.Room(n, n << 20, 64), arrays.Dtype("float32"), (16,)) for n in (1, 2)
    ]
    job = {"arguments": [{"name": "A", "role": "input"}, {"name": "C", "role": "output"}]}
    zeroed: list[Any] = []
    fill = program._zeroing(job, given, zeroed.append)
    fill(given[1])
    assert zeroed == [given[1]]
    with pytest.raises(arrays.LauncherError, match=r"writes to an input \(A\)") as raised:
        fill(given[0].view(4, 4))
    assert raised.value.kind == "input_modified"
    assert len(zeroed) == 1


@pytest.mark.parametrize(
    ("parameters", "sizes", "allowed"),
    [
        ("A, C, M=1", [1], True),
        ("A, C, *sizes", [1], True),
        ("A, C, M=1", [], True),
        ("A, C", [1], False),
        ("A, C, M=1, N=1", [1], False),
        ("A, B, C", [], False),
        ("A", [], False),
        ("A, B, C, *rest", [], False),
    ],
)
def test_a_launcher_takes_what_it_is_called_with(
    program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parameters: str,
    sizes: list[int], allowed: bool,
) -> None:  # fmt: skip
    (tmp_path / "kernel.py").write_text(f"def kernel({parameters}):\n    return 5\n")
    monkeypatch.setattr(program, "FILE", tmp_path / "kernel.py")
    job = {"arguments": [{"name": "A"}, {"name": "C"}], "sizes": sizes}
    if allowed:
        assert program._launcher(job)(None, None, *sizes) == 5
        return
    with pytest.raises(program._arrays.LauncherError, match=r"2 arrays \(A, C\) and"):
        program._launcher(job)


def test_what_no_one_wrote_in_this_call_is_not_read(program: Any) -> None:
    class Native:
        def load(self, pointers: Any, *rest: Any) -> Any:
            return np.zeros(np.shape(pointers))

        def store(self, *given: Any) -> None:
            pass

    module: Any = importlib.import_module("memory")
    memory = module.Memory(Native())

    def read(first: int, count: int) -> None:
        memory.load(np.arange(first, first + 4 * count, 4), np.ones(count, bool), None, np.float32)

    rooms = {role: program._arrays.Room(n, n << 12, 64)
             for n, role in enumerate(("input", "inout", "output"), 1)}  # fmt: skip
    for role, room in rooms.items():
        memory.add(room, role, 4, role)
    memory.program = 1
    read(rooms["input"].address, 16)
    read(rooms["inout"].address, 16)
    own = rooms["output"].address
    memory.store(np.arange(own, own + 8, 4), np.zeros(2, np.float32), np.ones(2, bool))
    read(own, 2)
    with pytest.raises(module.MemoryFaultError, match="element 2 of output") as raised:
        read(own, 3)
    assert raised.value.kind == "wrong_result"
    with pytest.raises(module.MemoryFaultError, match="element 2 of output"):
        memory.atomic_cas(np.array([own + 8]), None, np.zeros(1, np.float32), None)
    memory.filled(rooms["output"], 8, 4)
    read(own, 3)
    memory.clear()
    memory.add(rooms["output"], "output", 4, "output")
    with pytest.raises(module.MemoryFaultError, match="element 0 of output"):
        read(own, 1)
