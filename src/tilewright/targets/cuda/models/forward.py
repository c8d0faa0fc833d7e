"""Reads `__init__` and `forward` of an answer, and writes the calls in `forward` as C++.

def forward(self, x):                          at::Tensor v0 = tw_answer::scale(x, w, 3LL);
    return self.ext.scale(x, self.weight, 3)   leaves v0
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilewright.core.records import Argument
from tilewright.targets.cuda.models.answer import Answer, constant, name_of, shown
from tilewright.targets.cuda.models.answer_arguments import Form, UnsupportedArgument
from tilewright.targets.cuda.models.answer_values import (
    Loaded,
    Part,
    Sizes,
    Tensor,
    Unknown,
    Whole,
    code,
    size,
)
from tilewright.targets.cuda.models.module_attributes import attributes_of, is_container
from tilewright.targets.cuda.models.not_checked import NotReadError

NAMESPACE = "tw_answer"
_SAME = frozenset({"contiguous", "cuda", "detach"})
"""Methods that change nothing here, because every array is dense and on the device."""
_OF_ANOTHER = re.compile(r"[A-Za-z_][\w.]*\.(?:device|dtype)", re.ASCII)
"""Expressions for the device or the type of another tensor, which may be used as arguments."""
_MAKERS = frozenset({"empty", "zeros", "empty_like", "zeros_like"})


@dataclass
class Translation:
    """The body of a launcher: C++ statements, and the tensors that are returned."""

    answer: Answer
    form: Form
    tensors: Mapping[str, Tensor]
    statements: list[str] = field(default_factory=list)
    names: dict[str, object] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def translated(self) -> list[Tensor]:
        """The C++ code for `forward`. Raises `NotReadError`."""
        outer = {**self.answer.constants, **{n: Loaded(n) for n in self.answer.extensions}}
        self.names = dict(outer)
        if self.answer.initialise is not None:
            self._bind(self.answer.initialise, self.form.initial)
            for node in self.answer.initialise.body:
                self._initial(node)
        own = {n: v for n, v in self.names.items() if n.startswith("self.")}
        self.names = {**outer, **own}
        forward = self.answer.forward
        given = [self.tensors[v.name] if isinstance(v, Argument) else v for v in self.form.inputs]
        self._bind(forward, given)
        for node in forward.body:
            if isinstance(node, ast.Return):
                return self._returned(node)
            self._statement(node)
        raise NotReadError("forward returns nothing", forward.lineno)

    def _bind(self, function: ast.FunctionDef, values: Sequence[object]) -> None:
        """The value of each argument by name. Arguments that are not given have their default
        value."""
        found = function.args
        open_ended = function.name == "__init__"  # further arguments are not used
        if (
            found.kwonlyargs
            or found.posonlyargs
            or ((found.kwarg or found.vararg) and not open_ended)
        ):
            raise NotReadError(
                f"{function.name} has arguments other than plain ones", function.lineno
            )
        names = [argument.arg for argument in found.args[1:]]
        defaults = dict(zip(reversed(names), reversed(found.defaults), strict=False))
        for i, name in enumerate(names):
            if i < len(values):
                self.names[name] = values[i]
            elif name in defaults:
                self.names[name] = constant(defaults[name], self._constants)
            else:
                raise NotReadError(f"{function.name} has arguments that the reference model does "
                                   f"not ({name})", function.lineno)  # fmt: skip
        if len(values) > len(names) and not found.vararg:
            raise NotReadError(f"{function.name} takes {len(names)} arguments, and the reference "
                               f"model's {len(values)}", function.lineno)  # fmt: skip

    @property
    def _constants(self) -> dict[str, object]:
        plain = (bool, int, float, str, tuple, type(None))
        return {n: v for n, v in self.names.items() if isinstance(v, plain)}

    def _initial(self, node: ast.stmt) -> None:
        """Processes one statement of `__init__`: attributes that are constants, modules or
        parameters."""
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.Pass():
                return
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="__init__"))):
                return
            case ast.Expr(value=ast.Call(func=ast.Attribute(
                attr="register_buffer" | "register_parameter"),
                args=[ast.Constant(value=str(name)), *_])):  # fmt: skip
                self.names[f"self.{name}"] = Part(name)
                return
            case ast.Assign(targets=[target]) if name_of(target) is not None:
                found = name_of(target) or ""
                self.names[found] = self._attribute(found, node.value)
                return
        raise NotReadError("a statement of __init__ is not understood", node.lineno)

    def _attribute(self, name: str, node: ast.expr) -> object:
        if name in self.answer.extensions and isinstance(node, ast.Call):
            return Loaded(name)
        try:
            found = self.value(node)
            if isinstance(found, Tensor) and found.code.startswith("at::"):
                raise NotReadError(f"{name} keeps an array from call to call", node.lineno)
            return found
        except NotReadError as error:
            own = name.removeprefix("self.")
            held = any(n == own or n.startswith(f"{own}.") for n in self.form.state)
            inner = self.form.modules.get(own)
            if own != name and (held or inner is not None):
                if inner is None:
                    return Part(own)
                attributes = attributes_of(inner, node, self._constants)
                return Part(own, attributes, is_container(inner, node))
            if isinstance(node, ast.Call) and shown(node.func).endswith("Parameter"):
                known = ", ".join(self.form.state) or "it has none"
                reason = (f"{name} is not an array of the reference model ({known}); an answer "
                          "must give its arrays the same names")  # fmt: skip
                return Unknown(NotReadError(reason, node.lineno))
            return Unknown(error)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.Pass():
                return
            case ast.Expr(value=ast.Call()):
                self._kept(self.value(node.value))
                return
            case ast.Assign(targets=[ast.Tuple() as target]):
                self._unpacked(target, self.value(node.value))
                return
            case ast.Assign(targets=[ast.Name(id=name)]):
                self.names[name] = self._kept(self.value(node.value))
                return
        raise NotReadError("a statement of forward is not understood", node.lineno)

    def _kept(self, value: object) -> object:
        """A computed tensor is assigned to a variable, so that it is computed only once."""
        if not isinstance(value, Tensor) or value.code.isidentifier():
            return value
        name = f"tw_v{len(self.statements)}"
        self.statements.append(f"auto {name} = {value.code};")
        return replace(value, code=name)

    def _unpacked(self, target: ast.Tuple, value: object) -> None:
        names = [e.id for e in target.elts if isinstance(e, ast.Name)]
        if len(names) == len(target.elts) and isinstance(value, Tensor) and value.is_result:
            self.names.update(zip(names, self._parts(value, len(names)), strict=True))
            return
        if not isinstance(value, Sizes) or len(names) != len(target.elts):
            raise NotReadError(
                "only shapes and what a function of the extension returns can be unpacked",
                target.lineno,
            )
        for i, name in enumerate(names):
            self.names[name] = size(value.of, i, target)

    def _parts(self, value: Tensor, count: int) -> list[Tensor]:
        """The tensors that a function returns together."""
        kept = self._kept(value)
        assert isinstance(kept, Tensor)
        return [Tensor(f"tw_torch::part({kept.code}, {i}, {count})") for i in range(count)]

    def _returned(self, node: ast.Return) -> list[Tensor]:
        if node.value is None:
            raise NotReadError("forward returns nothing", node.lineno)
        parts = node.value.elts if isinstance(node.value, (ast.Tuple, ast.List)) else [node.value]
        values = [self.value(part) for part in parts]
        expected = len(self.form.outputs)
        if len(values) == 1 < expected and isinstance(values[0], Tensor) and values[0].is_result:
            values = list(self._parts(values[0], expected))
        found = [self._kept(value) for value in values]
        tensors = [value for value in found if isinstance(value, Tensor)]
        if len(tensors) != len(found):
            raise NotReadError("forward returns something other than a tensor", node.lineno)
        return tensors

    def value(self, node: ast.expr) -> object:
        """The meaning of an expression. Raises `NotReadError`."""
        name = name_of(node)
        if name is not None and name in self.names:
            found = self.names[name]
            if isinstance(found, Unknown):
                raise found.error
            if isinstance(found, UnsupportedArgument):
                raise NotReadError(f"{name} is {found.what}", node.lineno)
            return self._state(found)
        if name is not None and name.startswith("self."):
            raise NotReadError(
                f"{name} is neither an array of the reference model nor a number that __init__ "
                "sets",
                node.lineno,
            )
        match node:
            case ast.Attribute():
                return self._attribute_of(self.value(node.value), node)
            case ast.Subscript():
                found = self.value(node.value)
                index = self.value(node.slice)
                if isinstance(found, Sizes):
                    return size(found.of, index, node)
                if (
                    isinstance(found, tuple)
                    and type(index) is int
                    and -len(found) <= index < len(found)
                ):
                    return found[index]
                if isinstance(found, Part) and found.is_container and type(index) is int:
                    numbered = f"{found.name}.{index}"
                    if any(n.startswith(f"{numbered}.") for n in self.form.state):
                        return Part(numbered)
                if (
                    isinstance(found, Tensor)
                    and found.is_result
                    and type(index) is int
                    and index >= 0
                ):
                    return Tensor(f"tw_torch::part({found.code}, {index}, 0)")
            case ast.Call():
                return self._called(node)
        return constant(node, self._constants)

    def _state(self, value: object) -> object:
        """The tensor for an array of the model."""
        if isinstance(value, Part) and value.name in self.form.state:
            self.used.add(value.name)
            return self.tensors[self.form.state[value.name].name]
        return value

    def _attribute_of(self, of: object, node: ast.Attribute) -> object:
        match of:
            case Tensor() if node.attr == "shape":
                return Sizes(of)
            case Tensor() if node.attr in ("data", "device", "dtype"):
                return of if node.attr == "data" else None
            case Part():
                inner = f"{of.name}.{node.attr}"
                held = any(n == inner or n.startswith(f"{inner}.") for n in self.form.state)
                if held:
                    return self._state(Part(inner))
                if node.attr in of.attributes:
                    return of.attributes[node.attr]
                if node.attr == "bias":
                    return None  # an attribute of a module without such an array
        raise NotReadError(f"{shown(node)} is not understood", node.lineno)

    def _called(self, node: ast.Call) -> object:
        function = node.func
        if isinstance(function, ast.Attribute):
            owner = name_of(function.value)
            if owner == "torch" and function.attr in _MAKERS and "torch" not in self.names:
                return self._made(function.attr, node)
            of = self._owner(function.value)
            if isinstance(of, Loaded):
                return self._extension(of.name, function.attr, node)
            if isinstance(of, Tensor):
                return self._method(of, function.attr, node)
        raise NotReadError(f"a call of {shown(function)}, which no kernel of the answer "
                           "computes", node.lineno)  # fmt: skip

    def _owner(self, node: ast.expr) -> object:
        """The object whose method is called; None if it is not a value of the answer."""
        try:
            return self.value(node)
        except NotReadError:
            return None

    def _extension(self, name: str, function: str, node: ast.Call) -> Tensor:
        known = self.answer.extensions[name].functions
        if node.keywords or (known and function not in known):
            raise NotReadError(f"this call of {function} is not understood", node.lineno)
        given = ", ".join(code(self.value(argument), argument) for argument in node.args)
        return Tensor(f"{NAMESPACE}::{function}({given})", is_result=True)

    def _method(self, of: Tensor, method: str, node: ast.Call) -> object:
        if node.keywords:
            raise NotReadError(f"keywords of {method} are not understood", node.lineno)
        given = [self.value(argument) for argument in node.args]
        if method in _SAME and not given:
            return replace(of, is_result=False)
        if method == "float" and not given and of.dtype == "float32":
            return of
        if method == "size":
            return size(of, given[0], node) if given else Sizes(of)
        if method in ("dim", "numel") and not given:
            return Whole(f"{of.code}.{method}()")
        if method in ("view", "reshape"):
            words = given[0] if len(given) == 1 and isinstance(given[0], tuple) else given
            assert isinstance(words, Sequence)
            inner = ", ".join(code(word, node) for word in words)
            return Tensor(f"{of.code}.view({{{inner}}})")
        raise NotReadError(f"{method} is called, which no kernel of the answer computes",
                           node.lineno)  # fmt: skip

    def _made(self, maker: str, node: ast.Call) -> Tensor:
        """`torch.empty` and similar functions. Keywords may only state what is true anyway."""
        given = [self.value(argument) for argument in node.args]
        for word in node.keywords:
            said = ast.unparse(word.value)
            if word.arg not in ("device", "dtype") or (
                word.arg == "dtype" and said != "torch.float32" and not _OF_ANOTHER.fullmatch(said)
            ):
                raise NotReadError(f"{word.arg} of torch.{maker} is not understood", node.lineno)
        devices = [ast.unparse(word.value) for word in node.keywords if word.arg == "device"]
        on_device = all(_OF_ANOTHER.fullmatch(d) or d in ("'cuda'", "'cuda:0'") for d in devices)
        if not on_device or not (devices or maker.endswith("_like")):
            raise NotReadError(f"torch.{maker} makes an array outside the GPU", node.lineno)
        if maker.endswith("_like"):
            if len(given) == 1 and isinstance(given[0], Tensor):
                return Tensor(f"at::{maker}({given[0].code})", given[0].shape)
        else:
            words = given[0] if len(given) == 1 and isinstance(given[0], tuple) else given
            if isinstance(words, Sequence) and words:
                inner = ", ".join(code(word, node) for word in words)
                return Tensor(f"at::{maker}({{{inner}}})")
        raise NotReadError(f"torch.{maker} with these arguments is not understood", node.lineno)
