"""Reads a kernel folder, which contains `workload.toml`, `reference.py` and the kernel's file."""

from __future__ import annotations

import ctypes
import importlib.util
import inspect
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property
from importlib.machinery import SourceFileLoader
from pathlib import Path
from signal import SIG_IGN
from types import CodeType, FrameType, ModuleType
from typing import Any

import numpy as np

from tilewright.core.errors import InputError, WorkloadError
from tilewright.core.files import MAX_TEXT_BYTES, MAX_TOML_BYTES, read_text
from tilewright.core.records import Argument, KernelLanguage, Tolerance, Workload, content_id
from tilewright.core.templates import concrete
from tilewright.core.text import plain_text
from tilewright.parts.arithmetic import DOUBLE, HAS_LONGER, SINGLE, Format
from tilewright.parts.followed import Followed, stored
from tilewright.parts.inputs import Array, bytes_of, distributions, draw
from tilewright.parts.memory import memory_limit
from tilewright.parts.problem import Expected, FormulaProblem
from tilewright.parts.workload_file import Inputs, ToleranceTable, WorkloadFile, read_workload_file

REFERENCE_TIMEOUT_S = 60
"""Time limit in seconds for one call of the user's reference, which is called about a dozen times
before a search begins.
"""


class FolderProblem:
    """The reference of a folder, whose `reference.py` is imported on first use in the evaluating
    process.

    `reference(**inputs)` receives the inputs by name as numpy arrays and returns the output, or
    a tuple of outputs in the order of `workload.toml`.
    """

    def __init__(
        self,
        folder: Path,
        workload: Workload,
        reduction: int,
        fingerprint: str,
        values: Mapping[str, Inputs],
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        self.reduction = reduction
        self.fingerprint = fingerprint
        self.distributions = DECLARED if values else distributions(workload.arguments)
        self._path = folder / "reference.py"
        self._inputs = [a for a in workload.arguments if a.is_given]
        self._outputs = [a for a in workload.arguments if a.is_written]
        self._leading = next((a for a in workload.arguments if a.is_given), None)
        self._values = values
        self._sound: set[str] = set()
        self._was_repeated = False
        self.constants = constants or {}
        """The arguments of kernels that are not arrays. `reference` receives those for which it has
        a parameter.
        """

    @cached_property
    def _module(self) -> ModuleType:
        return _import_reference(self._path)

    @property
    def independent(self) -> frozenset[str]:
        """The inputs whose values `workload.toml` does not describe, so that any numbers are
        allowed.
        """
        return frozenset(a.name for a in self._inputs) - self._values.keys()

    def draw(self, argument: Argument, distribution: str, rng: np.random.Generator) -> Array:
        """Values of one input, as `workload.toml` describes them."""
        described = self._values.get(argument.name)
        if described is None:
            usual = "small" if distribution == DECLARED[0] else distribution
            leading = argument == self._leading
            return draw(argument, usual, self.reduction, rng, leading=leading)
        if described.generator is not None:
            return self._generated(argument, described.generator, rng)
        # In rows of one value each, all of a row is drawn once.
        one = distribution == DECLARED[1]
        shape = (*argument.shape[:-1], 1) if one else argument.shape
        if described.normal is not None:
            values = rng.normal(*described.normal, shape)
        elif distribution == DECLARED[2]:
            values = rng.choice(np.array(described.range, np.float64), shape)
        else:
            low, high = described.range or (0.0, 1.0)
            values = rng.uniform(low, high, shape)
        if np.dtype(argument.dtype).kind in "iu":
            bounds = np.iinfo(argument.dtype)
            values = np.clip(np.rint(values), bounds.min, bounds.max)
        return np.broadcast_to(values, argument.shape).astype(argument.dtype)

    def _generated(self, argument: Argument, name: str, rng: np.random.Generator) -> Array:
        function = getattr(self._module, name, None)
        if not callable(function):
            raise WorkloadError(
                f"{self._path} defines no function {name}(rng, shape), which workload.toml names "
                f"for the values of {argument.name}."
            )
        remedy = f"it must return the values of {argument.name}"
        with users_code(f"{self._path}: {name}(rng, {argument.shape})", remedy):
            again = deepcopy(rng)
            array = np.asarray(function(rng, argument.shape))
            if name not in self._sound and not _equal(array, function(again, argument.shape)):
                raise ValueError("different values for the same rng")
            self._sound.add(name)
            if array.dtype.kind in "iuf":
                array = array.astype(argument.dtype)
        return self._fitting(argument, array, name)

    def reference(self, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
        """The expected outputs; `WorkloadError` if the user's function fails or returns arrays of
        the wrong shape or type.
        """
        values = self._called(inputs, np.asarray)
        return {
            a.name: self._fitting(a, value, "reference")
            for a, value in zip(self._outputs, values, strict=True)
        }

    def _called(
        self,
        inputs: Mapping[str, Any],
        converted: Callable[[Any], Any],
        remedy: str = "it must compute the outputs from the inputs",
        what: str = "{call}",
    ) -> tuple[Any, ...]:
        function = self._module.reference
        inputs = {**inputs, **_taken(function, self.constants)}
        call = f"reference({', '.join(inputs)})"
        with users_code(f"{self._path}: {what.format(call=call)}", remedy):
            returned = function(**inputs)
            values = returned if isinstance(returned, tuple) else (returned,)
            values = tuple(converted(value) for value in values)
        if len(values) != len(self._outputs):
            raise WorkloadError(
                f"{self._path}: reference returned {len(values)} arrays, expected "
                f"{len(self._outputs)}: {', '.join(a.name for a in self._outputs)}."
            )
        return values

    def _fitting(self, argument: Argument, array: Array, function: str) -> Array:
        if array.shape != argument.shape or array.dtype != np.dtype(argument.dtype):
            raise self._misfit(argument, array, function)
        return array

    def _misfit(self, argument: Argument, array: Array, function: str) -> WorkloadError:
        return WorkloadError(
            f"{self._path}: {function} returned {array.dtype}{list(array.shape)} for "
            f"{argument.name}, expected {argument.dtype}{list(argument.shape)}. Convert the "
            "result to the type and shape in workload.toml."
        )

    def check_repeated(self, inputs: Mapping[str, Array], before: Mapping[str, Expected]) -> None:
        """Call the reference again; `WorkloadError` if it does not return what it did `before`.

        The reference is called again only once in each process.
        """
        if self._was_repeated:
            return
        self._was_repeated = True
        for name, found in self.reference(inputs).items():
            if not _alike(_numbers_of(found), _numbers_of(before[name])):
                raise WorkloadError(
                    f"{self._path}: reference returned different results for {name} in two calls "
                    "with the same inputs. Make it deterministic: it may use neither random "
                    "numbers nor values that an earlier call left."
                )


def _numbers_of(expected: Expected) -> Array:
    return expected.exact if isinstance(expected, Followed) else expected


def _alike(one: Array, other: Array) -> bool:
    """Whether arrays are equal, up to the order in which a library may add up products."""
    finite = np.abs(one[np.isfinite(one)])
    least = 1e-9 * float(finite.max(initial=0.0))
    return bool(np.allclose(one, other, rtol=1e-6, atol=least, equal_nan=True))


def _equal(one: Array, other: Any) -> bool:
    """Whether arrays are the same to the last bit, not-a-numbers too."""
    return one.tobytes() == np.asarray(other).tobytes()


class FloatFolderProblem(FolderProblem, FormulaProblem):
    """The reference of a folder with floating-point outputs, whose formula is followed to find the
    error of honest arithmetic.

    Outputs of types that are narrower than float32 are computed in float32 and rounded once.

    If the folder has no tolerance, this error determines which results are correct, and a reference
    that cannot be followed is refused. If the folder has a tolerance, the error only determines the
    precision class.
    """

    required: bool
    """Whether the folder has no tolerance, so that the reference must be followed."""
    _called_with_numbers = False

    def formula(self, operands: Mapping[str, Any]) -> Mapping[str, Any]:
        """The user's reference, called with `Followed` arrays.

        `WorkloadError` says whether the reference itself fails, or only cannot be followed.
        """
        self._check_with_numbers(operands)
        remedy = (
            "use the numpy operations on whole arrays that docs/tolerance.md lists and copy no "
            "elements into other arrays, or give a [tolerance] in workload.toml"
        )
        what = (
            "to find the allowed error, tilewright calls {call} with arrays that record its "
            "operations, which"
        )
        values = self._called(operands, lambda value: value, remedy, what)
        for argument, value in zip(self._outputs, values, strict=True):
            if not isinstance(value, Followed) or value.shape != argument.shape:
                raise WorkloadError(
                    f"{self._path}: reference returns values for {argument.name} that it does not "
                    "compute from its inputs by numpy operations on whole arrays, so tilewright "
                    f"cannot find the allowed error; {remedy}."
                )
        return {
            a.name: value if a.dtype == self.numbers.name else stored(value, a.dtype)
            for a, value in zip(self._outputs, values, strict=True)
        }

    def _check_with_numbers(self, operands: Mapping[str, Any]) -> None:
        """Call the reference once as the user would; `WorkloadError` if it fails even then."""
        if self._called_with_numbers:
            return
        numbers = {
            a.name: np.array(getattr(operands[a.name], "exact", operands[a.name]), a.dtype)
            for a in self._inputs
        }
        for argument, array in zip(self._outputs, self._called(numbers, np.asarray), strict=True):
            if array.shape != argument.shape:
                raise self._misfit(argument, array, "reference")
        self._called_with_numbers = True

    def reference(self, inputs: Mapping[str, Array]) -> Mapping[str, Any]:
        """All outputs, exact and with their deviations."""
        try:
            return FormulaProblem.reference(self, inputs)
        except WorkloadError:
            if self.required:
                raise
            return FolderProblem.reference(self, inputs)


FOLLOWED = {"float32": SINGLE, "float16": SINGLE, "bfloat16": SINGLE, "float64": DOUBLE}
"""The output types for which the error of honest arithmetic can be computed, with the format of the
arithmetic.
"""
DECLARED = ("as described", "constant rows", "ends of the range")
"""The distributions of a folder that describes its inputs. All their values fit the description."""


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
    """The kernel as it stands, or a template with its first values."""
    try:
        return concrete(text, language.templates)
    except InputError as error:
        raise WorkloadError(f"{path}: {error}") from None


def _numbers(arguments: Iterable[Argument]) -> Format | None:
    """What honest kernels compute all outputs with, or None where that is not one known type."""
    found = {FOLLOWED.get(a.dtype) for a in arguments if a.is_written}
    numbers = found.pop() if len(found) == 1 else None
    return None if numbers is DOUBLE and not HAS_LONGER else numbers


def _check_compiled(path: Path, target: str, description: WorkloadFile) -> None:
    if description.constants:
        raise WorkloadError(
            f"{path}: kernels of {target} take arrays only. Write the constants "
            f"({', '.join(description.constants)}) into the kernel."
        )
    if description.operations == 0:
        raise WorkloadError(
            f"{path}: field 'operations': give a number greater than 0, from which the "
            f"utilisation on {target} is computed (see docs/targets.md for the format)."
        )


def _read(folder: Path, name: str, files: tuple[str, ...]) -> str:
    try:
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
                f"{path}: the argument name {name!r} is a keyword of {language.name}. Choose "
                "another name."
            )
    return arguments


def _taken(function: Callable[..., Any], constants: Mapping[str, Any]) -> dict[str, Any]:
    """The constants that the user's reference has a parameter for."""
    parameters = inspect.signature(function).parameters
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    return {n: v for n, v in constants.items() if takes_all or n in parameters}


class _WithoutBytecode(SourceFileLoader):
    """Compiles the text as it is now, and leaves no __pycache__ in the user's folder.

    Python's cache takes a text of the same length that was written within the same second for the
    one that it has compiled.
    """

    def get_code(self, fullname: str) -> CodeType:
        """The code of the file's text, in UTF-8 whatever encoding its first lines name.

        In UTF-7, for example, what reads as a comment could be code.
        """
        text = read_text(Path(self.path), MAX_TEXT_BYTES)
        code: CodeType = self.source_to_code(text, self.path)
        return code


def import_file(path: Path) -> ModuleType:
    """The module in a user's file; `WorkloadError` if importing it fails."""
    if path.suffix != ".py":
        raise WorkloadError(f"{path} is not a Python file. Give a file whose name ends in .py.")
    loader = _WithoutBytecode("tilewright_reference", str(path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    with users_code(f"{path}: importing it", "it must define functions and do nothing else"):
        loader.exec_module(module)
    return module


def _import_reference(path: Path) -> ModuleType:
    module = import_file(path)
    if not callable(getattr(module, "reference", None)):
        raise WorkloadError(
            f"{path} defines no function reference(...). Add one that takes the inputs by name "
            "and returns the output."
        )
    return module


@contextmanager
def users_code(what: str, remedy: str) -> Iterator[None]:
    """Raise `WorkloadError` if the user's code raises anything, or does not return in time."""
    # Anything: a class of its own may derive from BaseException, and may fail to print itself.
    most = most_reference_bytes()
    try:
        with _time_limit(REFERENCE_TIMEOUT_S), memory_limit(most):
            yield
    except _TooLongError:
        message = f"{what} took more than {REFERENCE_TIMEOUT_S} s; {remedy}, and faster."
    except MemoryError:
        message = (
            f"{what} needs more than {most / 2**30:.3g} GiB of memory, half of what this machine "
            f"has; {remedy} with less, or choose smaller shapes."
        )
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) != SIG_IGN:
            raise  # Ctrl-C; where that is ignored, the user's code raised it
        try:
            said = plain_text(f"{type(error).__name__}: {error}"[:300])
        except BaseException:
            said = plain_text(type(error).__name__[:300])
        if isinstance(error, ModuleNotFoundError):
            remedy = "install it in the Python environment that runs tilewright"
        message = f"{what} raised {' '.join(said.split()).rstrip('.')}; {remedy}."
    else:
        return
    raise WorkloadError(message)


def most_reference_bytes() -> int:
    """The number of bytes that the user's code may allocate in addition to the present memory of
    the process.
    """
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


class _TooLongError(BaseException):
    """Raised in the user's code, where `except Exception` does not hold it."""


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raises `_TooLongError` in the code inside: between two steps of Python, not within numpy."""
    if threading.current_thread() is not threading.main_thread():
        with _time_limit_of_thread(seconds):
            yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _time_limit_of_thread(seconds: float) -> Iterator[None]:
    """The same in a thread, where no signal arrives (searches beside an event loop)."""
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    thread, inside = ctypes.c_ulong(threading.get_ident()), threading.Lock()
    ended = False

    def stop() -> None:
        with inside:
            if not ended:
                raise_in(thread, ctypes.py_object(_TooLongError))

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with inside:
            ended = True
            raise_in(thread, None)  # one that has not arrived yet
        timer.cancel()
