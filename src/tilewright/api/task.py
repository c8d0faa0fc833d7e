"""A task made of a kernel, a reference function and example arrays."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.core.errors import InputError, StorageError, WorkloadError
from tilewright.core.files import MAX_TEXT_BYTES, read_text
from tilewright.core.plugins import load_target
from tilewright.core.records import Argument, ArgumentRole, Candidate, Tolerance, content_id

if TYPE_CHECKING:
    import numpy as np

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,60}")


@dataclass(frozen=True, eq=False)
class Task:
    """A kernel to make faster, its reference, and example arrays of its inputs.

    The arrays only determine shapes and element types. Kernels are checked and timed on private
    random inputs. The reference is called with the inputs by name, and returns the output or a
    tuple of outputs. Other processes execute the reference from its source. It may therefore use
    installed modules, constants and other functions, but no variables of an enclosing function.

    Attributes:
        kernel: the kernel's source, or the path of its file. The kernel's parameters are the inputs
            in their order, followed by the outputs.
        reference: a function that computes the correct outputs.
        inputs: example arrays by name.
        target: a name that `tilewright targets` lists.
        outputs: names of the outputs; by default "out", or "out0", "out1" and so on.
        name: the name of the task in results; by default the name of the reference.
        tolerance: allowed difference from the reference. By default, integers must be equal, and
            the allowed error of floats is derived from the reference (docs/tolerance.md).
        operations: number of multiply-adds that the computation requires. Utilisation and bounds
            depend on this number. The default, one for each element of the outputs, is a lower
            limit.
        reduction: number of products that each output sums; tilewright scales the inputs by it.
        ranges: the lowest and the highest allowed value, for each input with such limits.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> def halved(x):
    ...     return x * np.float32(0.5)
    >>> kernel = '''
    ... void kernel(const float x[64], float out[64]) {
    ...   for (int i = 0; i < 64; i++) out[i] = x[i] * 0.5f;
    ... }
    ... '''
    >>> task = tw.Task(kernel, halved, {"x": np.zeros(64, np.float32)})
    >>> task.name
    'halved'
    """

    kernel: str | Path
    reference: Callable[..., Any]
    inputs: Mapping[str, np.ndarray]
    target: str = "host-c"
    outputs: Sequence[str] = ()
    name: str = ""
    tolerance: Tolerance | None = None
    operations: int | None = None
    reduction: int = 64
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __repr__(self) -> str:
        """The task without its source and without the values of its arrays."""
        shapes = {name: list(getattr(array, "shape", ())) for name, array in self.inputs.items()}
        return f"Task(name={self.name!r}, target={self.target!r}, inputs={shapes})"

    def __post_init__(self) -> None:
        if not self.name:
            called = getattr(self.reference, "__name__", "task")
            object.__setattr__(self, "name", called if _NAME.fullmatch(called) else "task")
        elif not _NAME.fullmatch(self.name):
            raise InputError(
                f"task name {self.name!r} is not usable: use up to 60 letters, digits and _.-"
            )


def written(task: Task, place: Path) -> str:
    """Write the task as a kernel folder in `place`, and return the folder's path.

    The folder's name contains a hash of the content. `WorkloadError` says what is wrong with the
    kernel's file, the reference or the arrays.
    """
    import numpy as np

    from tilewright.api.reference import reference_source

    source = reference_source(task.reference)
    inputs = {name: np.asarray(array) for name, array in task.inputs.items()}
    results = _results(task, inputs, source)
    names = _output_names(task, len(results))
    language = load_target(task.target).brief().language
    texts = {
        "workload.toml": _workload(task, inputs, dict(zip(names, results, strict=True))),
        "reference.py": source,
        language.file: _kernel(task.kernel),
    }
    folder = place / f"{task.name}-{content_id(*texts.values())[:8]}"
    if not folder.is_dir():
        _write(folder, texts)
    return str(folder.resolve())


def _results(task: Task, inputs: Mapping[str, Any], source: str) -> list[Any]:
    """The outputs for the example inputs. `WorkloadError` if the reference's source, as a separate
    module, gives other outputs.
    """
    import numpy as np

    from tilewright.parts.user_code import users_code

    alone: dict[str, Any] = {"__name__": "tilewright_reference"}
    found = []
    called = f"reference {task.name}({', '.join(inputs)})"
    with users_code(called, "it must compute the outputs from the example inputs"):
        exec(compile(source, f"<source of {task.name}>", "exec"), alone)
        for function in (task.reference, alone["reference"]):
            returned = function(**{name: array.copy() for name, array in inputs.items()})
            values = returned if isinstance(returned, tuple) else (returned,)
            if any(value is None for value in values):
                raise WorkloadError(
                    f"{called} returned None. Return an array, or a tuple of arrays."
                )
            found.append([np.asarray(value) for value in values])
    if len(found[0]) != len(found[1]) or not all(map(_equal, *found)):
        raise WorkloadError(
            f"reference {task.name} gives different results when only its source is run: it must "
            "depend only on its inputs."
        )
    return found[0]


def _equal(one: Any, other: Any) -> bool:
    import numpy as np

    same = one.shape == other.shape and one.dtype == other.dtype
    return same and bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))


def _output_names(task: Task, count: int) -> Sequence[str]:
    names = task.outputs or (["out"] if count == 1 else [f"out{i}" for i in range(count)])
    if isinstance(names, str) or len(names) != count:
        raise WorkloadError(
            f"reference {task.name} returned {count} array(s), but outputs is {names!r}. Give "
            "one name for each array."
        )
    for name in (*task.inputs, *names):
        if not _IDENTIFIER.fullmatch(name):
            raise WorkloadError(f"array name {name!r} is not usable. Give a C identifier.")
    return names


def _workload(task: Task, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> str:
    """The text of workload.toml."""
    from tilewright.parts.element_types import ELEMENT_TYPES
    from tilewright.parts.new_folder import Description, workload_toml

    unknown = sorted(set(task.ranges) - set(inputs))
    if unknown:
        raise WorkloadError(f"ranges names {unknown[0]!r}. Give names of inputs.")
    arguments = []
    given: Sequence[tuple[ArgumentRole, Mapping[str, Any]]]
    given = (("input", inputs), ("output", outputs))
    for role, arrays in given:
        for name, array in arrays.items():
            if array.dtype.name not in ELEMENT_TYPES:
                raise WorkloadError(
                    f"{role} {name} is an array of {array.dtype.name}. Use an array of one of the "
                    f"types {', '.join(ELEMENT_TYPES)}."
                )
            if array.size == 0:
                raise WorkloadError(f"{role} {name} has no elements. Use a larger array.")
            if array.ndim == 0:
                raise WorkloadError(
                    f"{role} {name} is a single number: kernels take arrays, so give it at least "
                    "one dimension."
                )
            arguments.append(Argument(name, array.shape, array.dtype.name, role))
    allowed = task.tolerance
    description = Description(
        task.name,
        task.target,
        task.operations or sum(int(array.size) for array in outputs.values()),
        task.reduction,
        (allowed.absolute, allowed.relative) if allowed else (),
        {name: f"{{ range = {_limits(name, pair)} }}" for name, pair in task.ranges.items()},
    )
    return workload_toml(description, arguments)


def _limits(name: str, pair: object) -> list[float]:
    """The lowest and the highest value of an input."""
    try:
        low, high = map(float, pair)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        low, high = 0.0, 0.0
    if not low < high:
        raise WorkloadError(
            f"ranges[{name!r}] is {pair!r}. Give two numbers, the smaller one first, such as "
            "(0.0, 1.0)."
        )
    return [low, high]


def require_kernel(kernel: object) -> None:
    """Raise `InputError` unless this is a kernel's source, the path of its file, or a
    candidate.
    """
    if not isinstance(kernel, str | PathLike | Candidate):
        raise InputError(
            f"kernel is {kernel!r}, but must be the source as a string, the path of a file as a "
            "pathlib.Path, or a tw.Candidate."
        )


def _kernel(kernel: str | Path) -> str:
    require_kernel(kernel)
    if isinstance(kernel, str):
        return kernel
    try:
        return read_text(kernel, MAX_TEXT_BYTES)
    except OSError as error:
        raise InputError(
            f"kernel file {kernel} cannot be read ({error.strerror}). Give the path of a text "
            "file in UTF-8, or the kernel's source as a string."
        ) from error


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    """Write all files or none, because another process may write the same folder at the same
    time.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".draft-"))
        try:
            for name, text in texts.items():
                (draft / name).write_text(text, encoding="utf-8")
            if not folder.is_dir():
                draft.replace(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        if folder.is_dir():  # another process was faster
            return
        raise StorageError(
            f"{folder} cannot be written ({error.strerror}). Make it writable or choose another "
            "project folder."
        ) from error
