"""The sandboxed process in which a kernel's Python runs, and the validation of its answers.

The kernel is untrusted. Its results are read as data, and values that are impossible are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.core.records import Argument, Failed
from tilewright.parts.inputs import bytes_of
from tilewright.parts.languages import PYTHON
from tilewright.sandbox import Limits, Sandbox, open_folder, read_output
from tilewright.targets.cuda.emulation import (
    Condition,
    Run,
    RunResult,
    read_outputs,
    write_inputs,
)
from tilewright.targets.cuda.other_python import (
    FoundPython,
    environment,
    find_python,
    install_command,
)
from tilewright.targets.cuda.triton.recorded import (
    MOST_ALLOCATED,
    MOST_EVENTS,
    Recorded,
    read_record,
)

VARIABLE = "TILEWRIGHT_TRITON"
"""The environment variable that names a Python with Triton, if the Python of tilewright has
none."""
HOW_TO_GET = (
    f"run `{install_command('triton')}`, or set {VARIABLE} to a Python that has it "
    "(tested with Triton 3.9; neither a GPU nor PyTorch is needed)"
)
_CONTAINED = Path(__file__).with_name("contained")
_MEMORY, _ADDRESSES = 4 << 30, 64 << 30
_MOST_REPORT = 32 << 20
_KINDS = {
    "illegal_address", "misaligned", "race", "input_modified", "launch_failure", "wrong_result",
    "compile_error",
}  # fmt: skip
_NOT_CHECKED = ("NotCheckedError", "NotImplementedError")
_NOT_COMPILED = (
    "CompilationError", "UnsupportedLanguageConstruct", "CompileTimeAssertionFailure",
)  # fmt: skip


@cache
def find_triton() -> FoundPython:
    """The Python that the variable names, otherwise this one. Raises `ToolchainMissingError`."""
    why = "kernels of target triton are compiled and interpreted by Triton"
    return find_python("triton", VARIABLE, why, HOW_TO_GET)


def record(
    source: str, arguments: Sequence[Argument], sizes: Sequence[int], capability: int, ptx: int,
    shared_bytes: int, timeout_s: float,
) -> Recorded | Failed:  # fmt: skip
    """The launches of a kernel's launcher on arrays of these shapes, compiled to PTX.

    `capability` is 90 for sm_90. `ptx` is the PTX version (90 for 9.0) that the assembler accepts.
    """
    job = {"do": "compile", "capability": capability, "ptx": ptx, "shared_bytes": shared_bytes,
           "most_events": MOST_EVENTS, "most_allocated": MOST_ALLOCATED}  # fmt: skip
    with open_folder("tilewright-triton-") as name:
        folder = Path(name)
        report = _ran(folder, source, {**job, **_called(arguments, sizes)}, timeout_s)
    if isinstance(report, Failed):
        return report
    if "failed" in report:
        return _failed(report["failed"], "build")
    try:
        return read_record(report, [bytes_of([a]) for a in arguments])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        log = f"the process of the kernel wrote an answer that cannot be read ({error})."
        return Failed("build", "crash", log)


def interpret(
    source: str, arguments: Sequence[Argument], sizes: Sequence[int], runs: Sequence[Run],
    timeout_s: float,
) -> RunResult:  # fmt: skip
    """Execute all runs with Triton's interpreter in one process, one after the other."""
    written = bytes_of(a for a in arguments if a.is_written)
    with open_folder("tilewright-triton-") as name:
        folder = Path(name)
        offsets = write_inputs(folder / "inputs.bin", arguments, runs)
        asked = [
            {"offset": offset, "order": run.order, "seed": run.seed}
            for offset, run in zip(offsets, runs, strict=True)
        ]
        job = {"do": "interpret", "runs": asked, **_called(arguments, sizes)}
        report = _ran(folder, source, job, timeout_s, {"TRITON_INTERPRET": "1"})
        outputs = read_outputs(folder / "outputs.bin", arguments, written * len(runs))
    if isinstance(report, Failed):
        failed: Failed | None = report
    elif "failed" in report:
        failed = _failed(report["failed"], "check")
    else:
        failed = None
        if len(outputs) < len(runs):
            failed = Failed(
                "check", "crash", "the process of the kernel ended before its last run."
            )
    conditions = () if failed is not None else _conditions(report)
    if conditions is None:
        log = "the process of the kernel wrote an answer that cannot be read."
        return RunResult(tuple(outputs), (), Failed("check", "crash", log))
    return RunResult(tuple(outputs), (), failed, conditions=conditions)


