"""Kernels in Triton without Triton: what a text may say, what is believed of its process."""

from __future__ import annotations

import copy
import importlib.util
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tilewright.core.errors import ToolchainMissingError, UnknownNameError, WorkloadError
from tilewright.core.records import Failed
from tilewright.core.templates import parse_template
from tilewright.evaluation import worker_process
from tilewright.parts.languages import PYTHON
from tilewright.targets.cuda.nvcc import Nvcc
from tilewright.targets.cuda.other_python import FoundPython
from tilewright.targets.cuda.triton import create_target, process
from tilewright.targets.cuda.triton.evaluator import ptx_version
from tilewright.targets.cuda.triton.host_code import host_code
from tilewright.targets.cuda.triton.process import _failed, find_triton
from tilewright.targets.cuda.triton.recorded import read_record
from tilewright.targets.cuda.triton.rules import refused
from tilewright.targets.cuda.triton.target import FOLDER

GEMM = create_target().open("gemm-64x64x64", {})
EDGES = {
    "gemm": "gemm-50x40x70",
    "matmul3d": "matmul3d-2x33x20x40",
    "softmax": "softmax-9x130",
    "rowsum": "rowsum-9x132",
    "chain": "chain-7x100",
    "stencil": "stencil-37x70",
    "conv2d": "conv2d-2x3x12x10x20-k3x2s2p1",
    "conv2dbias": "conv2dbias-1x3x16x16x18-k5x5s3p2",
}
"""Shapes that no tile divides."""
CODE = """
.version 9.0
.target sm_90a
.visible .entry product(
	.param .u64 .ptr .global .align 1 product_param_0,
	.param .u32 product_param_1,
	.param .u64 .ptr .global .align 1 product_param_2
)
"""
LAUNCH = {
    "launch": "product", "code": 0, "grid": [4, 2, 1], "threads": 128, "shared": 60000, "line": 9,
    "given": [{"array": [1, 16]}, {"whole": 7, "type": "i32"}],
}  # fmt: skip
REPORT: dict[str, Any] = {
    "codes": [CODE], "events": [{"zero": [2, 0], "bytes": 64}, LAUNCH], "allocated": [64],
}  # fmt: skip


def starts() -> list[str]:
    return sorted(path.stem for path in (FOLDER / "library").glob("*.py"))


@pytest.mark.parametrize("kind", starts())
def test_starting_kernels_keep_the_rules(kind: str) -> None:
    names = [
        n
        for n in create_target().workloads()
        if (n.startswith(f"{kind}-") and "x1" in n) or "x4" in n
    ]
    for name in [n for n in names if n.startswith(f"{kind}-") and n[len(kind) + 1].isdigit()]:
        start = create_target().open(name, {}).start
        assert refused(start) is None
        assert "PARAMETERS" not in start
        assert "{" not in start


@pytest.mark.parametrize("spec", sorted(EDGES.values()))
def test_instances_of_templates_keep_the_rules(spec: str) -> None:
    for precision in ("", "tf32"):
        settings = {"target_settings": {"precision": precision}} if precision else {}
        templates = create_target().open(spec, settings).templates()
        assert len(templates) == (2 if precision and spec[0] in "gmc" and spec[1] != "h" else 1)
        for text in templates.values():
            template = parse_template(text, PYTHON.templates)
            assert template is not None
            for point in random.Random(spec).sample(template.points(), 5):
                source = template.instance(template.assignment(point))
                assert refused(source) is None
                assert not re.search(r"\{[A-Z]+\}|PARAMETERS|tune", source.replace("tune_", ""))


