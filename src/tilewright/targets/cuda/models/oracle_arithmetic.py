"""Variants of arithmetic with which the oracle's program runs a model. Only this program imports
them.

Each variant is a PyTorch mode, which intercepts every operation.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Sequence
from typing import Any

torch: Any = importlib.import_module("torch")
_dispatch: Any = importlib.import_module("torch.utils._python_dispatch")

_SUMS = frozenset({
    "mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "convolution", "linear", "sum", "mean",
    "cumsum", "cumprod", "_scaled_dot_product_flash_attention_for_cpu", "avg_pool2d", "avg_pool3d",
    "_adaptive_avg_pool2d", "native_layer_norm", "native_group_norm", "native_batch_norm",
    "_native_batch_norm_legit", "prod", "var", "linalg_vector_norm",
})  # fmt: skip
"""Operations that sum products or terms, each of which is rounded before it is added."""
_ADDITIONS = frozenset({"add", "sub"})
_COMPARISONS = frozenset({"gt", "ge", "lt", "le", "eq", "ne", "sign", "heaviside"})
_UNIT = 2.0**-24
_STEPS = 4096
"""Number of terms of a sum that are added one after the other."""


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _name(function: Any) -> str:
    """The name of an operation, which is the same if it changes an array in place."""
    return str(function.overloadpacket.__name__).rstrip("_")


def _written(function: Any, args: Sequence[Any], words: Any) -> dict[frozenset[str], Any]:
    """The arrays into which an operation writes, by what its schema calls them."""
    found = {}
    for i, said in enumerate(function._schema.arguments):
        value = args[i] if i < len(args) else words.get(said.name)
        if said.alias_info is not None and said.alias_info.is_write and value is not None:
            found[frozenset(said.alias_info.before_set)] = value
    return found


class _Changed(_dispatch.TorchDispatchMode):  # type: ignore[misc]
    """Changes the operands and results of operations that compute. Operations that only view or
    move data are unchanged."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        written = _written(function, args, kwargs or {})
        if _name(function) in _SUMS:
            args = [self._taken(a, written.values()) if _is_float(a) else a for a in args]
        found = self.computed(function, args, kwargs or {})
        if isinstance(found, list):  # parts of an array, such as those of chunk and split
            return found
        returns = function._schema.returns
        parts = found if isinstance(found, tuple) else [found]
        changed = []
        for value, said in zip(parts, returns, strict=False):
            alias = said.alias_info
            if not _is_float(value) or (alias is not None and not alias.is_write):
                changed.append(value)
            elif alias is not None:
                to = written[frozenset(alias.before_set)]
                if to.shape != value.shape:
                    to.resize_(value.shape)
                changed.append(to.copy_(self.given(value)))
            else:
                changed.append(self.given(value))
        if isinstance(found, tuple):
            return tuple(changed)
        return changed[0] if changed else found

    def _taken(self, value: Any, written: Iterable[Any]) -> Any:
        taken = self.taken(value)
        return value.copy_(taken) if any(value is one for one in written) else taken

    def computed(self, function: Any, args: Sequence[Any], words: Any) -> Any:
        """The result of an operation, also if it should be written into an array."""
        return function(*args, **words)

    def taken(self, value: Any) -> Any:
        """A changed operand of a product or sum."""
        return value

    def given(self, value: Any) -> Any:
        """A changed result of an operation."""
        return value


class Rounded(_Changed):
    """Changes every result, and every term of a sum, by a random share of a float32 rounding
    error. A chain such as a + b + c is a sum, whose terms a kernel may add in another order.

    `sign` is 1, or -1 for the opposite changes. `compares` says whether an operation compares
    numbers.
    """

    def __init__(self, seed: int, sign: int = 1) -> None:
        super().__init__()
        self._sign, self.compares = sign, False
        self._generator = torch.Generator().manual_seed(seed)

    def computed(self, function: Any, args: Sequence[Any], words: Any) -> Any:
        """The result of an operation. Results of additions know the squares of their terms."""
        name, squares = _name(function), None
        self.compares |= name in _COMPARISONS
        if name in _ADDITIONS and len(args) > 1:
            squares = _squares(args[0]) + words.get("alpha", 1) ** 2 * _squares(args[1])
            is_chain = any(hasattr(term, "squares_of_terms") for term in args[:2])
        found = function(*args, **words)
        if _is_float(found) and squares is not None:
            found.squares_of_terms, found.is_chain = squares, is_chain
        elif hasattr(found, "squares_of_terms"):  # changed in place by another operation
            del found.squares_of_terms
        return found

    def taken(self, value: Any) -> Any:
        """A changed operand of a product or sum."""
        return self._changed(value, value)

    def given(self, value: Any) -> Any:
        """A changed result of an operation."""
        squares = getattr(value, "squares_of_terms", None)
        if squares is None:
            return self._changed(value, value)
        found = self._changed(value, torch.sqrt(squares) if value.is_chain else value)
        found.squares_of_terms = squares
        return found

    def _changed(self, value: Any, size: Any) -> Any:
        noise = torch.randn(value.shape, generator=self._generator, dtype=torch.float64)
        size = torch.where(torch.isfinite(size), size, 0)  # infinite numbers are not rounded
        return value + (self._sign * _UNIT * noise * size).to(value.dtype)


