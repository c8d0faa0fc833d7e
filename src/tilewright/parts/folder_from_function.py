"""Texts of a new kernel folder for a numpy or torch function."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from jinja2 import Environment, StrictUndefined
from numpy.typing import NDArray

from tilewright.core.errors import WorkloadError
from tilewright.core.files import MAX_TEXT_BYTES, read_text
from tilewright.core.records import Argument, KernelLanguage
from tilewright.parts.element_types import ELEMENT_TYPES, SMALL_FLOATS, is_float
from tilewright.parts.languages import NKI
from tilewright.parts.new_folder import Description, parameters_in_c, workload_toml
from tilewright.parts.user_code import import_file, users_code
from tilewright.parts.workload_file import USUAL_REDUCTION
from tilewright.parts.workload_schema import MAX_DIMENSIONS

_CHANGES = 4
"""Number of elements of each input that are changed to find out which outputs depend on it."""
EXAMPLES = "example_inputs"
"""The function of a user's file that returns the inputs from which shapes and types are taken."""
TORCH = '''

_of_tensors = FUNCTION


def reference(NAMES):
    """FUNCTION on numpy arrays, as tilewright calls it."""
    import ml_dtypes
    import torch

    def tensor(array):
        if array.dtype.name == "bfloat16":
            return torch.from_numpy(array.astype("float32")).bfloat16()
        return torch.from_numpy(array)

    def array(tensor):
        tensor = tensor.detach()
        if tensor.dtype == torch.bfloat16:
            return tensor.float().numpy().astype(ml_dtypes.bfloat16)
        return tensor.numpy()

    torch.set_num_threads(1)
    returned = _of_tensors(*(tensor(given) for given in (NAMES,)))
    return tuple(map(array, returned)) if isinstance(returned, tuple) else array(returned)
'''
"""The end of the reference for a torch function."""


def from_function(
    name: str, target: str, file: Path, function: str, language: KernelLanguage, skeleton: str
) -> Mapping[str, str]:
    """The files of a folder for a numpy or torch function, whose kernel the user has to write.

    `file` must also define `example_inputs()`, which returns the arrays or tensors of one call: a
    tuple in the order of the function's parameters, or a dictionary by their names. `WorkloadError`
    says what is wrong with the file.
    """
    try:
        text = read_text(file, MAX_TEXT_BYTES)
    except OSError as error:
        raise WorkloadError(
            f"{file} cannot be read ({error.strerror}). Give an existing Python file."
        ) from error
    example = _called(file, function)
    arguments, of_torch = example.arguments, example.of_torch
    for argument in arguments:
        _check_for_kernel(file, argument, language)
    outputs = [a for a in arguments if a.is_written]
    guess = sum(math.prod(a.shape) for a in outputs)
    ruled = ("float32",) if not of_torch else ()  # rounding is followed through numpy's operations
    exact = all(a.dtype in ruled or not is_float(a.dtype) for a in outputs)
    description = Description(
        name,
        target,
        guess,
        example.reduction,
        () if exact else _tolerance(outputs, example.size),
        {} if exact else example.inputs,
        operations_note="a guess (the number of elements of the outputs): replace it",
    )
    words = {
        "parameters": parameters_in_c(arguments),
        "inputs": [a for a in arguments if a.is_given],
        "outputs": outputs,
    }
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    ending = "" if function == "reference" else f"\n\nreference = {function}\n"
    if of_torch:
        names = ", ".join(a.name for a in arguments if a.is_given)
        ending = TORCH.replace("FUNCTION", function).replace("NAMES", names)
    return {
        "workload.toml": workload_toml(description, arguments),
        "reference.py": text.rstrip("\n") + ending + "\n" * (not ending),
        language.file: environment.from_string(skeleton).render(words).lstrip(),
    }


