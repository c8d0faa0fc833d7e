"""The attributes of a module that an answer constructs, such as `self.norm.eps`.

self.norm = nn.GroupNorm(groups, channels)    num_groups: groups, num_channels: channels,
                                              eps: 1e-05, affine: True
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tilewright.targets.cuda.models.answer import constant, shown
from tilewright.targets.cuda.models.answer_arguments import InnerModule, UnsupportedArgument
from tilewright.targets.cuda.models.not_checked import NotReadError


def attributes_of(
    inner: InnerModule, node: ast.expr, known: Mapping[str, object]
) -> Mapping[str, object]:
    """The attributes that have the names of the constructor's parameters, with their values.

    `inner` is the module of that name in the reference model. If the answer constructs a module of
    another class, nothing is known. An attribute is left out if its type is not that of the
    reference model's module, because PyTorch then computes it in another way.
    """
    if not isinstance(node, ast.Call) or not _constructs(node, inner.kind):
        return {}
    given = dict(zip(inner.parameters, node.args, strict=False))
    given.update({word.arg: word.value for word in node.keywords if word.arg is not None})
    if len(node.args) > len(inner.parameters) or any(word.arg is None for word in node.keywords):
        return {}
    found = dict[str, object]()
    for name, default in inner.parameters.items():
        try:
            value = constant(given[name], known) if name in given else default
        except NotReadError:
            continue
        expected = inner.attributes.get(name)
        if isinstance(expected, tuple) and type(value) is int:
            value = (value,) * len(expected)
        unknown = isinstance(value, UnsupportedArgument) or value is None
        if not unknown and type(value) is type(expected) and _length(value) == _length(expected):
            found[name] = value
    return found


def is_container(inner: InnerModule, node: ast.expr) -> bool:
    """Whether an answer constructs the same container as the reference model."""
    return inner.kind in ("Sequential", "ModuleList") and _constructs(node, inner.kind)


def _constructs(node: ast.expr, kind: str) -> bool:
    names = (f"nn.{kind}", f"torch.nn.{kind}")
    return isinstance(node, ast.Call) and bool(kind) and shown(node.func) in names


def _length(value: object) -> int:
    return len(value) if isinstance(value, tuple) else 0
