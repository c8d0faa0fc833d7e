"""Instances of a user's own: what a target file may say, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilewright.core.errors import ConfigurationError, UnknownNameError, WorkloadError
from tilewright.core.plugins import load_target, target_names
from tilewright.core.records import Argument, Failed
from tilewright.core.tasks import open_task
from tilewright.parts.kernel_parameters import named_parameters
from tilewright.parts.languages import C
from tilewright.targets.gemmini import create_fp32_target, create_target
from tilewright.targets.gemmini.brief import load_brief
from tilewright.targets.gemmini.instance import Instance
from tilewright.targets.gemmini.parameter_ranges import ARRAY_SIZES, dotted, impossible
from tilewright.targets.gemmini.parameters import CONFIGURATIONS, SimConfig

BASE = 'target = "gemmini"\nbase = "gemmini-int8-16x16"\n'
INT8 = create_target().instance


def written(tmp_path: Path, text: str, name: str = "mine.toml") -> str:
    (tmp_path / name).write_text(text)
    return str(tmp_path / name)


def instance(tmp_path: Path, text: str) -> Instance:
    opened = load_target(written(tmp_path, text))
    return opened.instance  # type: ignore[attr-defined]


def test_only_what_differs_from_a_base(tmp_path: Path) -> None:
    mine = instance(
        tmp_path, BASE + "[simulator.array]\ndim = 8\n[simulator.scratchpad]\nbanks = 2"
    )
    assert (mine.name, mine.summary) == ("mine", "int8 8x8")
    assert mine.limits["scratchpad_banks"] == 2
    assert mine.move_columns == 64  # one request of 64 bytes
    changed = {"array_dim": 8, "scratchpad_banks": 2}
    assert mine.config.parameters == {**INT8.config.parameters, **changed}
    assert mine.config.digest != INT8.config.digest


def test_a_name_of_its_own(tmp_path: Path) -> None:
    assert instance(tmp_path, BASE + 'name = "tiny"\n').name == "tiny"


def test_a_complete_file_needs_no_base(tmp_path: Path) -> None:
    text = CONFIGURATIONS["gemmini-int8-16x16"].read_text()
    assert instance(tmp_path, 'target = "gemmini"\n' + text).config == INT8.config


def test_a_base_may_be_float(tmp_path: Path) -> None:
    text = 'target = "gemmini"\nbase = "gemmini-fp32-4x4"\n[simulator.array]\ndim = 8\n'
    mine = instance(tmp_path, text)
    assert (mine.summary, mine.element.c, mine.move_columns) == ("fp32 8x8", "float", 16)


def test_a_workload_on_an_instance(tmp_path: Path) -> None:
    chosen = {"target": written(tmp_path, BASE + "[simulator.array]\ndim = 8\n")}
    for name in ("gemmini:gemm-64x64x64", "gemm-64x64x64", "mine:gemm-64x64x64"):
        opened = open_task(name, chosen)
        assert opened.name == "mine:gemm-64x64x64"
        assert "i += 8)" in opened.task.start
    assert {c.name: c.attributes for c in opened.target.brief().commands}["preload"][
        "max_rows"
    ] == "8"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dim = ", "is not valid TOML"),
        ("[simulator.array]\ndim = 8\n", "does not say which target it configures"),
        ('target = "gemmini"\n', r"no \[simulator.\*\] tables"),
        ('target = "gemini"\n', "unknown target 'gemini': did you mean 'gemmini'"),
        ('target = "other.toml"\n', "does not say which target it configures"),
        (BASE + "dim = 8\n", "unknown field 'dim': a file may have target, name, base, simulator"),
        (BASE + 'name = "a b"\n', "name = 'a b' must be letters"),
        (BASE.replace("int8", "int9"), "base = 'gemmini-int9-16x16' is not a configuration"),
        (BASE + "simulator = 3\n", "no .simulator"),
        (BASE + "[simulator]\narray = 3\n", "must be a table of parameters"),
        (BASE + "[simulator.array]\ndims = 8\n", "did you mean simulator.array.dim"),
        (BASE + "[simulator.array]\ndim = '8'\n", "must be a whole number"),
        (BASE + "[simulator.array]\nelement_type = 'fp64'\n", "must be one of int8, fp32"),
        ('target = "gemmini"\n[simulator.array]\ndim = 8\n', "is missing. Add it"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises((ConfigurationError, UnknownNameError), match=message) as raised:
        load_target(written(tmp_path, text))
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml cannot be read \(No such file"):
        load_target("nowhere.toml")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"array_dim": 12}, "array.dim = 12 is impossible: it must be one of 4, 8, 16, 32"),
        ({"accumulator_element_type": 1}, "element_type = fp32 .* be int32 for int8 elements"),
        ({"accumulator_scaled_loads": 1}, "int32 sums have no scaler"),
        ({"array_dim": 32}, "output_bits = 20 .* be at least 21"),
        ({"scratchpad_banks": 1}, "scratchpad.banks = 1 .* between 2"),
        ({"scratchpad_banks": 3}, "power of two"),
        ({"scratchpad_bank_rows": 8}, "multiple of the array's 16 rows"),
        ({"scratchpad_bank_rows": 32}, "hold the widest move, 64 rows, in one bank"),
        ({"accumulator_bank_rows": 32}, "64 rows, in half of the accumulator"),
        ({"scratchpad_bank_rows": 1 << 22}, "scratchpad of at most 64 MiB"),
        ({"commands_execute_queue": 2}, "execute_queue = 2 .* between 3"),
        ({"commands_execute_entries": 2}, "execute_entries = 2 .* between 3 and 32"),
        ({"commands_store_entries": 33}, "between 1 and 32"),
        ({"dma_bus_bytes": 128}, "bus_bytes = 128 .* at most the 64 bytes"),
        ({"dma_max_request_bytes": 128}, "at most an L2 line of 64 bytes"),
        ({"l2_bytes": 256}, "one line for every way"),
        ({"cpu_l1_bytes": 128}, "one line for every way"),
        ({"dma_in_flight": 0}, "between 1"),
        ({"l2_mshrs": 1 << 20}, "l2.mshrs = 1048576 .* between 1 and 256"),
    ],
)
def test_impossible_machines(changes: dict[str, int], message: str) -> None:
    wrong = impossible({**INT8.config.parameters, **changes})
    assert wrong is not None
    assert re.search(message, wrong), wrong
    assert wrong.endswith(".")


@pytest.mark.parametrize("value", [-1, 0, 1 << 40])
def test_values_out_of_any_range_are_named(value: int) -> None:
    may_be_zero = 0
    for name in INT8.config.parameters:
        if name.endswith("element_type"):
            continue  # a word in the file, checked when it is read
        wrong = impossible({**INT8.config.parameters, name: value})
        may_be_zero += value == 0 and wrong is None
        assert wrong is None or wrong.startswith(f"{dotted(name)} = {value} is impossible")
        assert wrong is not None or value == 0
    assert (may_be_zero > 0) == (value == 0)


@pytest.mark.parametrize("dim", ARRAY_SIZES)
def test_texts_of_every_array_size(dim: int) -> None:
    for given in (INT8, create_fp32_target().instance):
        parameters = {**given.config.parameters, "array_dim": dim, "array_output_bits": 24}
        assert impossible(parameters) is None
        brief = load_brief(Instance("mine", SimConfig(parameters)))
        assert f"at most {dim} x {dim} elements. A block" in " ".join(brief.isa.split())


def test_a_workload_larger_than_memory_counts_bytes_of_the_type() -> None:
    """64 Mi elements of int8 fit, as float32 they do not."""
    create_target().open("gemm-8192x8192x16", {})
    with pytest.raises(WorkloadError, match="needs 257 MiB of arrays"):
        create_fp32_target().open("gemm-8192x8192x16", {})


ARRAYS = (Argument("A", (4, 4), "float32", "input"), Argument("C", (4, 4), "float32", "output"))


@pytest.mark.parametrize(
    ("head", "line"),
    [
        ("void kernel(const int8_t A[4][4], float C[4][4]) {}", 1),
        ("/* void kernel( */\n\nvoid kernel(const float *A,\n  int8_t *C) {}", 3),
        ("void kernel(const elem_t A[4][4], acc_t C[4][4]) {}", 1),
    ],
)
@pytest.mark.parametrize("kind", ["wrong_result", "limit_exceeded", "uninitialised_read"])
def test_a_failed_kernel_of_other_types_is_told_so(head: str, line: int, kind: str) -> None:
    failed = named_parameters(Failed("check", kind, "log"), head, ARRAYS, C, INT8.c_types)
    assert (failed.kind, failed.line) == ("compile_error", line)
    assert "of the kernel is" in failed.log


def test_a_second_name_of_a_target_is_not_listed() -> None:
    assert "gemmini-int8-16x16" not in target_names()
    assert load_target("gemmini-int8-16x16").name == "gemmini"