def _check_for_kernel(file: Path, argument: Argument, language: KernelLanguage) -> None:
    """`WorkloadError` if no kernel can have the argument."""
    if argument.name in language.keywords:
        raise WorkloadError(
            f"{file}: the parameter {argument.name!r} is a keyword of {language.name}. Rename it."
        )
    if len(argument.shape) > MAX_DIMENSIONS:
        raise WorkloadError(
            f"{file}: {argument.name} has {len(argument.shape)} dimensions, but kernels have at "
            f"most {MAX_DIMENSIONS}. Combine dimensions."
        )
    if argument.dtype in SMALL_FLOATS and language.name != NKI.name:
        raise WorkloadError(
            f"{file}: {argument.name} is {argument.dtype}, which only kernels of the Trainium "
            "targets can have. Convert it with astype, for example to np.float32."
        )


def _check_precision(file: Path, function: str, arguments: Sequence[Argument]) -> None:
    """`WorkloadError` if only outputs are of type float64, which numpy often chooses by itself."""
    doubles = [a for a in arguments if a.dtype == "float64"]
    floats = [a for a in arguments if a.is_given and is_float(a.dtype)]
    if floats and doubles and not any(a.is_given for a in doubles):
        raise WorkloadError(
            f"{file}: {function} returned float64 for inputs of type {floats[0].dtype}, for "
            "example because it computes with a float64 constant. Convert the result, for instance "
            f"with .astype(np.{floats[0].dtype}), or give inputs of type float64."
        )


def _tolerance(outputs: Sequence[Argument], size: float) -> tuple[float, float]:
    """Absolute and relative tolerance for outputs that are about as large as `size`, if no rule of
    the target covers them.

    The absolute error is needed for elements that are far smaller than their neighbours, because
    most of these are the result of cancellation.
    """
    short = any(a.dtype in ("float16", "bfloat16") for a in outputs)
    absolute, relative = (1e-3, 1e-2) if short else (5e-4, 1e-4)
    return float(f"{absolute * size:.1g}"), relative


@dataclass(frozen=True, slots=True)
class _Example:
    """The results of one call of a function.

    `inputs` contains the TOML text of the field `inputs` for each argument with a usable range.
    `size` is the root mean square of the largest output, or 1 if that is 0 or not finite.
    `reduction` is the number of elements of one input on which an element of an output depends.
    """

    arguments: tuple[Argument, ...]
    of_torch: bool
    inputs: Mapping[str, str]
    size: float
    reduction: int


def _called(file: Path, function: str) -> _Example:
    """Call a function with its example inputs."""
    module = import_file(file)
    called, examples = getattr(module, function, None), getattr(module, EXAMPLES, None)
    if not callable(called):
        raise WorkloadError(f"{file} defines no function {function}(...). Give one that exists.")
    if not callable(examples):
        raise WorkloadError(
            f"{file} defines no function {EXAMPLES}(). Add one that returns a tuple of numpy "
            f"arrays or torch tensors, one for each parameter of {function}."
        )
    with users_code(f"{file}: {EXAMPLES}()", "it must return one array per parameter"):
        found = examples()
        # The parameters of a PyTorch module are those of its method `forward`.
        names = list(inspect.signature(getattr(called, "forward", called)).parameters)
    given = _by_name(file, function, names, found)
    with users_code(f"{file}: {function}({', '.join(given)})", "it must accept its example inputs"):
        returned = called(**deepcopy(given))
    if isinstance(returned, tuple) and len(returned) == 1:
        raise WorkloadError(
            f"{file}: {function} returned a tuple with one element. Return the element itself."
        )
    outputs = returned if isinstance(returned, tuple) else (returned,)
    written = ["out"] if len(outputs) == 1 else [f"out{i}" for i in range(len(outputs))]
    while set(written) & set(given):
        written = [f"{name}_" for name in written]
    named = (*given.items(), *zip(written, outputs, strict=True))
    roles = ["input"] * len(given) + ["output"] * len(outputs)
    arrays = {name: _array(value) for name, value in named}
    arguments = tuple(
        _argument(file, name, array, role)
        for (name, array), role in zip(arrays.items(), roles, strict=True)
    )
    _check_precision(file, function, arguments)
    likenesses = {name: _likeness(arrays[name]) for name in given}
    squares = [np.square(arrays[n], dtype=np.float64).mean() for n in written if arrays[n].size]
    size = math.sqrt(max(squares, default=0.0))
    return _Example(
        arguments,
        any(_is_tensor(value) for _, value in named),
        {name: text for name, text in likenesses.items() if text},
        size if 0 < size < math.inf else 1.0,
        _reduction(called, given, outputs),
    )


