"""Runs a problem's `Model` in PyTorch: what it is called with, right results, and honest errors.

Started by `oracle.py` as a contained program of whatever Python has PyTorch, so that it imports
nothing of tilewright. Each request is a message in JSON and one of bytes, and so is each reply.
"""

from __future__ import annotations

import ast
import ctypes
import importlib
import inspect
import json
import math
import os
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

torch: Any = importlib.import_module("torch")
_dispatch: Any = importlib.import_module("torch.utils._python_dispatch")

_SUMS = frozenset({
    "mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "convolution", "linear", "sum", "mean",
    "cumsum", "_scaled_dot_product_flash_attention_for_cpu", "avg_pool2d", "avg_pool3d",
    "_adaptive_avg_pool2d", "native_layer_norm", "native_group_norm", "native_batch_norm",
    "_native_batch_norm_legit", "prod", "var", "linalg_vector_norm",
})  # fmt: skip
"""Operations that add products or terms, each of which is rounded before it is added."""
_UNIT = 2.0**-24
_STEPS = 4096
"""Terms of a sum that are added one after the other."""
_LEAST_SIZE = 16
"""Below which the constants of a problem are not reduced."""


class UnusableError(Exception):
    """What makes a file no problem, as a clause."""


class Problem:
    """A file's functions, with constants on its outermost level replaced."""

    def __init__(self, text: str, constants: Mapping[str, int]) -> None:
        tree = ast.parse(text, "problem.py")
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if name in constants:
                    node.value = ast.copy_location(ast.Constant(constants[name]), node.value)
        module = types.ModuleType("problem")
        sys.modules["problem"] = module
        exec(compile(ast.fix_missing_locations(tree), "problem.py", "exec"), module.__dict__)
        for name in ("Model", "get_inputs", "get_init_inputs"):
            if not callable(getattr(module, name, None)):
                raise UnusableError(f"it defines no {name}")
        self._module = module

    def made(self, seed: int) -> tuple[list[Any], Any, list[Any], set[int]]:
        """Arguments of the model, the model, its inputs, and which inputs are drawn freely.

        An input is free if it is what `torch.rand` or `torch.randn` returned, so that any other
        numbers would do as well; one that is computed from such is not.
        """
        torch.manual_seed(seed)
        initial = list(self._module.get_init_inputs())
        torch.manual_seed(seed)
        model = self._module.Model(*initial)
        torch.manual_seed(seed + 1)
        with _recorded() as drawn:
            inputs = list(self._module.get_inputs())
        free = {i for i, value in enumerate(inputs) if any(value is one for one in drawn)}
        return initial, model, inputs, free


@contextmanager
def _recorded() -> Iterator[list[Any]]:
    """All tensors that the functions for random numbers return."""
    found: list[Any] = []
    before = {name: getattr(torch, name) for name in ("rand", "randn")}

    def recording(function: Any) -> Any:
        def called(*arguments: Any, **words: Any) -> Any:
            found.append(function(*arguments, **words))
            return found[-1]

        return called

    for name, function in before.items():
        setattr(torch, name, recording(function))
    try:
        yield found
    finally:
        for name, function in before.items():
            setattr(torch, name, function)


def constants_of(text: str) -> dict[str, int]:
    """Whole numbers that names on the outermost level are given once, by name."""
    found: dict[str, int] = {}
    twice: set[str] = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            twice |= {name} & set(found)
            try:
                value = eval(compile(ast.Expression(node.value), "", "eval"), {}, {})
            except Exception:
                continue
            if type(value) is int:
                found[name] = value
    return {name: value for name, value in found.items() if name not in twice}


def described(text: str, constants: Mapping[str, int]) -> dict[str, Any]:
    """What the model is called with and what it returns, found without computing where possible."""
    try:
        with torch.device("meta"):
            return _described(Problem(text, constants))
    except UnusableError:
        raise
    except Exception:
        return _described(Problem(text, constants))


def _described(problem: Problem) -> dict[str, Any]:
    initial, model, inputs, free = problem.made(0)
    names = list(inspect.signature(model.forward).parameters)
    counter = importlib.import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        outputs = _outputs(model(*inputs))
    elements = sum(o.numel() for o in outputs)
    elements += sum(i.numel() for i in inputs if isinstance(i, torch.Tensor))
    return {
        "initial": [_plain(value) for value in initial],
        "inputs": [
            {"name": names[i] if i < len(names) else f"x{i}", "free": i in free, **_shape(value)}
            for i, value in enumerate(inputs)
        ],
        "state": [{"name": name, **_shape(value)} for name, value in model.state_dict().items()],
        "outputs": [_shape(value) for value in outputs],
        "operations": max(counter.get_total_flops() // 2, elements),
    }


def _plain(value: Any) -> dict[str, Any]:
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"value": value}
    if isinstance(value, (list, tuple)) and all(isinstance(v, (bool, int, float)) for v in value):
        return {"list": list(value)}
    return {"unknown": type(value).__name__}