def _squares(value: Any) -> Any:
    """The sum of the squares of the terms of a sum, or the square of any other number."""
    known = getattr(value, "squares_of_terms", None)
    return value * value if known is None else known


class Coarse(_Changed):
    """Rounds every result, and the operands of products and sums, to a number of binary digits."""

    def __init__(self, digits: int) -> None:
        super().__init__()
        self._drop = 24 - digits

    def taken(self, value: Any) -> Any:
        """A rounded operand of a product or sum."""
        return self.given(value)

    def given(self, value: Any) -> Any:
        """A rounded result of an operation."""
        if value.dtype != torch.float32:
            return value
        bits = value.contiguous().view(torch.int32)
        half = (1 << (self._drop - 1)) - 1 + ((bits >> self._drop) & 1)
        kept = ((bits + half) >> self._drop) << self._drop
        return torch.where(torch.isfinite(value), kept.view(torch.float32), value)


class Sequential(_Changed):
    """Adds the terms of products and sums one after the other, as simple kernels do."""

    def computed(self, function: Any, args: Sequence[Any], words: Any) -> Any:
        """The result of an operation."""
        name, is_plain = _name(function), words.keys() <= {"out"}
        if name in ("mm", "bmm"):
            return _product(*args[:2])
        if name in ("addmm", "baddbmm") and is_plain:
            return args[0] + _product(*args[1:3])
        if name == "convolution" and not args[6] and args[8] == 1 and args[1].shape[1] > 1:
            found: Any = None
            for c in range(args[1].shape[1]):
                part = function(args[0][:, c : c + 1], args[1][:, c : c + 1], None, *args[3:])
                found = part if found is None else found + part
            bias = args[2]
            return found if bias is None else found + bias.reshape(-1, *[1] * (found.ndim - 2))
        if name in ("sum", "mean") and _is_float(args[0]):
            return self._summed(name, function, args, words)
        if name in ("_softmax", "_log_softmax") and _is_float(args[0]) and args[0].ndim:
            shifted = args[0] - args[0].amax(args[1], keepdim=True)
            terms = torch.exp(shifted)
            total = self._summed("sum", function, [terms, args[1:2], True], {})
            return terms / total if name == "_softmax" else shifted - torch.log(total)
        if name in ("cumsum", "cumprod") and _is_float(args[0]) and args[0].ndim and is_plain:
            return self._accumulated(name, args[0], args[1])
        return function(*args, **words)

    def _accumulated(self, name: str, values: Any, axis: int) -> Any:
        """The sums or products up to each element. PyTorch itself accumulates in double."""
        found = torch.empty_like(values)
        total = None
        for element, to in zip(values.unbind(axis), found.unbind(axis), strict=True):
            if total is None:
                total = element.clone()
            else:
                total = total + element if name == "cumsum" else total * element
            to.copy_(total)
        return found

    def _summed(self, name: str, function: Any, args: Sequence[Any], words: Any) -> Any:
        values = args[0]
        axes = args[1] if len(args) > 1 and args[1] else list(range(values.ndim))
        axes = [a % values.ndim for a in (axes if isinstance(axes, (list, tuple)) else [axes])]
        keep = bool(args[2]) if len(args) > 2 else bool(words.get("keepdim", False))
        rest = [a for a in range(values.ndim) if a not in axes]
        count = math.prod(values.shape[a] for a in axes)
        rows = values.permute(*rest, *axes).reshape(-1, count)
        lanes = -(-count // _STEPS)
        padded = torch.nn.functional.pad(rows, (0, lanes * -(-count // lanes) - count))
        total = torch.zeros_like(rows[:, :1]).expand(-1, lanes).clone()
        for part in padded.reshape(len(rows), -1, lanes).unbind(1):
            total += part
        found = total[:, 0].clone()
        for lane in range(1, lanes):
            found += total[:, lane]
        if name == "mean":
            found = found / count
        shape = [1 if a in axes else s for a, s in enumerate(values.shape)]
        return found.reshape(shape if keep else [values.shape[a] for a in rest])


def _product(left: Any, right: Any) -> Any:
    terms = left.shape[-1]
    lanes = max(1, -(-terms // _STEPS))
    found = None
    for k in range(0, terms, lanes):
        part = left[..., k : k + lanes] @ right[..., k : k + lanes, :]
        found = part if found is None else found.add_(part)
    return found
