"""A user's own kernel: a folder with `workload.toml`, `reference.py` and `kernel.c`."""

from __future__ import annotations

import importlib.util
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tilewright.core.errors import WorkloadError
from tilewright.core.records import Argument, Tolerance, Workload, content_id
from tilewright.parts.inputs import Array, bytes_of

FILES = ("workload.toml", "reference.py", "kernel.c")
MAX_ARGUMENTS = 8
"""Arguments passed in registers; the calling convention has eight."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Argument(_Strict):
    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    shape: Annotated[tuple[Annotated[int, Field(gt=0)], ...], Field(min_length=1)]
    dtype: Literal["int8", "uint8", "int16", "int32", "float32"]
    role: Literal["input", "output", "inout"]


class _Tolerance(_Strict):
    absolute: Annotated[float, Field(ge=0)] = 0.0
    relative: Annotated[float, Field(ge=0)] = 0.0


class _WorkloadFile(_Strict):
    """The fields of `workload.toml`.

    `operations`: useful multiply-accumulates, the basis of utilisation. `reduction`: how many
    products each output sums; inputs are scaled so that outputs spread over their range.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")] | None = None
    target: str
    operations: Annotated[int, Field(gt=0)]
    reduction: Annotated[int, Field(gt=0)] = 64
    tolerance: _Tolerance = _Tolerance()
    argument: Annotated[tuple[_Argument, ...], Field(min_length=1, max_length=MAX_ARGUMENTS)]


class FolderProblem:
    """The oracle in a folder's `reference.py`; imported on first use, in the evaluating process.

    `reference(**inputs)` receives the inputs by name as numpy arrays and returns the output, or
    a tuple of outputs in the order of `workload.toml`.
    """

    def __init__(self, folder: Path, workload: Workload, reduction: int, fingerprint: str) -> None:
        self.reduction = reduction
        self.fingerprint = fingerprint
        self._path = folder / "reference.py"
        self._outputs = [a for a in workload.arguments if a.is_written]
        self._function: Callable[..., Any] | None = None

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Expected outputs; `WorkloadError` when the user's function fails or does not fit."""
        if self._function is None:
            self._function = _import_reference(self._path)
        try:
            returned = self._function(**inputs)
        except (Exception, SystemExit) as error:
            raise WorkloadError(
                f"{self._path}: reference({', '.join(inputs)}) raised "
                f"{type(error).__name__}: {error}; it must compute the outputs from the inputs."
            ) from error
        values = returned if isinstance(returned, tuple) else (returned,)
        if len(values) != len(self._outputs):
            raise WorkloadError(
                f"{self._path}: reference returned {len(values)} arrays, expected "
                f"{len(self._outputs)}: {', '.join(a.name for a in self._outputs)}."
            )
        return {
            a.name: self._fitting(a, value) for a, value in zip(self._outputs, values, strict=True)
        }

    def _fitting(self, argument: Argument, value: object) -> Array:
        array = np.asarray(value)
        if array.shape != argument.shape or array.dtype != np.dtype(argument.dtype):
            raise WorkloadError(
                f"{self._path}: reference returned {array.dtype}{list(array.shape)} for "
                f"{argument.name}, expected {argument.dtype}{list(argument.shape)}; convert the "
                "result to the type and shape in workload.toml."
            )
        return array


def read_folder(
    folder: Path, target: str, max_bytes: int, memory: str
) -> tuple[Workload, str, FolderProblem]:
    """Workload on `target`, starting kernel and oracle of a folder.

    `memory` is what holds at most `max_bytes` of arrays ("the simulated memory").

    `WorkloadError` says what is wrong.
    """
    folder = folder.resolve()
    texts = {name: _read(folder, name) for name in FILES}
    description = _parse(folder / "workload.toml", texts["workload.toml"])
    workload = Workload(
        name=f"{target}:{description.name or folder.name}",
        target=target,
        arguments=_arguments(folder / "workload.toml", description, max_bytes, memory),
        operations=description.operations,
        tolerance=Tolerance(description.tolerance.absolute, description.tolerance.relative),
        source=str(folder),
    )
    fingerprint = content_id(texts["workload.toml"], texts["reference.py"])
    problem = FolderProblem(folder, workload, description.reduction, fingerprint)
    return workload, texts["kernel.c"], problem


def _read(folder: Path, name: str) -> str:
    try:
        return (folder / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise WorkloadError(
            f"{folder} has no {name}: a kernel folder needs {', '.join(FILES)}."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadError(f"{folder / name} cannot be read as UTF-8 text: {error}.") from error


def _parse(path: Path, text: str) -> _WorkloadFile:
    try:
        return _WorkloadFile.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise WorkloadError(f"{path} is not valid TOML: {error}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise WorkloadError(
            f"{path}: field {field!r}: {first['msg']} (see docs/targets.md for the format)."
        ) from error


def _arguments(
    path: Path, description: _WorkloadFile, max_bytes: int, memory: str
) -> tuple[Argument, ...]:
    arguments = tuple(Argument(a.name, a.shape, a.dtype, a.role) for a in description.argument)
    names = [a.name for a in arguments]
    if len(set(names)) != len(names):
        raise WorkloadError(f"{path}: two arguments have the same name; names must be distinct.")
    if not any(a.is_written for a in arguments):
        raise WorkloadError(
            f"{path}: no argument has the role 'output' or 'inout'; add the kernel's result."
        )
    size = bytes_of(arguments)
    if size > max_bytes:
        raise WorkloadError(
            f"{path}: the arrays take {size >> 20} MiB, and {memory} holds "
            f"{max_bytes >> 20} MiB; choose smaller shapes."
        )
    return arguments


def _import_reference(path: Path) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location("tilewright_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise WorkloadError(
            f"{path} cannot be imported: {type(error).__name__}: {error}."
        ) from error
    function = getattr(module, "reference", None)
    if not callable(function):
        raise WorkloadError(
            f"{path} defines no function reference(...): add one that takes the inputs by name "
            "and returns the output."
        )
    return function  # type: ignore[no-any-return]
