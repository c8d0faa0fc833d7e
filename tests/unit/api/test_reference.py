"""A reference function as the text of a module."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy import tanh as squash

from tilewright.api.reference import reference_source
from tilewright.core.errors import WorkloadError

SCALE = 2.5
SIZES = {"rows": (3, 4)}
WEIGHTS = np.ones(3)
X = np.zeros(3)


def helper(x: Any, k: float = SCALE) -> Any:
    return x * k


def twice(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(x: Any) -> Any:
        return 2 * function(x)

    return wrapped


def plain(x: Any) -> Any:
    return x + 1


def calls_others(x: np.ndarray) -> Any:
    X = squash(helper(x)) + math.pi  # a name that is an array outside
    return X * len(SIZES["rows"])


@twice
def decorated(x: Any) -> Any:
    return x + 1


def factorial(x: Any) -> Any:
    return x if x < 2 else x * factorial(x - 1)


def run_alone(function: Callable[..., Any]) -> Callable[..., Any]:
    space: dict[str, Any] = {}
    exec(reference_source(function), space)
    found: Callable[..., Any] = space["reference"]
    return found


@pytest.mark.parametrize("function", [plain, calls_others, decorated])
def test_the_text_alone_computes_the_same(function: Callable[..., Any]) -> None:
    x = np.linspace(-1, 1, 5)
    np.testing.assert_array_equal(run_alone(function)(x), function(x))


def test_a_function_may_call_itself() -> None:
    assert run_alone(factorial)(5) == 120


def test_a_function_called_reference_stays_as_it_is() -> None:
    def reference(x: Any) -> Any:
        return x

    text = reference_source(reference)
    assert text.endswith("return x\n")
    assert "reference = " not in text


def uses_array(x: Any) -> Any:
    return x + WEIGHTS


def uses_unknown(x: Any) -> Any:
    return x + not_there  # type: ignore[name-defined]  # noqa: F821


def closure() -> Callable[..., Any]:
    k = 3

    def inner(x: Any) -> Any:
        return x * k

    return inner


class Model:
    def call(self, x: Any) -> Any:
        return x


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (uses_array, "uses 'WEIGHTS', a ndarray from outside"),
        (uses_unknown, "uses 'not_there', which is not defined"),
        (closure(), "uses k of the enclosing function"),
        (Model().call, "the reference is a method"),
        (functools.partial(plain, x=1), "the reference is a partial"),
        (np.tanh, "the reference is an? ufunc"),
        (lambda x: x, "cannot be found. Write it with def"),
        (eval("lambda x: x"), "cannot be found"),
    ],
)
def test_what_text_cannot_hold_is_refused_by_name(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        reference_source(function)


def test_two_things_of_one_name_are_refused() -> None:
    space = {"np": np}
    exec("def plain(x):\n    return x", space)  # its source is not in a file
    with pytest.raises(WorkloadError, match="cannot be found"):
        reference_source(space["plain"])  # type: ignore[arg-type]
