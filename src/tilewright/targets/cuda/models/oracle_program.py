"""Runs a problem's `Model` in PyTorch: computes its inputs, correct results, and the errors of
honest kernels.

`oracle.py` starts it as a sandboxed program with any Python that has PyTorch, so it imports nothing
of tilewright. Each request consists of a JSON message and a message of bytes, and so does each
reply.
"""

from __future__ import annotations

import ast
import ctypes
import importlib
import inspect
import json
import os
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

torch: Any = importlib.import_module("torch")
sys.path.insert(0, str(Path(__file__).parent))  # not on the import path of an isolated Python
_modes: Any = importlib.import_module("oracle_arithmetic")
_sizes: Any = importlib.import_module("oracle_sizes")
_trace: Any = importlib.import_module("oracle_trace")

_UNIT = 2.0**-24


class UnusableError(Exception):
    """Why a file is not a problem, as a clause."""


class Problem:
    """The functions of a file, with replaced values of constants at its top level."""

    def __init__(self, text: str, constants: Mapping[str, int]) -> None:
        tree = ast.parse(text, "problem.py")
        assigned = list(_assigned(tree))
        for node in tree.body:
            if isinstance(node, ast.Assign):
                given = [one for one in assigned if one[0] is node and one[1] in constants]
                node.value = _replaced(node, {name: constants[name] for _, name, _ in given})
        module = types.ModuleType("problem")
        sys.modules["problem"] = module
        exec(compile(ast.fix_missing_locations(tree), "problem.py", "exec"), module.__dict__)
        for name in ("Model", "get_inputs", "get_init_inputs"):
            if not callable(getattr(module, name, None)):
                raise UnusableError(f"it defines no {name}")
        self._module = module

    def model(self, seed: int) -> tuple[list[Any], Any]:
        """The arguments of the model, and the model itself."""
        torch.manual_seed(seed)
        initial = list(self._module.get_init_inputs())
        torch.manual_seed(seed)
        return initial, self._module.Model(*initial)

    def inputs(self, seed: int) -> tuple[list[Any], set[int]]:
        """The arguments of the model's call, and whether each is drawn freely.

        An input is free if `torch.rand` or `torch.randn` returned it, so that any other numbers are
        possible too. An input that is computed from such a tensor is not free.
        """
        torch.manual_seed(seed + 1)
        with _recorded() as drawn:
            inputs = list(self._module.get_inputs())
        if any(isinstance(v, torch.Tensor) and not v.is_contiguous() for v in inputs):
            raise UnusableError("get_inputs returns a tensor whose rows are not dense")
        return inputs, {i for i, value in enumerate(inputs) if any(value is one for one in drawn)}


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
    """Integers that are assigned once to a name at the top level, by name."""
    found: dict[str, int] = {}
    twice: set[str] = set()
    for _, name, given in _assigned(ast.parse(text)):
        twice |= {name} & set(found)
        try:
            value = eval(compile(ast.Expression(given), "", "eval"), {}, {})
        except Exception:
            continue
        if type(value) is int:
            found[name] = value
    return {name: value for name, value in found.items() if name not in twice}


