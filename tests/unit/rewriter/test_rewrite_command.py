"""`tilewright rewrite`: what a person can apply, and what they are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kernel_model import gemm, gemm_is_right

from tilewright.cli.main import main
from tilewright.core.errors import InputError
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning import by_hand
from tilewright.proposers.rewriter.reading import read

SHAPE = (96, 128, 64)
WORKLOAD = "gemmini:gemm-96x128x64"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    file = tmp_path / "kernel.c"
    file.write_text(gemm(*SHAPE))
    return file


@pytest.fixture
def rewrite(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(file: Path, *arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["rewrite", str(file), "--workload", WORKLOAD, *arguments])
        captured = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, captured.out, captured.err

    return call


def test_steps_are_applied_and_told(rewrite: Run, kernel: Path, machine: Machine) -> None:
    code, out, err = rewrite(kernel, "--apply", "double-buffer A; hoist B")
    assert code == 0
    assert out != kernel.read_text()
    assert gemm_is_right(lift(out, machine), *SHAPE)
    told = err.splitlines()
    assert told[0].startswith("double-buffer A ")
    assert told[1].startswith("resident B ")


def test_the_result_can_go_to_a_file(rewrite: Run, kernel: Path, tmp_path: Path) -> None:
    to = tmp_path / "out.c"
    code, out, _ = rewrite(kernel, "--apply", "overwrite C; unroll jj 2", "-o", str(to))
    assert (code, out) == (0, "")
    assert "unroll" not in to.read_text()
    assert "mvin3" not in to.read_text()


def test_an_error_names_the_file_that_was_given(rewrite: Run, tmp_path: Path) -> None:
    file = tmp_path / "mine.c"
    file.write_text("void kernel( {\n")
    for choice in (["--list"], ["--raise"], ["--apply", "hoist B"]):
        code, out, err = rewrite(file, *choice)
        assert (code, out) == (2, "")
        assert err.startswith(f"error: {file}:1: the kernel does not parse as C")


def test_the_list_shows_places_and_what_is_left_alone(rewrite: Run, kernel: Path) -> None:
    code, out, _ = rewrite(kernel, "--list")
    assert code == 0
    assert "pipeline B k 2" in out
    assert "overwrite C" in out
    assert "The rewriter can analyse the whole kernel." in out
    kernel.write_text(kernel.read_text().replace("  fence();", "  helper(C);\n  fence();"))
    line = kernel.read_text().splitlines().index("  helper(C);") + 1
    reason = "helper is called, but this file does not define it"
    assert f"not rewritten: line {line}: helper(C); ({reason})" in rewrite(kernel, "--list")[1]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("pipline A", "did you mean 'pipeline'?"),
        ("overwrite Q", "'Q' is not known; write 'overwrite BUFFER'; buffers: C, A, B"),
        ("pipeline A z 2", "loops: i, j, k, jj"),
        ("pipeline A k 0", "'0' is not known"),
        ("retile i -1", "'-1' is not known"),
        ("resident A j sometime", "'sometime' is not known"),
        ("unroll k 3", "3 does not divide the 4 iterations of k"),
        ("overwrite C; overwrite C", "C is not cleared"),
        ("overwrite C C", "too many arguments"),
        ("resident C j before", "step 'resident C j before' does not apply"),
        (" ; ", "no step is given"),
    ],
)
def test_a_step_that_does_not_apply_says_why(
    rewrite: Run, kernel: Path, steps: str, message: str
) -> None:
    code, out, err = rewrite(kernel, "--apply", steps)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_bad_files_and_options_are_refused(rewrite: Run, kernel: Path, tmp_path: Path) -> None:
    assert rewrite(kernel)[0] == 2
    assert rewrite(kernel, "--list", "--apply", "overwrite C")[0] == 2
    assert "cannot be read" in rewrite(tmp_path / "none.c", "--list")[2]
    kernel.write_text("void kernel(void) { f(; }")
    assert f"{kernel}:1: " in rewrite(kernel, "--list")[2]


def test_every_listed_step_applies(machine: Machine) -> None:
    kernel = read(gemm(40, 100, 72), machine)
    steps = [found.step for found in by_hand.applicable(kernel, machine)]
    assert len(steps) > 20
    for step in steps:
        after, done = by_hand.carried_out(kernel, machine, str(step))
        assert [str(s) for s in done] == [str(step)]
        assert gemm_is_right(after, 40, 100, 72), step


def test_what_is_left_out_is_completed_by_the_best_place(machine: Machine) -> None:
    kernel = read(gemm(*SHAPE), machine)
    _, (step,) = by_hand.carried_out(kernel, machine, "retile 4")
    assert step.technique == "retile"
    assert step.arguments[1] == "4"
    with pytest.raises(InputError, match="no place fits"):
        by_hand.carried_out(kernel, machine, "pipeline jj")