def test_hostile_kernels_keep_the_rules() -> None:
    for text in GEMM.hostile_kernels().values():
        assert refused(text) is None


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("import triton\n", "import triton\nimport os\n", "import os"),
        ("import triton\n", "import triton\nimport numpy as np\n", "import numpy"),
        ("import triton\n", "import triton\nfrom triton import *\n", "import"),
        ("@triton.jit", "@triton.autotune(configs=[], key=[])\n@triton.jit", "autotune"),
        ("@triton.jit", "@print\n@triton.jit", "@triton.jit"),
        ("    product[grid]", "    A.__class__\n    product[grid]", "__class__"),
        ("    product[grid]", "    open('/etc/passwd')\n    product[grid]", "open is not defined"),
        ("    product[grid]", "    eval('1')\n    product[grid]", "eval is not defined"),
        ("    product[grid]", "    product.fn\n    product[grid]", ".fn"),
        ("    product[grid]", "    '{0.room}'.format(A)\n    product[grid]", ".format"),
        ("    product[grid]", "    A.shape = 3\n    product[grid]", ".shape"),
        ("    product[grid]", "    import os\n    product[grid]", "top level"),
        ("    product[grid]", "    triton = 3\n    product[grid]", "is redefined"),
        ("    product[grid]", "    with A:\n        pass\n    product[grid]", "with"),
        ("tl.arange", "tl.core.arange", "tl.core"),
        ("left = tl.load", "left = rows.handle or tl.load", ".handle"),
        ("triton.cdiv", "triton.runtime.cdiv", "triton.runtime"),
        ("def kernel(", "def other(", "no launcher"),
        ("import triton\n", "import torch\nimport triton\nx = torch.ops\n", "torch.ops"),
        ("import triton\n", "import triton\nclass Any:\n    pass\n", "top level"),
        ("import triton\n", "import triton\nkernel((", "not valid Python"),
    ],
)  # fmt: skip
def test_what_could_reach_beyond_the_kernel_is_refused(old: str, new: str, says: str) -> None:
    text = GEMM.start
    assert old in text
    failed = refused(text.replace(old, new, 1))
    assert failed is not None
    assert failed.kind == "compile_error"
    assert says in failed.log


def test_a_deep_text_is_refused() -> None:
    failed = refused(f"x = {'-' * 3000}1\n" + GEMM.start)
    assert failed is not None


def test_what_a_launcher_did_becomes_host_code() -> None:
    arguments = GEMM.workload.arguments[:2]
    recorded = read_record(REPORT, [1024, 1024])
    assert (recorded.launches[0].line, recorded.launches[0].dynamic_shared_bytes) == (9, 60000)
    text = host_code(recorded, [b"\x01\xff"], arguments, {"M": 64})
    assert "tw_code0[] = {1,255};" in text
    assert "void kernel(const float *A, const float *B, int M = 64) {" in text
    for said in (
        "cudaMallocAsync(&tw_array2, 64ULL, 0)",
        "cudaMemsetAsync((void *)((char *)tw_array2 + 0LL), 0, 64ULL, 0);",
        "void *tw_given1_0 = (void *)((char *)B + 16LL);",
        "int tw_given1_1 = (int)((long long)7ULL);",
        "{&tw_given1_0, &tw_given1_1, &tw_none1}",
        "dim3(4, 2, 1), dim3(128), tw_taken1, 60000, 0);",
        "cudaFreeAsync(tw_array2, 0);",
    ):
        assert said in text, text


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("codes",), 3),
        (("codes",), ["x" * 10]),
        (("allocated",), [-1]),
        (("allocated",), [1 << 60]),
        (("allocated",), [True]),
        (("events", 1, "code"), 1),
        (("events", 1, "grid"), [1, 2]),
        (("events", 1, "grid"), [1, 1, 70000]),
        (("events", 1, "threads"), 2048),
        (("events", 1, "threads"), "128); exit(0); ("),
        (("events", 1, "launch"), 'x"); exit(0); ("'),
        (("events", 1, "launch"), "other"),
        (("events", 1, "given"), [{"array": [1, 4096]}, {"whole": 7, "type": "i32"}]),
        (("events", 1, "given"), [{"array": [9, 0]}, {"whole": 7, "type": "i32"}]),
        (("events", 1, "given"), [{"array": [1, 0]}, {"whole": "exit(0)", "type": "i32"}]),
        (("events", 1, "given"), [{"array": [1, 0]}, {"whole": 1, "type": "int)exit(0);("}]),
        (("events", 1, "given"), [{"array": [1, 0]}, {"real": "exit(0)", "type": "fp32"}]),
        (("events", 1, "given"), [{"array": [1, 0]}] * 4),
        (("events", 0, "bytes"), 65),
        (("events",), [LAUNCH] * 2000),
    ],
)
def test_a_record_that_cannot_be_true_is_refused(path: tuple[Any, ...], value: object) -> None:
    report: Any = copy.deepcopy(REPORT)
    at = report
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
        read_record(report, [1024, 1024])


