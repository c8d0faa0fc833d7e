"""Reads a kernel folder, which contains `workload.toml`, `reference.py` and the kernel's file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tilewright.core.errors import InputError, WorkloadError
from tilewright.core.files import MAX_TEXT_BYTES, MAX_TOML_BYTES, read_text, resolved
from tilewright.core.records import Argument, KernelLanguage, Tolerance, Workload, content_id
from tilewright.core.templates import concrete
from tilewright.parts.arithmetic import DOUBLE, HAS_LONGER, SINGLE, Format
from tilewright.parts.element_types import SMALL_FLOATS
from tilewright.parts.folder_problem import FloatFolderProblem, FolderProblem
from tilewright.parts.inputs import bytes_of
from tilewright.parts.workload_file import ToleranceTable, WorkloadFile, read_workload_file

FOLLOWED = {"float32": SINGLE, "float16": SINGLE, "bfloat16": SINGLE, "float64": DOUBLE}
"""The output types for which the error of honest arithmetic can be computed, with the format of the
arithmetic.
"""


def read_folder(
    folder: Path,
    target: str,
    language: KernelLanguage,
    max_bytes: int,
    memory: str,
    max_arguments: int | None = None,
    *,
    traced: bool = False,
) -> tuple[Workload, str, FolderProblem]:
    """The workload, the starting kernel and the reference of a folder for `target`.

    `memory` is the name of the memory that can hold `max_bytes` of arrays, for messages. Without
    `max_arguments`, the number of arguments is not limited. Only `traced` kernels may have
    constants and zero operations. `WorkloadError` says what is wrong.
    """
    folder = folder.resolve()
    files = ("workload.toml", "reference.py", language.file)
    texts = {name: _read(folder, name, files) for name in files}
    path = folder / "workload.toml"
    description = read_workload_file(path)
    if not traced:
        _check_compiled(path, target, description)
    arguments = _arguments(path, description, language, max_arguments)
    size = bytes_of(arguments)
    if size > max_bytes:
        raise WorkloadError(
            f"{path}: the arrays take {size >> 20} MiB, but {memory} has only {max_bytes >> 20} "
            "MiB. Choose smaller shapes."
        )
    tolerance = description.tolerance or ToleranceTable()
    workload = Workload(
        name=f"{target}:{description.name or folder.name}",
        target=target,
        arguments=arguments,
        operations=description.operations,
        tolerance=Tolerance(tolerance.absolute, tolerance.relative),
        source=str(folder),
    )
    fingerprint = content_id(texts["workload.toml"], texts["reference.py"])
    values = {a.name: a.inputs for a in description.argument if a.inputs is not None}
    numbers = _numbers(workload.arguments)
    exact = description.tolerance == ToleranceTable()
    kind = FolderProblem if numbers is None or exact else FloatFolderProblem
    constants = description.constants
    problem = kind(folder, workload, description.reduction, fingerprint, values, constants)
    if isinstance(problem, FloatFolderProblem) and numbers is not None:
        problem.required, problem.numbers = description.tolerance is None, numbers
    start = _starting_kernel(folder / language.file, texts[language.file], language)
    return workload, start, problem


def _starting_kernel(path: Path, text: str, language: KernelLanguage) -> str:
    """The kernel; a template is filled in with the first values of its parameters."""
    try:
        return concrete(text, language.templates)
    except InputError as error:
        raise WorkloadError(f"{path}: {error}") from None


def _numbers(arguments: Iterable[Argument]) -> Format | None:
    """The format in which honest kernels compute all outputs, or None if it is not known."""
    found = {FOLLOWED.get(a.dtype) for a in arguments if a.is_written}
    numbers = found.pop() if len(found) == 1 else None
    return None if numbers is DOUBLE and not HAS_LONGER else numbers


def _check_compiled(path: Path, target: str, description: WorkloadFile) -> None:
    if description.constants:
        raise WorkloadError(
            f"{path}: kernels of {target} take arrays only. Write the constants "
            f"({', '.join(description.constants)}) into the kernel."
        )
    for number, argument in enumerate(description.argument):
        if argument.dtype in SMALL_FLOATS:
            raise WorkloadError(
                f"{path}: field 'argument.{number}.dtype': arrays of {target} cannot be "
                f"{argument.dtype}, which only the Trainium targets have. Choose another type."
            )
    if description.operations == 0:
        raise WorkloadError(
            f"{path}: field 'operations': give a number greater than 0, from which the "
            f"utilisation on {target} is computed. For a kernel without multiply-adds, count its "
            "other operations, such as the comparisons and exponentials of a softmax."
        )


def _read(folder: Path, name: str, files: tuple[str, ...]) -> str:
    try:
        # Its contents would be shown to language models, and stored in bundles.
        if not resolved(folder / name).is_relative_to(folder):
            raise WorkloadError(
                f"{folder / name} is a link to a file outside its folder. Replace the link by the "
                "file, or by a link to a file of the same folder."
            )
        most = MAX_TOML_BYTES if name.endswith(".toml") else MAX_TEXT_BYTES
        return read_text(folder / name, most)
    except FileNotFoundError:
        raise WorkloadError(
            f"{folder} has no {name}: a kernel folder needs {', '.join(files)}."
        ) from None
    except OSError as error:
        raise WorkloadError(f"{folder / name} cannot be read: {error.strerror}.") from error


def _arguments(
    path: Path, description: WorkloadFile, language: KernelLanguage, most: int | None
) -> tuple[Argument, ...]:
    arguments = tuple(Argument(a.name, a.shape, a.dtype, a.role) for a in description.argument)
    names = [*(a.name for a in arguments), *description.constants]
    if len(set(names)) != len(names):
        raise WorkloadError(
            f"{path}: two arguments have the same name. Give each argument a name of its own."
        )
    if not any(a.is_written for a in arguments):
        raise WorkloadError(
            f"{path}: no argument has the role 'output' or 'inout'. Add the array that holds the "
            "kernel's result."
        )
    if most is not None and len(arguments) > most:
        raise WorkloadError(
            f"{path}: there are {len(arguments)} arguments, but kernels of this target have at "
            f"most {most}. Combine arrays."
        )
    for name in names:
        if name in language.keywords:
            raise WorkloadError(
                f"{path}: the argument name {name!r} is a keyword of {language.name}, or a name "
                "that its compilers define. Choose another name."
            )
    return arguments
