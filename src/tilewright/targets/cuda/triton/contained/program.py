"""The sandboxed process of a Triton kernel, which compiles or interprets the kernels of its
launcher.

`triton/process.py` starts it in a separate folder with any Python that has Triton, so it imports
nothing of tilewright. `job.json` describes the job. The results are in `report.json` and
`outputs.bin`. The process has no expected results.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import random
import sys
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # not on the import path of an isolated Python
_arrays: Any = importlib.import_module("arrays")
FILE = Path(__file__).with_name("kernel.py")
_HUGE = 2 << 20


def main() -> None:
    """Execute one job."""
    job = json.loads(Path("job.json").read_text())
    report: dict[str, Any] = {}
    try:
        if job["do"] == "compile":
            report = _compiled(job)
        else:
            report = {"done": 0}
            _interpreted(job, report)
    except BaseException as error:
        report["failed"] = _failed(error)
    Path("report.json").write_text(json.dumps(report))


def _compiled(job: dict[str, Any]) -> dict[str, Any]:
    compiling: Any = importlib.import_module("compiling")
    recorder = compiling.Recorder(job["capability"], job["shared_bytes"], job["most_events"])
    rooms: list[Any] = []

    def room(size: int, item: int) -> Any:
        if len(rooms) >= len(job["arguments"]):
            own = sum(known.size for known in rooms[len(job["arguments"]) :]) + size
            if own > job["most_allocated"]:
                most = f"but at most {job['most_allocated']} are allowed"
                raise _arrays.LauncherError(f"its own arrays would take {own} bytes, {most}")
        rooms.append(_arrays.Room(len(rooms), (len(rooms) + 1) << 44, size))
        return rooms[-1]

    given = [_array(a, lambda size: room(size, 0)) for a in job["arguments"]]
    _arrays.install(room, _zeroing(job, given, recorder.zeroed))
    compiling.install(recorder, job["ptx"])
    _launcher(job)(*given, *job["sizes"])
    sizes = [room.size for room in rooms[len(given) :]]
    return {"codes": recorder.codes, "events": recorder.events, "allocated": sizes}


def _interpreted(job: dict[str, Any], report: dict[str, Any]) -> None:
    interpreting: Any = importlib.import_module("interpreting")
    np: Any = importlib.import_module("numpy")
    memory = interpreting.install()
    conditions = importlib.import_module("conditions").Conditions(str(FILE))
    conditions.install()
    draws: Any = random.Random(0)
    launcher = interpreting.Launcher(memory)
    kept: list[Any] = []

    def room(size: int, item: int, name: str = "an array of its own", role: str = "output") -> Any:
        step = draws.choice((256, 4096, _HUGE))  # some kernels ask how an array is aligned
        shift = step * draws.randrange(1, min(16, _HUGE // step)) if step < _HUGE else 0
        data = np.empty(size + shift + _HUGE + 512, np.uint8)
        kept.append(data)
        at = -(-data.ctypes.data // _HUGE) * _HUGE + shift
        data[at - data.ctypes.data :][: size + 512] = 0xFF
        made = _arrays.Room(len(kept), at, size)
        memory.add(made, name, item, role)
        return made

    given: list[Any] = []
    _arrays.install(room, _zeroing(job, given, launcher.zeroed))
    function = _launcher(job)
    with Path("inputs.bin").open("rb") as inputs, Path("outputs.bin").open("wb") as outputs:
        for number, run in enumerate(job["runs"]):
            draws = random.Random(run["seed"] + number)
            kept.clear()
            memory.clear()
            given.clear()
            inputs.seek(run["offset"])
            for argument in job["arguments"]:
                item = _arrays.SIZES[argument["dtype"]]
                array = _array(
                    argument,
                    lambda size, a=argument, i=item: room(size, i, a["name"], a["role"]),
                )
                interpreting.as_bytes(array.room)[:] = np.frombuffer(
                    inputs.read(array.room.size), np.uint8
                )
                given.append(array)
            launcher.begin(number, run["order"], run["seed"])
            function(*given, *job["sizes"])
            for array, argument in zip(given, job["arguments"], strict=True):
                if argument["role"] != "input":
                    outputs.write(interpreting.as_bytes(array.room).tobytes())
            report["done"] += 1
    report["conditions"] = conditions.report()


def _array(said: dict[str, Any], room: Any) -> Any:
    dtype = _arrays.Dtype(said["dtype"])
    size = dtype.itemsize
    for extent in said["shape"]:
        size *= extent
    return _arrays.Array(room(size), dtype, said["shape"])


def _zeroing(job: dict[str, Any], given: list[Any], native: Any) -> Any:
    """Fills arrays with zeros, except inputs."""

    def zeroed(array: Any) -> None:
        for argument, known in zip(job["arguments"], given):  # noqa: B905 -- each is filled separately
            if argument["role"] == "input" and known.room == array.room:
                said = f"the launcher writes to an input ({argument['name']})"
                raise _arrays.LauncherError(said, "input_modified")
        native(array)

    return zeroed


def _launcher(job: dict[str, Any]) -> Any:
    spec: Any = importlib.util.spec_from_file_location("kernel", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernel"] = module
    spec.loader.exec_module(module)
    arrays = [argument["name"] for argument in job["arguments"]]
    given, sizes = len(arrays) + len(job["sizes"]), len(job["sizes"])
    parameters = inspect.signature(module.kernel).parameters.values()
    named = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    least = len([p for p in named if p.default is p.empty])
    most = given if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(named)
    if not least <= given <= most or (sizes and len(named) > given):
        raise _arrays.LauncherError(
            f"kernel is called with {len(arrays)} arrays ({', '.join(arrays)}) and {sizes} sizes, "
            f"and has the parameters {', '.join(map(str, parameters))}", "compile_error",
        )  # fmt: skip
    return module.kernel


def _failed(error: BaseException) -> dict[str, Any]:
    """The failure, with the first line in the kernel's file to which the traceback refers."""
    chain: list[BaseException] = [error]
    while chain[-1].__cause__ is not None and len(chain) < 20:
        chain.append(chain[-1].__cause__)
    line: int | None = None
    for one in chain:
        for frame in traceback.extract_tb(one.__traceback__):
            if frame.filename == str(FILE):
                line = frame.lineno
    first = chain[-1]
    node, source = getattr(error, "node", None), getattr(error, "src", None)
    if node is not None and source is not None:
        line = _line_within(source, node)
        first = error
    names = [type(one).__name__ for one in chain]
    return {
        "type": type(first).__name__,
        "kind": str(getattr(first, "kind", "")),
        "names": names,
        "message": str(getattr(first, "error_message", None) or first)[:2000],
        "line": line,
    }


def _line_within(source: str, node: Any) -> int | None:
    """Triton counts lines from the beginning of a function's own text."""
    at = FILE.read_text().find(source)
    return None if at < 0 else FILE.read_text().count("\n", 0, at) + int(node.lineno)


if __name__ == "__main__":
    main()
