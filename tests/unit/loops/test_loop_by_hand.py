"""`tilewright rewrite` on kernels of plain loops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright.cli.main import main

Invoke = Callable[..., tuple[int, str]]
WORKLOAD = "host-c:softmax-16x64"


@pytest.fixture
def kernel(tmp_path: Path) -> str:
    from tilewright.targets.host_c import create_target

    path = tmp_path / "kernel.c"
    path.write_text(create_target().open("softmax-16x64", {}).start)
    return str(path)


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str]) -> Invoke:
    def call(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(["rewrite", *arguments, "--workload", WORKLOAD])
        captured = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, captured.out + captured.err

    return call


def test_what_applies_is_listed_and_carried_out(
    invoke: Invoke, kernel: str, tmp_path: Path
) -> None:
    code, listed = invoke(kernel, "--list")
    assert code == 0
    assert "vectorise 2" in listed
    output = tmp_path / "faster.c"
    lanes = next(line.split()[2] for line in listed.splitlines() if line.startswith("vectorise 2"))
    code, said = invoke(kernel, "--apply", f"vectorise 2 {lanes}", "-o", str(output))
    assert code == 0, said
    assert "v_exp" in output.read_text()


@pytest.mark.parametrize(
    "steps",
    ["fly", "vectorise", "vectorise 2 0", "vectorise -1 16", "jam 9 2", "jam 1 2", "vectorise a b"],
)
def test_other_steps_are_refused_with_a_sentence(invoke: Invoke, kernel: str, steps: str) -> None:
    code, said = invoke(kernel, "--apply", steps)
    assert code == 2
    assert "Traceback" not in said


def test_a_kernel_that_cannot_be_read_is_refused(invoke: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "kernel.c"
    path.write_text("void kernel(float *X) { while (1) {} }")
    code, _ = invoke(str(path), "--list")
    assert code == 2
