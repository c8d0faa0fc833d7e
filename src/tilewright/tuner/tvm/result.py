"""Writes a finished run to a folder: library, trace, generated source, and Python code that runs
it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.core.errors import InternalError, OutputError
from tilewright.core.files import refuse_special_files
from tilewright.tuner.tvm.analysis import dtype_of, output_position
from tilewright.tuner.tvm.launchable import launchable
from tilewright.tuner.tvm.trials import schedule_from_trace

_SNIPPET = '''"""Runs the tuned kernel {name} on arrays of your own. Needs apache-tvm and numpy.

    from run import kernel
    {output} = kernel({inputs})

{note}
"""

import os
from pathlib import Path

# The default is the number of threads of the measurement. TVM reads it when it is loaded.
os.environ.setdefault("TVM_NUM_THREADS", "{threads}")

import numpy as np
import tvm

_MODULE = tvm.runtime.load_module(str(Path(__file__).parent / "kernel.so"))
_DEVICE = tvm.runtime.device({device!r}, 0)
_SHAPES = {shapes!r}
_OUTPUT = {position}


def kernel(*inputs: np.ndarray) -> np.ndarray:
    """The result of the kernel on these inputs, in the order of the function's arguments."""
    arrays, rest = [], list(inputs)
    for position, (name, shape, kind) in enumerate(_SHAPES):
        array = np.zeros(shape, kind) if position == _OUTPUT else np.asarray(rest.pop(0), kind)
        if array.shape != tuple(shape):
            raise ValueError(f"{{name}} has shape {{array.shape}}, expected {{tuple(shape)}}")
        arrays.append(tvm.runtime.tensor(array, _DEVICE))
    _MODULE["main"](*arrays)
    return arrays[_OUTPUT].numpy()


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    arguments = [
        rng.uniform(-1, 1, shape).astype(kind)
        for position, (_, shape, kind) in enumerate(_SHAPES)
        if position != _OUTPUT
    ]
    print(kernel(*arguments).ravel()[:4])
    timer = _MODULE.time_evaluator("main", _DEVICE, number=10, repeat=3)
    everything = [tvm.runtime.tensor(np.zeros(shape, kind), _DEVICE) for _, shape, kind in _SHAPES]
    print(f"{{min(timer(*everything).results) * 1e3:.4f}} ms")
'''


def check_folder(folder: Path) -> None:
    """`OutputError` unless results can be written to `folder`. The folder need not exist yet."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise OutputError(
            f"cannot write -o {folder}: {existing} is not a folder. Give another folder."
        )
    if existing == folder:
        refuse_special_files(folder)
    probe = existing / ".tilewright-probe"
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OutputError(
            f"cannot write -o {folder}: {(error.strerror or 'refused').lower()}. Give another "
            "folder."
        ) from error


def finished_schedule(module: Any, trace: str, target: Any) -> Any:
    """The schedule of a stored trace, which can be built."""
    schedule = schedule_from_trace(module, trace)
    _postprocess(schedule, target)
    return schedule


def write_result(
    folder: Path,
    function: Any,
    schedule: Any,
    target: Any,
    trace: str,
    library: Path,
    facts: Mapping[str, object],
) -> list[Path]:
    """Write kernel.so, trace.json, the generated source, schedule.py, run.py, result.json."""
    folder.mkdir(parents=True, exist_ok=True)
    extension, source = _source(schedule.mod, target)
    gpu = str(target.kind.name) == "cuda"
    if gpu:
        source = launchable(function, schedule.mod, source)[0] or source
    files: dict[str, str] = {
        "trace.json": json.dumps(json.loads(trace), indent=1) + "\n",
        f"kernel.{extension}": source,
        "schedule.py": f"{schedule.trace}\n",
        "run.py": _snippet(function, str(facts.get("workload", "kernel")), gpu, facts),
        "result.json": json.dumps(facts, indent=2) + "\n",
    }
    shutil.copyfile(library, folder / "kernel.so")
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / "kernel.so", *(folder / name for name in files)]


def launchable_kernel(function: Any, schedule: Any, target: Any) -> tuple[str | None, str]:
    """The kernel of a schedule for a GPU as one file of CUDA C++ with a host function, and an empty
    text; or None and the reason (`launchable`). On a CPU: None and an empty text.
    """
    extension, source = _source(schedule.mod, target)
    return launchable(function, schedule.mod, source) if extension == "cu" else (None, "")


def export_database(
    folder: Path, module: Any, target: Any, trials: Sequence[tuple[str, Sequence[float]]]
) -> None:
    """Write a TVM JSON database of (trace, samples) that an unmodified MetaSchedule can load."""
    from tvm.s_tir import meta_schedule as ms

    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / "database_workload.json", folder / "database_tuning_record.json"]
    for file in files:
        file.unlink(missing_ok=True)
    database = ms.database.JSONDatabase(*(str(file) for file in files))
    workload = database.commit_workload(module)
    for trace, samples in trials:
        schedule = schedule_from_trace(module, trace)
        database.commit_tuning_record(
            ms.database.TuningRecord(
                schedule.trace,
                workload,
                [float(s) for s in samples],
                target,
                ms.arg_info.ArgInfo.from_entry_func(module, remove_preproc=True),
            )
        )


def _postprocess(schedule: Any, target: Any) -> None:
    """Apply MetaSchedule's postprocessors for this kind of target."""
    from tvm.s_tir import meta_schedule as ms

    from tilewright.tuner.tvm.loading import without_intrinsics

    kind = "cuda" if str(target.kind.name) == "cuda" else "llvm"
    generator = ms.space_generator.PostOrderApply(
        sch_rules=[], postprocs=ms.Postproc.create(kind), mutator_probs={}
    )
    with without_intrinsics():
        ms.TuneContext(mod=schedule.mod, target=target, space_generator=generator, num_threads=1)
    schedule.enter_postproc()
    if not all(postproc.apply(schedule) for postproc in generator.postprocs):
        raise InternalError("the best schedule is rejected by TVM's postprocessors.")


def _source(module: Any, target: Any) -> tuple[str, str]:
    """File name extension and text of the code that TVM generates: CUDA C for a GPU, LLVM IR for a
    CPU."""
    import tvm

    built = tvm.compile(module, target=target).mod
    if str(target.kind.name) == "cuda":
        return "cu", str(built.imports[0].inspect_source("cuda"))
    return "ll", str(built.inspect_source("ll"))


def _snippet(function: Any, name: str, gpu: bool, facts: Mapping[str, object]) -> str:
    position = output_position(function)
    shapes = [(str(p.name), tuple(int(d) for d in p.shape), dtype_of(p)) for p in function.params]
    inputs = [shape[0] for n, shape in enumerate(shapes) if n != position]
    return _SNIPPET.format(
        name=name,
        threads=facts.get("threads", 1),
        output=shapes[position][0],
        inputs=", ".join(inputs),
        note=str(facts.get("sentence", "")),
        device="cuda" if gpu else "cpu",
        shapes=shapes,
        position=position,
    )
