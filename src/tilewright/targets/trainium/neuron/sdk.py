"""The commands of the AWS Neuron SDK: its Python, which compiles and runs kernels, and its
profiler."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.core.errors import ToolchainMissingError, UnknownNameError
from tilewright.core.records import ExternalResult, Failed
from tilewright.parts.case import Case
from tilewright.parts.inputs import Array
from tilewright.sandbox import UNCONTAINED, Limits, Sandbox, open_folder
from tilewright.targets.trainium.program import Call, Entry
from tilewright.targets.trainium.tiles.dtypes import DTYPES

NAME = "neuron"
PYTHON = "TILEWRIGHT_NEURON_PYTHON"
"""Environment variable with the path of the Python that has the SDK."""
HOW_TO_GET = (
    "start a trn1 or trn2 instance with one of AWS's Neuron images, then install tilewright into "
    f"its Neuron environment, or set {PYTHON} to that environment's bin/python"
)
_HARNESS = Path(__file__).parent / "harness.py"
_PASSED_ON = ("PATH", "HOME", "LD_LIBRARY_PATH", "PYTHONPATH")
_MAX_BYTES = 64 << 30
_SHOWN_CHARACTERS = 2000
_QUESTION_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Sdk:
    """An installed SDK: its Python, and the versions of its packages."""

    python: str
    versions: Mapping[str, str]


def find_sdk(name: str) -> Sdk:
    """The SDK; `ToolchainMissingError` says how to install it."""
    if name != NAME:
        raise UnknownNameError("simulator", name, [NAME])
    python = os.environ.get(PYTHON) or sys.executable
    with open_folder("tilewright-neuron-") as folder:
        question = [python, str(_HARNESS), "--versions"]
        status, text = _run(question, Path(folder), _QUESTION_TIMEOUT_S)
    try:
        versions = json.loads(text) if status == 0 else {}
    except ValueError:
        versions = {}
    if not versions:
        raise ToolchainMissingError(f"{python} has no AWS Neuron SDK: {HOW_TO_GET}.")
    if shutil.which("neuron-ls") is None:
        raise ToolchainMissingError(
            f"neuron-ls, the list of NeuronCores, was not found: {HOW_TO_GET}."
        )
    return Sdk(python, versions)


def run_on_device(
    sdk: Sdk, source: str, entry: Entry, call: Call, case: Case, timeout_s: float
) -> ExternalResult | Failed:
    """Outputs compared with the reference, and the 99th percentile of the latency.

    `no_result`: the SDK did not run the kernel, or returned only zeros, as releases do that no
    longer support its version of NKI. `wrong_result`: the error of an element is larger than
    allowed.
    """
    started = time.monotonic()
    with open_folder("tilewright-neuron-") as name:
        folder = Path(name)
        _write_request(folder, source, entry, call, case.given)
        status, text = _run([sdk.python, str(_HARNESS), str(folder)], folder, timeout_s)
        if status is None:
            return Failed("measure", "timeout", f"the SDK was stopped after {timeout_s:g} s.")
        outputs = _outputs(folder, call)
        if status != 0 or outputs is None:
            shown = text.strip()[-_SHOWN_CHARACTERS:] or "nothing"
            return Failed(
                "measure", "no_result", f"the SDK ended with status {status}. It printed:\n{shown}"
            )
        wrong = _wrong(outputs, call, case)
        if wrong is not None:
            return wrong
        latency = json.loads((folder / "result.json").read_text())["latency_us"] * 1e3
        details = _profile(folder, timeout_s)
    return ExternalResult(
        NAME,
        latency,
        float(details.get("instructions", 0)),
        time.monotonic() - started,
        unit="ns",
        versions=sdk.versions,
        details=details,
    )


def _write_request(
    folder: Path, source: str, entry: Entry, call: Call, given: Mapping[str, Array]
) -> None:
    described = {
        kind: [{"name": a.name, "shape": list(a.shape), "dtype": a.dtype} for a in arguments]
        for kind, arguments in (("inputs", call.inputs), ("outputs", call.outputs))
    }
    request = {
        **described,
        "nki": "neuronxcc.nki" if entry.language == 1 else "nki",
        "entry": entry.name,
        "gives_outputs": entry.gives_outputs,
        "constants": dict(call.constants),
        "types": sorted(DTYPES),
    }
    (folder / "request.json").write_text(json.dumps(request))
    (folder / "kernel.py").write_text(source, encoding="utf-8")
    for argument in call.inputs:
        array = np.ascontiguousarray(given[argument.name])
        (folder / f"{argument.name}.in").write_bytes(array.tobytes())


def _outputs(folder: Path, call: Call) -> dict[str, bytes] | None:
    """The bytes of all outputs; None if one is missing or has another size."""
    found = {}
    for argument in call.outputs:
        path = folder / f"{argument.name}.out"
        size = int(np.prod(argument.shape)) * DTYPES[argument.dtype].exact.itemsize
        if not path.is_file() or path.stat().st_size != size:
            return None
        found[argument.name] = path.read_bytes()
    return found


def _wrong(outputs: Mapping[str, bytes], call: Call, case: Case) -> Failed | None:
    arrays = [np.frombuffer(outputs[a.name], DTYPES[a.dtype].exact) for a in call.outputs]
    if not any(array.astype(bool).any() for array in arrays):
        return Failed(
            "measure",
            "no_result",
            "the SDK returned nothing but zeros: recent releases do that, without an error, for "
            "kernels of an older NKI. Use the release that the kernel is written for.",
        )
    mismatch = case.mismatch(outputs)
    return None if mismatch is None else Failed("measure", "wrong_result", f"{mismatch}.")


def _profile(folder: Path, timeout_s: float) -> Mapping[str, float]:
    """The numbers in the profiler's summary; empty if there is no profiler or it fails."""
    program, profile = folder / "kernel.neff", folder / "profile.ntff"
    if shutil.which("neuron-profile") is None or not program.is_file():
        return {}
    files = ["-n", str(program), "-s", str(profile)]
    status, _ = _run(["neuron-profile", "capture", *files], folder, timeout_s)
    if status != 0:
        return {}
    command = ["neuron-profile", "view", *files, "--output-format", "summary-json"]
    status, text = _run(command, folder, timeout_s)
    try:
        found: Any = json.loads(text) if status == 0 else {}
    except ValueError:
        return {}
    # The summary is either at the top level or under the name of the NeuronCore.
    values = list(found.values()) if isinstance(found, dict) else []
    summary: Mapping[str, Any] = values[0] if values and isinstance(values[0], dict) else found
    if not isinstance(summary, dict):
        return {}
    return {
        str(name): float(value)
        for name, value in summary.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def _run(command: Sequence[str], folder: Path, timeout_s: float) -> tuple[int | None, str]:
    """The exit status, or None if the command was stopped, and its output.

    The command is not sandboxed, because the SDK needs the machine's devices and compilers. The
    kernel has passed the interpreter, but Python runs the rest of its file here.
    """
    limits = Limits(
        timeout_s,
        memory_bytes=_MAX_BYTES,
        total_memory_bytes=_MAX_BYTES,
        file_bytes=_MAX_BYTES,
        processes=4096,
        open_files=4096,
        output_bytes=16 << 20,
    )
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment |= {n: v for n, v in os.environ.items() if n.startswith("NEURON_")}
    try:
        finished = Sandbox(UNCONTAINED).run(list(command), folder, limits, environment)
    except OSError as error:
        return 127, f"{command[0]} cannot be run: {error}"
    return finished.status, finished.output.decode(errors="replace")