def _conditions(report: Any) -> tuple[Condition, ...] | None:
    """The conditions that a process reports, or None if they are not well-formed."""
    try:
        return tuple(
            Condition(str(place)[:100], int(line), bool(no), bool(yes))
            for place, line, no, yes in report["conditions"]
        )
    except (KeyError, TypeError, ValueError):
        return None


def _called(arguments: Sequence[Argument], sizes: Sequence[int]) -> dict[str, Any]:
    arrays = [
        {"name": a.name, "shape": list(a.shape), "dtype": a.dtype, "role": a.role}
        for a in arguments
    ]
    return {"arguments": arrays, "sizes": list(sizes)}


def _ran(
    folder: Path, source: str, job: Mapping[str, object], timeout_s: float,
    more: Mapping[str, str] | None = None,
) -> Mapping[str, Any] | Failed:  # fmt: skip
    """The report of one process, or a failure if it ended without one."""
    triton = find_triton()
    for path in _CONTAINED.glob("*.py"):
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "kernel.py").write_text(source, encoding="utf-8")
    (folder / "job.json").write_text(json.dumps(job))
    stage = "build" if job["do"] == "compile" else "check"
    bounds = Limits(
        timeout_s, memory_bytes=_ADDRESSES, total_memory_bytes=_MEMORY, processes=64,
        file_bytes=1 << 30, total_file_bytes=2 << 30,
    )  # fmt: skip
    finished = _started(triton.sandbox, triton.python, folder, bounds, more or {})
    if finished[0] is None:
        what = "compiling" if stage == "build" else "Triton's interpreter"
        log = f"{what} was stopped after {timeout_s:g} s."
        return Failed(stage, "timeout", log)  # type: ignore[arg-type]
    try:
        report = json.loads(read_output(folder / "report.json", _MOST_REPORT))
        if isinstance(report, dict):
            return report
    except (OSError, ValueError, RecursionError):
        pass
    said = finished[1].decode(errors="replace").strip().splitlines()
    told = said[-1][:300] if said else "it printed nothing"
    log = f"the kernel's process ended without an answer: {told}"
    return Failed(stage, "crash", log)  # type: ignore[arg-type]


def _started(
    sandbox: Sandbox, python: str, folder: Path, bounds: Limits, more: Mapping[str, str]
) -> tuple[int | None, bytes]:
    words = {
        **environment(), "HOME": str(folder), "TRITON_CACHE_DIR": str(folder / "cache"),
        "TRITON_DEFAULT_FP_FUSION": "1", "PYTHONDONTWRITEBYTECODE": "1", **more,
    }  # fmt: skip
    finished = sandbox.run([python, "-I", "program.py"], folder, bounds, words)
    return finished.status, finished.output


def _failed(said: Any, stage: str) -> Failed:
    """A failure that the process reports, as a failure record."""
    said = said if isinstance(said, dict) else {}
    kind, names = str(said.get("kind", "")), [str(n) for n in list(said.get("names") or [])]
    line = said.get("line") if isinstance(said.get("line"), int) else None
    message = " ".join(re.sub(r"\s+", " ", str(said.get("message", ""))).split())[:1000].rstrip(".")
    name = str(said.get("type", "an error"))[:60]
    if kind in _KINDS:
        return _at(stage, kind, f"{message}.", line)
    if any(known in names for known in _NOT_CHECKED):
        log = f"not checked: {message or name}; only a GPU can show whether it is correct."
        return _at("check", "not_checked", log, line)
    if "OutOfResources" in names:
        return _at("check", "launch_failure", f"{message}.", line)
    if stage == "build":
        told = message if any(known in names for known in _NOT_COMPILED) else f"{name}: {message}"
        return _at(stage, "compile_error", f"{told}.", line)
    if "AssertionError" in names:
        return _at(stage, "crash", f"a condition of the kernel does not hold ({message}).", line)
    log = f"not checked: Triton's interpreter cannot run it ({name}: {message}); it may be correct."
    return _at(stage, "not_checked", log, line)


def _at(stage: str, kind: str, log: str, line: int | None) -> Failed:
    return Failed(stage, kind, PYTHON.located(log, line), line)  # type: ignore[arg-type]
