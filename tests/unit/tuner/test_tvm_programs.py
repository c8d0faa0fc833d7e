"""Reading programs, filling schedule spaces, and the numpy oracle. Needs the extra `tune`."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

if find_spec("tvm") is None:
    pytest.skip("needs the extra 'tune' (TVM)", allow_module_level=True)

from tilewright.core.errors import (
    ConfigurationError,
    InputError,
    OutputError,
    UnknownNameError,
    WorkloadError,
)
from tilewright.tuner.benchmark_set import benchmark_workload
from tilewright.tuner.space import TileSpace
from tilewright.tuner.structure import cpu_structure, gpu_structure
from tilewright.tuner.tvm import rules
from tilewright.tuner.tvm.analysis import analyse
from tilewright.tuner.tvm.oracle import expectation
from tilewright.tuner.tvm.programs import (
    Program,
    benchmark_program,
    conv2d,
    matmul,
    program_from_file,
)
from tilewright.tuner.tvm.result import check_folder
from tilewright.tuner.tvm.targets import parse_target
from tilewright.tuner.tvm.template import Template
from tilewright.tuning.comparison import read_runs
from tilewright.tuning.stored import kernel_in

FILE = """
from tvm import te, tirx, topi


def batched_relu():
    a, b = te.placeholder((2, 8, 6), name="A"), te.placeholder((2, 6, 16), name="B")
    bias = te.placeholder((16,), name="bias")
    k = te.reduce_axis((0, 6), name="k")
    c = te.compute((2, 8, 16), lambda n, i, j: te.sum(a[n, i, k] * b[n, k, j], axis=k), name="C")
    d = te.compute(
        (2, 8, 16), lambda n, i, j: tirx.max(c[n, i, j] + bias[j], tirx.const(0.0, "float32")), "D"
    )
    return te.create_prim_func([a, b, bias, d])


def depthwise():
    x, w = te.placeholder((1, 4, 9, 9), name="x"), te.placeholder((4, 1, 3, 3), name="w")
    return te.create_prim_func([x, w, topi.nn.depthwise_conv2d_nchw(x, w, 1, 1, 1)])


def conv3d():
    x, w = te.placeholder((1, 2, 5, 6, 6), name="x"), te.placeholder((4, 2, 3, 3, 3), name="w")
    return te.create_prim_func([x, w, topi.nn.conv3d_ncdhw(x, w, 1, 1, 1, 1)])


def softmax():
    x = te.placeholder((8, 8), name="x")
    return te.create_prim_func([x, topi.nn.softmax(x)])


def copy():
    x = te.placeholder((8, 8), name="x")
    return te.create_prim_func([x, te.compute((8, 8), lambda i, j: x[i, j] + x[i, j])])


def number():
    return 3


def leaving():
    raise SystemExit(0)


def broken():
    return 1 / 0
