"""Arrays that kernels make with numpy: values, the expressions that make them again, limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nki_world import Kernel, numbers, refused

X = numbers(4, 8)
MADE = (
    "np.where(np.arange(4)[:, None] >= np.arange(8)[None, :], 0.0, -1e9).astype(np.float32)",
    "np.cos(1.0 / (10000.0 ** (np.arange(4, dtype=np.float32) / 4))[:, None] * np.arange(8))",
    "-np.tril(np.full((4, 8), -np.inf, dtype=np.float32), k=-3) if False else np.tri(4, 8, 2)",
    "(np.arange(32).reshape(4, 8) % 5 == 2) & ~(np.arange(8) > 6)",
    "np.concatenate([np.eye(4), 2 * np.eye(4)], axis=1) - np.float32(0.5)",
    "np.maximum(np.outer(np.arange(4), np.arange(8)), 3).astype(np.float64)",
    "np.tile(np.linspace(0, 1, 4), (4, 2)) + np.array([[1], [2], [3], [4]], dtype=np.float16)",
    "np.repeat(np.arange(4), 8).reshape((4, 8))[::-1, ...] / 7",
    "np.stack([np.ones(8, dtype=np.int64) * n for n in range(4)]).T.transpose(1, 0)",
    "np.square(np.broadcast_to(np.arange(8), (4, 8)) - np.arange(8).sum() // 8)",
    "np.exp(np.zeros_like(np.ones((4, 8), dtype=float))) * np.arange(8)[3]",
)


@pytest.mark.parametrize("made", MADE)
def test_arrays_hold_what_numpy_computes_and_their_expressions_make_them_again(made: str) -> None:
    kernel = Kernel(f"nl.store(out, nl.load(nl.shared_constant({made})))", x=X)
    wanted = np.asarray(eval(made, {"np": np}), np.float32)
    np.testing.assert_allclose(kernel.run(), wanted, rtol=1e-6)
    (constant,) = [t for t in kernel.trace.tensors if t.kind == "constant"]
    again = np.asarray(eval(constant.text, {"np": np}), np.float32)
    np.testing.assert_array_equal(again, wanted)


def test_constants_of_types_that_numpy_lacks_are_rounded() -> None:
    body = "nl.store(out, nl.load(nl.shared_constant(np.full((4, 8), 1.01), dtype=nl.bfloat16)))"
    np.testing.assert_array_equal(Kernel(body, x=X).run(), np.full((4, 8), 1.0078125, np.float32))


def test_attributes_of_arrays_are_known_numbers() -> None:
    before = "M = np.arange(32, dtype=np.int32).reshape(4, 8)"
    body = """
        assert M.shape == (4, 8) and M.ndim == 2 and M.size == 32 and M.dtype == np.int32
        assert M[1, 2] == 10 and M.max() == 31 and np.min(M) == 0 and int(M.T[7, 3]) == 31
        nl.store(out, nl.load(x) * float(M[2, 2]))
    """
    np.testing.assert_allclose(Kernel(body, before=before, x=X).run(), 18 * X, rtol=1e-6)


def test_an_expression_that_grows_without_end_is_not_kept() -> None:
    body = """
        c = np.ones((4, 8))
        for n in nl.static_range(20):
            c = c + c
        nl.store(out, nl.load(nl.shared_constant(c)))
    """
    kernel = Kernel(body, x=X)
    assert kernel.run()[0, 0] == 1 << 20
    assert [t.text for t in kernel.trace.tensors if t.kind == "constant"] == [""]


CHANGES = (
    "c = np.zeros((4, 8))\nfor n in nl.static_range(4):\n    c[n, 2 * n] = n + 1",
    "c = np.ones((4, 8))\nc[:, 0] /= np.sqrt(2)\nc[1:3, ::2] = -c[1:3, ::2]\nc[0, 0] -= 3",
    "c = np.arange(32).reshape(4, 8)\nc[c % 3 == 0] = 100\nc[..., -1] = np.arange(4)",
    "c = np.zeros((4, 8))\nrow = c[2]\nrow[3] = 7\nrow += 1\nc.T[5] = 9",
    "a = np.zeros((4, 8))\nc = a\na += 2\nb = a.copy()\nb[0] = 5\na *= b",
    "c = np.zeros((4, 8), dtype=np.float32)\nc[:] = [[1], [2], [3], [4]]\nc **= 2",
)


@pytest.mark.parametrize("statements", CHANGES)
def test_elements_of_arrays_change_as_in_numpy(statements: str) -> None:
    kernel = Kernel(f"{statements}\nnl.store(out, nl.load(nl.shared_constant(c)))", x=X)
    names: dict[str, Any] = {"np": np}
    exec(statements.replace("nl.static_range", "range"), names)
    np.testing.assert_array_equal(kernel.run(), np.asarray(names["c"], np.float32))


def test_a_constant_keeps_the_values_that_its_array_had() -> None:
    body = """
        c = np.zeros((4, 8), dtype=np.float32)
        before = nl.shared_constant(c)
        part = c[:, 0:4]
        c[0, 0] = 1
        nl.store(out[:, 0:4], nl.load(before[:, 0:4]))
        nl.store(out[:, 4:8], nl.load(nl.shared_constant(part)))
    """
    kernel = Kernel(body, x=X)
    wanted = np.zeros((4, 8), np.float32)
    wanted[0, 4] = 1
    np.testing.assert_array_equal(kernel.run(), wanted)
    first, second = [t.text for t in kernel.trace.tensors if t.kind == "constant"]
    assert first
    assert not second  # the expression of the part would give zeros


@pytest.mark.parametrize(
    "statement",
    [
        "c[9] = 1", "c[0] = [1, 2]", "c[0, 0] = x", "c[0] = 'a'", "c += np.ones(5)", "c += 0.5",
        "np.broadcast_to(c, (2, 4, 8))[0] = 1",
    ],
)  # fmt: skip
def test_what_arrays_cannot_hold_is_refused(statement: str) -> None:
    refused(f"c = np.zeros((4, 8), dtype=np.int32)\n{statement}", "unsupported_operand", x=X)


@pytest.mark.parametrize(
    "statement",
    ["T[1] = nothing()", "del T[nothing()]", "T.append(nothing())", "nl.store = nothing"],
)
def test_a_value_that_a_statement_of_the_file_cannot_change_is_missing(statement: str) -> None:
    before = f"T = [1, 2]\n{statement}"
    refused("nl.store(out, nl.load(x) * T[0])", "undefined_name", before=before, x=X)


@pytest.mark.parametrize(
    ("made", "code"),
    [
        ("np.outer(np.arange(1 << 12), np.arange(1 << 12))", "too_large"),
        ("np.arange(1 << 12)[:, None] * np.arange(1 << 12)", "too_large"),
        ("np.tile(np.ones(1 << 20), 100)", "too_large"),
        ("np.repeat(np.ones(1 << 20), 100)", "too_large"),
        ("np.broadcast_to(np.ones(1), (1 << 30,))", "too_large"),
        ("np.linspace(0, 1, num=1 << 30)", "too_large"),
        ("[np.zeros(1 << 22) for n in range(99)]", "too_large"),
        ("np.ones(4)[9]", "unsupported_operand"),
        ("np.ones(4) + np.ones(5)", "unsupported_operand"),
        ("np.ones(4) + nl.load(x)", "unsupported_operand"),
        ("1 if np.ones(4) else 2", "ambiguous_tensor_truth_value"),
        ("np.ones(4).tofile", "not_supported"),
        ("np.tril(np.ones((4, 4)), q=1)", "unexpected_keyword"),
        ("np.add(np.ones(4), 1, out=3)", "not_supported"),
        ("nl.ndarray((4, 8), dtype=np.float64)", "unsupported_dtype"),
    ],
)
def test_what_arrays_cannot_do_is_refused(made: str, code: str) -> None:
    refused(f"c = {made}", code, x=X)
