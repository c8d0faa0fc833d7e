"""A user's reference: whatever it does, the outcome is a sentence, in bounded time."""

from __future__ import annotations

import gc
import resource
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tilewright.core.errors import WorkloadError
from tilewright.core.files import read_bytes, read_text, read_toml
from tilewright.core.records import Argument, Workload
from tilewright.parts import user_code
from tilewright.parts.folder_problem import FloatFolderProblem, FolderProblem

ARGUMENTS = (Argument("A", (2,), "float32", "input"), Argument("C", (2,), "float32", "output"))


def reference(folder: Path, body: str) -> Mapping[str, np.ndarray]:
    (folder / "reference.py").write_text(body)
    problem = FolderProblem(folder, Workload("w", "t", ARGUMENTS, 2), 1, "f", {})
    return problem.reference({"A": np.ones(2, np.float32)})


@pytest.mark.parametrize(
    "body",
    [
        "while True:\n    pass\n",
        "def reference(A):\n    while True:\n        pass\n",
        "import time\ndef reference(A):\n    time.sleep(60)\n",
        "def reference(A):\n    while True:\n        try:\n            A + 1\n"
        "        except Exception:\n            pass\n",
    ],
)
def test_one_that_does_not_return_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    monkeypatch.setattr(user_code, "REFERENCE_TIMEOUT_S", 0.2)
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(WorkloadError, match=r"took more than 0\.2 s; it must"):
        reference(tmp_path, body)
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("GeneratorExit('done')", "GeneratorExit: done"),
        ("ValueError('\\x1b[2Jcleared\\nscreen')", "ValueError: cleared screen"),
        ("ValueError('x' * 10**6)", "ValueError: x+;"),
    ],
)
def test_whatever_it_raises_is_said_in_a_few_words(tmp_path: Path, error: str, said: str) -> None:
    with pytest.raises(WorkloadError, match=rf"reference\(A\) raised {said}") as raised:
        reference(tmp_path, f"def reference(A):\n    raise {error}\n")
    assert len(str(raised.value)) < 600
    assert "\x1b" not in str(raised.value)


def test_ctrl_c_is_not_its_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "def reference(A):\n    raise KeyboardInterrupt\n"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            reference(tmp_path, body)
        # Processes that evaluate ignore Ctrl-C: there only the reference itself can raise it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with pytest.raises(WorkloadError, match="raised KeyboardInterrupt"):
            reference(tmp_path, body)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_text_that_was_just_changed_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's cache would not see a change to the same length within the same second."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    body = "def reference(A):\n    return A + 1\n"
    assert reference(tmp_path, body)["C"].tolist() == [2, 2]
    assert reference(tmp_path, body.replace("1", "5"))["C"].tolist() == [6, 6]
    assert [file.name for file in tmp_path.iterdir()] == ["reference.py"]


def test_its_memory_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_code, "most_reference_bytes", lambda: 1 << 28)
    before = resource.getrlimit(resource.RLIMIT_AS)
    body = (
        "import numpy as np\ndef reference(A):\n    return np.empty(1 << SIZE, np.int8)[:2] + A\n"
    )
    gc.collect()  # what other tests left may not be freed while the limit holds
    assert reference(tmp_path, body.replace("SIZE", "27"))
    with pytest.raises(WorkloadError, match=r"needs more than 0\.25 GiB of memory, half of what"):
        reference(tmp_path, body.replace("SIZE", "31"))
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_what_it_returns_may_fail_to_become_an_array(tmp_path: Path) -> None:
    body = "class Odd:\n    def __array__(self, *given, **more):\n        raise SystemExit\n"
    with pytest.raises(WorkloadError, match="raised SystemExit"):
        reference(tmp_path, f"{body}def reference(A):\n    return Odd()\n")


def test_files_have_a_largest_size(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x = 1\n" * 100)
    assert read_bytes(file, 600) == file.read_bytes()
    with pytest.raises(OSError, match="larger than") as raised:
        read_bytes(file, 599)
    assert raised.value.strerror == "it is larger than 0 KiB"
    file.write_bytes(b"\xff")
    with pytest.raises(OSError, match="not UTF-8 text"):
        read_text(file, 10)
    with pytest.raises(OSError, match="not UTF-8 text"):
        read_toml(file)


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        ("A + 1,", "returned a tuple with one array. Return the array itself"),
        ("A.astype('f8') + 1", r'returned float64\[2\] for C, .*`.astype\("float32"\)`'),
        ("A[:1] + 1", r"returned float32\[1\] for C, .*Correct the shape"),
    ],
)
@pytest.mark.parametrize("kind", [FolderProblem, FloatFolderProblem])
def test_a_result_of_another_form_is_refused(
    tmp_path: Path, kind: type[FolderProblem], returned: str, says: str
) -> None:
    (tmp_path / "reference.py").write_text(f"def reference(A):\n    return {returned}\n")
    problem = kind(tmp_path, Workload("w", "t", ARGUMENTS, 2), 1, "f", {})
    if isinstance(problem, FloatFolderProblem):
        problem.required = True
    with pytest.raises(WorkloadError, match=says):
        problem.reference({"A": np.ones(2, np.float32)})