def _assigned(tree: ast.Module) -> Iterator[tuple[ast.Assign, str, ast.expr]]:
    """The assignments at the top level, with the names and the values that they get: of
    `a = b = 8` and of `a, b = 8, 16` two each."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from ((node, *one) for one in _pairs(target, node.value))


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, other in zip(target.elts, value.elts, strict=False):
            yield from _pairs(one, other)


def _replaced(node: ast.Assign, constants: Mapping[str, int]) -> ast.expr:
    """The value of an assignment in which names get other numbers."""
    target, value = node.targets[0], node.value
    names = [t.id for t in node.targets if isinstance(t, ast.Name) and t.id in constants]
    if names:  # names that are assigned together keep one value
        return ast.copy_location(ast.Constant(constants[names[0]]), value)
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = zip(target.elts, value.elts, strict=False)
        value.elts[: len(target.elts)] = [
            _replaced(ast.Assign([one], other), constants) for one, other in pairs
        ]
    return value


def described(text: str, constants: Mapping[str, int]) -> dict[str, Any]:
    """A description of the arguments and results of the model, without computing if possible."""
    try:
        with torch.device("meta"):
            torch.empty(0)  # looks up the functions that make tensors, before some are replaced
            return _described(Problem(text, constants))
    except UnusableError:
        raise
    except Exception:
        return _described(Problem(text, constants))


def _described(problem: Problem) -> dict[str, Any]:
    initial, model = problem.model(0)
    inputs, free = problem.inputs(0)
    names = list(inspect.signature(model.forward).parameters)
    counter = importlib.import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
    traced = _trace.Traced(model, inputs)
    with torch.no_grad(), counter, traced:
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
        "modules": [_module(name, part) for name, part in model.named_modules() if name],
        "outputs": [_shape(value) for value in outputs],
        "graph": traced.described(outputs),
        "operations": max(counter.get_total_flops() // 2, elements),
    }


def _module(name: str, module: Any) -> dict[str, Any]:
    """A module inside the model: its class, the parameters of its constructor with their default
    values, and its plain attributes."""
    kind = type(module)
    taken = list(inspect.signature(kind).parameters.values())
    return {
        "name": name,
        "kind": kind.__name__ if kind is getattr(torch.nn, kind.__name__, None) else "",
        "parameters": [{"name": p.name, **_plain(p.default)} for p in taken],
        "attributes": [
            {"name": p.name, **_plain(vars(module).get(p.name, p.empty))} for p in taken
        ],
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
        raise UnusableError("Model.forward returns something other than tensors")
    return found


def bytes_of(tensor: Any) -> bytes:
    """The elements of a tensor, row by row."""
    tensor = tensor.detach().contiguous()
    if tensor.numel() == 0:
        return b""
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())


class Oracle:
    """A problem with given constants, and its model."""

    def __init__(self, text: str, constants: Mapping[str, int]) -> None:
        self._problem = Problem(text, constants)

    def draw(self, seed: int, part: str) -> bytes:
        """Inputs, or arrays of the model (`state`), drawn by the problem's own functions with a
        seed."""
        return b"".join(map(bytes_of, self.arrays(seed, part)))

    def arrays(self, seed: int, part: str) -> list[Any]:
        """The tensors of `draw`."""
        if part == "state":
            return list(self._problem.model(seed)[1].state_dict().values())
        inputs, _ = self._problem.inputs(seed)
        return [value for value in inputs if isinstance(value, torch.Tensor)]

    def _filled(self, data: bytes, double: bool) -> tuple[Any, list[Any]]:
        """The model and its inputs with the values in `data`."""
        _, model = self._problem.model(0)
        inputs, _ = self._problem.inputs(0)
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

    def outputs(self, arrays: Sequence[Any]) -> list[Any]:
        """Outputs in float64 for given inputs, followed by the arrays of the model."""
        return self.run(b"".join(map(bytes_of, arrays)), True)

    def run(self, data: bytes, double: bool, mode: Any = None) -> list[Any]:
        """Outputs of one call in a mode."""
        model, given = self._filled(data, double)
        with torch.no_grad():
            if mode is None:
                return _outputs(model(*given))
            with mode:
                return _outputs(model(*given))

    def expected(self, data: bytes, draws: int, seed: int) -> bytes:
        """Each output in float64, and its deviation when every operation is rounded.

        The deviation is the root mean square over several calls. In each call, every result of an
        operation and every term of a sum is changed by a random share of one float32 rounding
        error. If the model compares numbers, there are also calls with the opposite changes, of
        which one gives the other result of a comparison of nearly equal numbers.
        """
        exact = self.run(data, True)
        squares = [torch.zeros_like(e, dtype=torch.float64) for e in exact]
        count = 0
        for number in range(draws):
            for sign in (1, -1):
                mode = _modes.Rounded(seed + number, sign)
                found, count = self.run(data, True, mode), count + 1
                for total, got, wanted in zip(squares, found, exact, strict=True):
                    total += (got - wanted) ** 2
                if not mode.compares:
                    break
        parts = []
        for wanted, total in zip(exact, squares, strict=True):
            wanted = wanted.double()
            parts += [wanted, torch.sqrt(total / count + (_UNIT * wanted) ** 2)]
        return b"".join(map(bytes_of, parts))

    def honest(self, data: bytes) -> bytes:
        """Outputs in float32 with the library's sums and with sequential sums, then in TF32 and in
        bfloat16."""
        modes = (None, _modes.Sequential(), _modes.Coarse(11), _modes.Coarse(8))
        return b"".join(bytes_of(o) for mode in modes for o in self.run(data, False, mode))


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
    """Answer requests until the other side closes the connection."""
    for kind in (torch.Tensor, torch.nn.Module):
        kind.cuda = lambda self, *_, **__: self
    # use_deterministic_algorithms does the same, but imports torch._inductor (4 s of CPU time).
    torch.set_deterministic_debug_mode("warn")
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
                most = request["most_operations"], request["most_compared"]
                reply["constants"], reply["reduced"] = _sizes.reduced(
                    reply["full"], partial(Oracle, text), partial(described, text),
                    constants_of(text), *most,
                )  # fmt: skip
            else:
                key = json.dumps(request["constants"])
                if key not in opened:
                    opened[key] = Oracle(text, request["constants"])
                oracle = opened[key]
                match request["do"]:
                    case "draw":
                        payload = oracle.draw(request["seed"], request["part"])
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