@pytest.mark.parametrize(
    ("said", "stage", "kind"),
    [
        (
            {"type": "MemoryFaultError", "kind": "race", "names": [], "message": "m"},
            "check",
            "race",
        ),
        ({"type": "NotCheckedError", "names": ["NotCheckedError"]}, "build", "not_checked"),
        ({"type": "CompilationError", "names": ["CompilationError"]}, "build", "compile_error"),
        ({"type": "OutOfResources", "names": ["OutOfResources"]}, "build", "launch_failure"),
        ({"type": "KeyError", "names": ["KeyError"]}, "check", "not_checked"),
        ({"type": "AssertionError", "names": ["AssertionError"]}, "check", "crash"),
        ("nonsense", "check", "not_checked"),
        ({"line": "7", "names": 3 * ["x"], "message": {"a": 1}}, "check", "not_checked"),
    ],
)
def test_every_answer_of_the_process_is_a_typed_failure(
    said: object, stage: str, kind: str
) -> None:
    failed = _failed(said, stage)
    assert failed.kind == kind
    assert failed.line is None


def test_a_missing_triton_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(process.VARIABLE, "/no-python")
    find_triton.cache_clear()
    try:
        with pytest.raises(
            ToolchainMissingError, match=r"/no-python cannot import triton .* pip ins"
        ):
            find_triton()
    finally:
        find_triton.cache_clear()


def test_workers_find_the_same_triton() -> None:
    assert process.VARIABLE in worker_process._PASSED_ON


def test_workloads_without_a_starting_kernel_say_so() -> None:
    target = create_target()
    assert "conv3d-NxCxDxHxWxK-kR" not in target.workloads()
    with pytest.raises(WorkloadError, match="Use cuda:conv3d"):
        target.open("conv3d-1x3x8x8x8x8-k3", {})
    with pytest.raises(UnknownNameError):
        target.open("nothing-1x2", {})


def test_the_assembler_reads_what_its_toolkit_knows() -> None:
    versions = {"13.0.88": 90, "13.1.2": 91, "12.4.131": 84, "12.8.90": 87}
    for version, ptx in versions.items():
        assert ptx_version(Nvcc("", f"nvcc {version}", None)) == ptx  # type: ignore[arg-type]


@pytest.fixture
def arrays() -> Iterator[Any]:
    """The stand-in for PyTorch, imported as the contained process does."""
    before = sys.modules.get("torch")
    spec: Any = importlib.util.spec_from_file_location(
        "contained_arrays", FOLDER / "contained" / "arrays.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["contained_arrays"] = module
    spec.loader.exec_module(module)
    yield module
    for name, known in {"torch": before, "contained_arrays": None}.items():
        sys.modules.pop(name, None)
        if known is not None:
            sys.modules[name] = known


def test_arrays_know_their_shape_and_compute_nothing(arrays: Any) -> None:
    zeroed: list[Any] = []
    arrays.install(lambda size, item: arrays.Room(5, 1 << 20, size), zeroed.append)
    torch = sys.modules["torch"]
    made = torch.zeros(4, 6, device="cuda", dtype=torch.float16)
    assert (made.shape, made.stride(), made.room.size) == ((4, 6), (6, 1), 48)
    assert zeroed == [made]
    assert made.t().stride() == (1, 6)
    assert made.view(-1, 3).shape == (8, 3)
    assert str(made.dtype) == "torch.float16"
    for asked in (
        lambda: torch.matmul(made, made),
        lambda: made.sum(),
        lambda: made.t().contiguous(),
        lambda: torch.empty(3),
    ):
        with pytest.raises(arrays.NotCheckedError):
            asked()


def test_a_process_that_says_nothing_is_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilewright.sandbox import find_sandbox

    roots = [Path(sys.prefix), Path(sys.base_prefix)]
    found = FoundPython(sys.executable, "none", find_sandbox(roots, [sys.executable, "-c", ""]))
    monkeypatch.setattr(process, "find_triton", lambda: found)
    for text, kind in {
        "raise SystemExit(3)": "crash",
        "open('report.json', 'w').write('[1]')": "crash",
        "open('report.json', 'w').write('{\"codes\": 3}')": "crash",
    }.items():
        (tmp_path / "program.py").write_text(text)
        monkeypatch.setattr(process, "_CONTAINED", tmp_path)
        failed = process.record("", GEMM.workload.arguments, (1, 1, 1), 90, 90, 1 << 16, 30.0)
        assert isinstance(failed, Failed)
        assert failed.kind == kind
    ran = process.interpret("", GEMM.workload.arguments, (1, 1, 1), [], 30.0)
    assert ran.failed is None or ran.failed.kind == "crash"


def test_the_brief_declares_every_failure_of_the_interpreter() -> None:
    assert create_target().brief().failure_kinds >= process._KINDS