"""


@pytest.fixture(scope="module")
def workloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("programs") / "mine.py"
    file.write_text(FILE)
    return file


def _template(program: Program, target_text: str, restricted: bool) -> Template:
    target = parse_target(target_text)
    anatomy = analyse(program.function, program.name)
    make = gpu_structure if target.is_gpu else cpu_structure
    structure = make(anatomy.workload, restricted=restricted)
    context = rules.context(
        program.function, target, rules.template(target, structure), "replay-trace", 0
    )
    return Template(context, anatomy, structure)


@pytest.mark.parametrize("name", ["M0", "R0", "R4", "R5"])
def test_the_program_of_a_workload_is_the_workload(name: str) -> None:
    found = analyse(benchmark_program(name).function, name).workload
    expected = benchmark_workload(name)
    assert found.loops == expected.loops
    assert [a.dims for a in found.inputs] == [a.dims for a in expected.inputs]
    assert found.output.dims == expected.output.dims
    assert bool(found.padded) == bool(expected.padded)


@pytest.mark.parametrize("restricted", [False, True])
@pytest.mark.parametrize("name", ["M0", "R4", "Y9"])
def test_a_cpu_point_survives_the_way_through_a_schedule(name: str, restricted: bool) -> None:
    template = _template(benchmark_program(name), "cpu", restricted)
    space = TileSpace(template.anatomy.workload, template.structure)
    points = space.random(4, np.random.default_rng(1))
    for n in range(len(points)):
        schedule = template.schedule(points[[n]])
        assert schedule is not None
        back = template.points([schedule.trace])
        assert np.array_equal(back.tiles, points.tiles[[n]])
        assert np.array_equal(back.knobs[:, :2], points.knobs[[n]][:, :2])


def test_each_choice_of_write_cache_is_another_design_space() -> None:
    template = _template(matmul(64, 64, 64), "cpu", True)
    assert template.flush_levels == [0, 1, 2]


def test_a_gpu_point_becomes_a_kernel_of_that_shape() -> None:
    template = _template(matmul(512, 64, 1024), "nvidia/h100", True)
    space = TileSpace(template.anatomy.workload, template.structure)
    point = space.random(1, np.random.default_rng(0))
    tiles = point.tiles.copy()
    tiles[0] = [[16, 1, 8, 2, 2], [2, 1, 8, 4, 1], [64, 4, 4, 1, 1]]
    schedule = template.schedule(type(point)(tiles, point.knobs))
    assert schedule is not None
    text = str(schedule.mod)
    assert 'thread_binding(32, thread="blockIdx.x"' in text.replace("T.", "")
    assert 'thread_binding(64, thread="threadIdx.x"' in text.replace("T.", "")


@pytest.mark.parametrize("maker", ["batched_relu", "depthwise", "conv3d"])
def test_functions_from_a_file_are_tiled_and_evaluated(workloads: Path, maker: str) -> None:
    import tvm

    program = program_from_file(workloads, maker)
    template = _template(program, "cpu", True)
    point = TileSpace(template.anatomy.workload, template.structure).random(
        1, np.random.default_rng(0)
    )
    schedule = template.schedule(point)
    assert schedule is not None
    wanted = expectation(program.function, seed=3)
    kernel = tvm.compile(schedule.mod, target=template.context.target)
    arguments = [tvm.runtime.tensor(a) for a in wanted.arguments]
    kernel["main"](*arguments)
    found = arguments[wanted.output].numpy()
    assert np.abs(found - wanted.expected).max() <= wanted.bound
    assert np.abs(wanted.expected).max() > 1000 * wanted.bound


def test_the_oracle_agrees_with_numpy() -> None:
    wanted = expectation(matmul(8, 6, 5).function, seed=0)
    a, b, _ = wanted.arguments
    assert np.allclose(wanted.expected, a.astype(np.float64) @ b.astype(np.float64))
    assert wanted.output == 2


def test_the_oracle_follows_an_output_written_in_another_order() -> None:
    import tvm

    text = matmul(8, 6, 5).function.script().replace("C[v_i, v_j]", "C[v_j, v_i]")
    turned = tvm.script.from_source(text.replace("C: T.Buffer((8, 6)", "C: T.Buffer((6, 8)"))
    wanted = expectation(turned, seed=0)
    a, b, _ = wanted.arguments
    assert np.allclose(wanted.expected, (a.astype(np.float64) @ b.astype(np.float64)).T)


def test_the_oracle_pads_with_zeros() -> None:
    wanted = expectation(conv2d(1, 1, 3, 3, 1, 3, 1, 1).function, seed=0)
    image, kernel, _ = (np.asarray(a, np.float64)[0, 0] for a in wanted.arguments)
    assert wanted.expected[0, 0, 0, 0] == pytest.approx((image[:2, :2] * kernel[1:, 1:]).sum())


@pytest.mark.parametrize(
    ("maker", "error", "words"),
    [
        ("softmax", WorkloadError, "reduction"),
        ("copy", WorkloadError, "no reduction blocks"),
        ("number", InputError, "int"),
        ("broken", InputError, "ZeroDivisionError"),
        ("absent", InputError, "defines no 'absent'"),
        ("leaving", InputError, "SystemExit"),
    ],
)
def test_functions_that_cannot_be_tiled_are_refused(
    workloads: Path, maker: str, error: type[Exception], words: str
) -> None:
    def read() -> None:
        analyse(program_from_file(workloads, maker).function, maker)

    with pytest.raises(error, match=words):
        read()


def test_a_file_that_ends_the_process_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ending.py").write_text("raise SystemExit(0)")
    with pytest.raises(InputError, match="fails when it is read: SystemExit"):
        program_from_file(tmp_path / "ending.py", "make")


@pytest.mark.parametrize("name", ["result.json", "trace.json"])
@pytest.mark.parametrize("kind", ["pipe", "device", "deep", "bytes"])
def test_files_that_are_no_results_hold_no_kernel(tmp_path: Path, name: str, kind: str) -> None:
    target = parse_target("cpu")
    facts = {"workload": "w", "target": json.loads(target.text), "threads": target.threads}
    (tmp_path / "result.json").write_text(json.dumps({**facts, "run": "r", "seconds": 1}))
    (tmp_path / "trace.json").write_text("[]")
    assert [kernel.seconds for kernel in kernel_in(tmp_path, "w", target)] == [1.0]
    check_folder(tmp_path)
    (tmp_path / name).unlink()
    if kind == "pipe":
        os.mkfifo(tmp_path / name)
    elif kind == "device":
        (tmp_path / name).symlink_to("/dev/zero")
    else:
        (tmp_path / name).write_bytes(b"[" * 100_000 if kind == "deep" else b"\xff")
    assert kernel_in(tmp_path, "w", target) == []
    if kind in ("pipe", "device"):
        with pytest.raises(OutputError, match=f"{name} is not a regular file"):
            check_folder(tmp_path)


@pytest.mark.parametrize("line", ["{}", '{"workload": 3}', '{"key": 1, "samples": null}'])
def test_lines_that_are_no_runs_are_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "runs.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match="a line that tilewright did not write"):
        read_runs(tmp_path)


def test_arguments_that_numpy_cannot_stand_for_are_refused() -> None:
    import tvm

    text = matmul(8, 6, 5).function.script()
    number = tvm.script.from_source(text.replace('"float32")):', '"float32"), n: T.int32):'))
    with pytest.raises(
        WorkloadError, match="has the parameter n, which is a number and not a buffer"
    ):
        analyse(number, "mine")
    brain = tvm.script.from_source(
        text.replace('"float32"', '"bfloat16"').replace("T.float32", "T.bfloat16")
    )
    with pytest.raises(WorkloadError, match="A as bfloat16, which numpy does not have"):
        analyse(brain, "mine")


def test_sizes_beyond_the_memory_are_refused() -> None:
    with pytest.raises(WorkloadError, match="this machine has"):
        expectation(matmul(1 << 20, 1 << 20, 1 << 20).function, seed=0)


def test_a_kernel_larger_than_its_input_is_refused() -> None:
    with pytest.raises(WorkloadError, match="does not fit"):
        conv2d(1, 1, 4, 4, 1, 7)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("cpo", UnknownNameError, "'cpu'"),
        ("nvidia/h10", UnknownNameError, "h100"),
        ('{"kind": "metal"}', ConfigurationError, "metal"),
        ('{"kind": "llvm", "mcpu": "znver99"}', ConfigurationError, "znver"),
        (
            '{"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "znver4"}',
            ConfigurationError,
            "for aarch64-linux-gnu",
        ),
        (
            '{"kind": "llvm", "mtriple": "x86-64-linux-gnu"}',
            ConfigurationError,
            "'x86': did you mean x86_64",
        ),
        ('{"kind": "llvm", "mtriple": "", "mcpu": "znver4"}', ConfigurationError, "mtriple ''"),
        ('{"kind": "llvm", "unroll": 3}', ConfigurationError, "unroll"),
        ('{"kind": "llvm"', InputError, "not valid JSON"),
    ],
)
def test_targets_that_cannot_be_compiled_for(text: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        parse_target(text)


def test_more_threads_than_cores_are_refused() -> None:
    with pytest.raises(InputError, match="--threads 999"):
        parse_target("cpu", threads=999)


def test_tvm_is_not_asked_about_processors_it_logs_or_crashes_on() -> None:
    host = {"kind": "llvm", "mtriple": "bogus"}
    refused = [
        ({"kind": "llvm", "mtriple": "bogus-linux-gnu"}, "the architecture 'bogus'"),
        ({"kind": "llvm", "mcpu": "znver99"}, "no processor 'znver99'"),
        ({"kind": "cuda", "device": "h100", "host": host}, "the architecture 'bogus'"),
    ]
    # TVM's log and its crashes pass by Python: only a process of its own shows them.
    program = """