def _shape(value: Any) -> dict[str, Any]:
    if isinstance(value, torch.Tensor):
        if not value.is_contiguous():
            value = value.contiguous()
        return {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
    return _plain(value)


def _outputs(returned: Any) -> list[Any]:
    found = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    if not found or not all(isinstance(value, torch.Tensor) for value in found):
        raise UnusableError("Model.forward returns other than tensors")
    return found


def reduced(
    text: str, most_operations: int, most_bytes: int
) -> tuple[dict[str, int], dict[str, Any]]:
    """Constants at which the model is small enough, and what it is called with there.

    The largest constant is halved until the model fits; one that must keep its value is left.
    """
    constants = constants_of(text)
    sizes = {name: value for name, value in constants.items() if value >= 2 * _LEAST_SIZE}
    found = described(text, {})
    changed: dict[str, int] = {}
    for _ in range(200):
        if not sizes:
            break
        if found["operations"] <= most_operations and _bytes(found) <= most_bytes:
            break
        name = max(sizes, key=lambda n: sizes[n])
        tried = {**changed, name: sizes[name] // 2}
        try:
            found = described(text, tried)
        except Exception:
            del sizes[name]
            continue
        changed = tried
        sizes[name] //= 2
        if sizes[name] < 2 * _LEAST_SIZE:
            del sizes[name]
    return changed, found


def _bytes(found: Mapping[str, Any]) -> int:
    arrays = [a for key in ("inputs", "state", "outputs") for a in found[key] if "shape" in a]
    return sum(8 * math.prod(a["shape"]) for a in arrays)


def _bytes_of(tensor: Any) -> bytes:
    tensor = tensor.detach().contiguous()
    if tensor.numel() == 0:
        return b""
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())


class Oracle:
    """A problem at given constants, and its model."""

    def __init__(self, text: str, constants: Mapping[str, int]) -> None:
        self._problem = Problem(text, constants)

    def draw(self, seed: int) -> bytes:
        """Inputs and arrays of the model as the problem draws them with a seed."""
        _, model, inputs, _ = self._problem.made(seed)
        arrays = [value for value in inputs if isinstance(value, torch.Tensor)]
        return b"".join(_bytes_of(a) for a in (*arrays, *model.state_dict().values()))

    def _filled(self, data: bytes, double: bool) -> tuple[Any, list[Any]]:
        """The model and its inputs, with the values of `data`."""
        _, model, inputs, _ = self._problem.made(0)
        at = 0

        def taken(like: Any) -> Any:
            nonlocal at
            size = like.numel() * like.element_size()
            if not size:
                return like.clone()
            part = bytearray(data[at : at + size])
            at += size
            return torch.frombuffer(part, dtype=like.dtype).reshape(like.shape)

        given = [taken(v) if isinstance(v, torch.Tensor) else v for v in inputs]
        with torch.no_grad():
            for value in model.state_dict().values():
                value.copy_(taken(value))
        if double:
            model = model.double()
            given = [
                v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v
                for v in given
            ]
        return model, given

    def run(self, data: bytes, double: bool, mode: Any = None) -> list[Any]:
        """Outputs of one call, computed in a mode."""
        model, given = self._filled(data, double)
        with torch.no_grad():
            if mode is None:
                return _outputs(model(*given))
            with mode:
                return _outputs(model(*given))

    def expected(self, data: bytes, draws: int, seed: int) -> bytes:
        """Each output in float64, then its deviation: what rounding every operation changes.

        The deviation is the root mean square over calls in which each result of an operation, and
        each term of a sum, is changed by a random share of the size of one float32 rounding.
        """
        exact = self.run(data, True)
        squares = [torch.zeros_like(e, dtype=torch.float64) for e in exact]
        for number in range(draws):
            found = self.run(data, True, _Rounded(seed + number))
            for total, got, wanted in zip(squares, found, exact, strict=True):
                total += (got - wanted) ** 2 / draws
        parts = []
        for wanted, total in zip(exact, squares, strict=True):
            wanted = wanted.double()
            parts += [wanted, torch.sqrt(total + (_UNIT * wanted) ** 2)]
        return b"".join(map(_bytes_of, parts))

    def honest(self, data: bytes) -> bytes:
        """Outputs in float32 by the library and with long sums, then in TF32 and in bfloat16."""
        modes = (None, _Sequential(), _Coarse(11), _Coarse(8))
        return b"".join(_bytes_of(o) for mode in modes for o in self.run(data, False, mode))


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _name(function: Any) -> str:
    return str(function.overloadpacket.__name__)


class _Changed(_dispatch.TorchDispatchMode):  # type: ignore[misc]
    """Changes what operations take and give; what they only view or move stays as it is."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if _name(function) in _SUMS:
            args = [self.taken(a) if _is_float(a) else a for a in args]
        found = self.computed(function, args, kwargs or {})
        returns = function._schema.returns
        parts = found if isinstance(found, (tuple, list)) else [found]
        changed = []
        for value, said in zip(parts, returns, strict=False):
            alias = said.alias_info
            if not _is_float(value) or (alias is not None and not alias.is_write):
                changed.append(value)
            elif alias is not None:
                value.copy_(self.given(value))
                changed.append(value)
            else:
                changed.append(self.given(value))
        if isinstance(found, (tuple, list)):
            return type(found)(changed)
        return changed[0] if changed else found

    def computed(self, function: Any, args: Sequence[Any], words: Any) -> Any:
        return function(*args, **words)

    def taken(self, value: Any) -> Any:
        return value

    def given(self, value: Any) -> Any:
        return value


class _Rounded(_Changed):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed)

    def taken(self, value: Any) -> Any:
        return self.given(value)

    def given(self, value: Any) -> Any:
        noise = torch.randn(value.shape, generator=self._generator, dtype=torch.float64)
        return value * (1 + _UNIT * noise).to(value.dtype)


class _Coarse(_Changed):
    def __init__(self, digits: int) -> None:
        super().__init__()
        self._drop = 24 - digits

    def taken(self, value: Any) -> Any:
        return self.given(value)

    def given(self, value: Any) -> Any:
        if value.dtype != torch.float32:
            return value
        bits = value.contiguous().view(torch.int32)
        half = (1 << (self._drop - 1)) - 1 + ((bits >> self._drop) & 1)
        kept = ((bits + half) >> self._drop) << self._drop
        return torch.where(torch.isfinite(value), kept.view(torch.float32), value)


class _Sequential(_Changed):
    """Adds the terms of products and sums one after the other, as plain kernels do."""

    def computed(self, function: Any, args: Sequence[Any], words: Any) -> Any:
        name = _name(function)
        if name in ("mm", "bmm"):
            return _product(*args[:2])
        if name in ("addmm", "baddbmm") and not words:
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
        return function(*args, **words)

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


def _exactly(descriptor: int, count: int) -> bytes:
    parts = []
    while count:
        part = os.read(descriptor, min(count, 1 << 20))
        if not part:
            os._exit(0)
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _receive(descriptor: int) -> bytes:
    return _exactly(descriptor, int.from_bytes(_exactly(descriptor, 8), "big"))


def _send(descriptor: int, message: bytes) -> None:
    data = memoryview(len(message).to_bytes(8, "big") + message)
    while data:
        data = data[os.write(descriptor, data) :]


def main(descriptor: int) -> None:
    """Answer requests until the other side is gone."""
    for kind in (torch.Tensor, torch.nn.Module):
        kind.cuda = lambda self, *_, **__: self
    torch.use_deterministic_algorithms(True, warn_only=True)
    text = ""
    opened: dict[str, Oracle] = {}
    while True:
        request = json.loads(_receive(descriptor))
        data = _receive(descriptor)
        reply: dict[str, Any] = {}
        payload = b""
        try:
            if request["do"] == "open":
                text = request["text"]
            elif request["do"] == "describe":
                reply["full"] = described(text, {})
                most = request["most_operations"], request["most_bytes"]
                reply["constants"], reply["reduced"] = reduced(text, *most)
            else:
                key = json.dumps(request["constants"])
                if key not in opened:
                    opened[key] = Oracle(text, request["constants"])
                oracle = opened[key]
                match request["do"]:
                    case "draw":
                        payload = oracle.draw(request["seed"])
                    case "expected":
                        payload = oracle.expected(data, request["draws"], request["seed"])
                    case "honest":
                        payload = oracle.honest(data)
            reply["torch"] = torch.__version__
        except UnusableError as error:
            reply = {"unusable": str(error)}
        except BaseException as error:
            reply = {"raised": f"{type(error).__name__}: {error}"[:300]}
        _send(descriptor, json.dumps(reply).encode())
        _send(descriptor, payload)


if __name__ == "__main__":
    main(int(sys.argv[1]))