def _by_name(file: Path, function: str, names: Sequence[str], found: Any) -> Mapping[str, Any]:
    """The arrays that `example_inputs()` returned, by the names of the function's parameters."""
    if isinstance(found, Mapping):
        return dict(found)
    values = found if isinstance(found, tuple | list) else (found,)
    if len(values) != len(names):
        raise WorkloadError(
            f"{file}: the number of values that {EXAMPLES}() returns is {len(values)}, but "
            f"{function} has the parameters ({', '.join(names)}). Return a tuple with one array "
            "for each parameter."
        )
    return dict(zip(names, values, strict=True))


def _reduction(called: Callable[..., Any], given: Mapping[str, Any], outputs: Sequence[Any]) -> int:
    """The number of elements of one input on which an element of an output depends.

    It is estimated by changing single elements: `elements * (changed outputs) / outputs`. If the
    function fails on changed inputs, or no output changes, this is the usual number.
    """
    before = [_array(value) for value in outputs]
    count = sum(array.size for array in before)
    rng = np.random.default_rng(0)
    most = 0
    for name, value in given.items():
        array = _array(value)
        shape, size = array.shape, array.size
        for place in rng.integers(size, size=_CHANGES) if size and count else ():
            changed = deepcopy(dict(given))
            try:
                with users_code("the function", "it must accept other values"):
                    changed[name][tuple(map(int, np.unravel_index(place, shape)))] += 1
                    returned = called(**changed)
                    after = returned if isinstance(returned, tuple) else (returned,)
                    differing = sum(
                        int(np.count_nonzero(_array(now) != old))
                        for old, now in zip(before, after, strict=True)
                    )
            except WorkloadError:
                return USUAL_REDUCTION
            most = max(most, round(size * differing / count), min(differing, 1))
    return most or USUAL_REDUCTION


def _likeness(values: NDArray[Any]) -> str:
    """TOML for random values in the same range; empty for integers and equal values."""
    if not is_float(values.dtype.name) or not values.size:
        return ""
    numbers = values.astype(np.float64)
    least, most = numbers.min(), numbers.max()
    if not np.isfinite(most - least) or least == most:
        return ""
    return f"{{ range = [{least:.3g}, {most:.3g}] }}"


def _is_tensor(value: Any) -> bool:
    """Whether the value is a torch tensor; works without torch."""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach")


def _array(value: Any) -> Any:
    """A tensor as an array of the same type; other values as they are."""
    if not _is_tensor(value):
        return value
    tensor = value.detach().cpu()
    if str(tensor.dtype) == "torch.bfloat16":  # numpy has no such type of its own
        return tensor.float().numpy().astype(ml_dtypes.bfloat16)
    return tensor.numpy()


def _argument(file: Path, name: str, value: Any, role: Any) -> Argument:
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        raise WorkloadError(
            f"{file}: {name} is {type(value).__name__}, expected a numpy array with at least one "
            "dimension: wrap a number as np.array([x], np.float32), or write it into the function."
        )
    dtype = value.dtype.name
    if dtype not in ELEMENT_TYPES:
        raise WorkloadError(
            f"{file}: {name} has the type {dtype}, which no kernel accepts. Convert it with "
            "astype, for example to np.float32."
        )
    return Argument(name, value.shape, dtype, role)