import sys
from tilewright.cli.main import main
for target in sys.argv[1:]:
    try:
        main(["tune", "matmul", "8", "8", "8", "--target", target])
    except SystemExit as end:
        print(end.code)
"""
    command = [sys.executable, "-c", program, *(json.dumps(target) for target, _ in refused)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.split() == ["2", "2", "2"]
    for line, (_, words) in zip(done.stderr.strip().splitlines(), refused, strict=True):
        assert words in line


@pytest.mark.parametrize("triple", ["aarch64-linux-gnu", "x86_64-apple-darwin"])
def test_another_machine_is_compiled_for_but_not_present(
    monkeypatch: pytest.MonkeyPatch, triple: str
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("platform.system", lambda: "Linux")
    target = parse_target(json.dumps({"kind": "llvm", "mtriple": triple}))
    assert not target.present
    with pytest.raises(InputError, match=rf"code for {triple} .* \(x86_64 Linux\)"):
        target.require_present()


def test_a_processor_whose_instructions_this_one_lacks_is_not_present(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tilewright.tuner.tvm import processors

    text = '{"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "skylake-avx512"}'
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("platform.system", lambda: "Linux")
    features = {"avx2": True, "avx512f": True, "pku": False}
    monkeypatch.setattr(processors, "_host_features", lambda: features)
    # Protection keys are the system's, and hidden from virtual machines.
    parse_target(text).require_present()
    features["avx512f"] = False
    with pytest.raises(InputError, match=r"skylake-avx512 .* which lacks avx512f, so nothing"):
        parse_target(text).require_present()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="hides an instruction set of x86")
def test_this_processor_is_present_whatever_a_virtual_machine_hides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tilewright.tuner.tvm import processors

    parse_target("cpu").require_present()
    features = processors._host_features()
    monkeypatch.setattr(processors, "_host_features", lambda: {**features, "sse4.1": False})
    target = parse_target("cpu")
    target.require_present()
    assert "-sse4.1" in target.text
