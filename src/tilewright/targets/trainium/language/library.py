"""The modules and names of both versions of NKI, as kernels see them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.nki_isa import isa_module
from tilewright.targets.trainium.language.nki_language import language_module
from tilewright.targets.trainium.language.numeric_modules import math_module, numpy_module
from tilewright.targets.trainium.language.python import (
    builtins,
    whole,
)
from tilewright.targets.trainium.language.standard import standard_modules
from tilewright.targets.trainium.language.values import Builtin, Decorator, Namespace
from tilewright.targets.trainium.operations import (
    creation,
)
from tilewright.targets.trainium.operations.creation import MemoryName


@cache
def module(path: str, language: int) -> Namespace:
    """A module by its path; `KeyError` if kernels have no such module."""
    found = _modules(language)
    return found[path]


@cache
def _modules(language: int) -> dict[str, Namespace]:
    nl, nisa = language_module(language), isa_module(language)
    typing = Namespace("nki.typing", {"tensor": Namespace("nki.typing.tensor", {})})
    members: dict[str, object] = {
        name: Decorator(f"nki.{name}")
        for name in ("jit", "baremetal", "benchmark", "profile", "trace", "simulate_kernel")
    }
    members |= {"language": nl, "isa": nisa, "typing": typing, "tensor": typing}
    nki = Namespace("nki", members)
    members["compiler"] = allocation = _compiler()
    found = {
        "neuronxcc": Namespace("neuronxcc", {"nki": nki}),
        "torch_neuronx": Namespace("torch_neuronx", {"nki_jit": members["jit"]}),
        "numpy": numpy_module(),
        "math": math_module(),
        **standard_modules(),
    }
    for prefix in ("nki", "neuronxcc.nki"):
        found |= {
            prefix: nki,
            f"{prefix}.language": nl,
            f"{prefix}.isa": nisa,
            f"{prefix}.isa.constants": nisa,
            f"{prefix}.typing": typing,
            f"{prefix}.compiler": allocation,
        }
    return found


def _compiler() -> Namespace:
    """`nki.compiler`: how NKI 1 kernels place their tiles by hand. It does not affect values."""
    members: dict[str, object] = {
        name: Decorator(f"nki.compiler.{name}")
        for name in (
            "skip_middle_end_transformations", "enable_stack_allocator", "force_auto_alloc",
        )
    }  # fmt: skip
    for name in ("sbuf", "psum"):
        places = {
            how: Builtin(f"nki.compiler.{name}.{how}", _placed(name))
            for how in ("alloc", "mod_alloc", "auto_alloc")
        }
        members[name] = Namespace(f"nki.compiler.{name}", places)
    return Namespace("nki.compiler", members)


def _placed(memory: str) -> Callable[..., MemoryName]:
    def place(run: Execution, *args: Any, **options: Any) -> MemoryName:
        return MemoryName(f"nl.{memory}", memory)  # type: ignore[arg-type]

    return place


@cache
def presets(language: int) -> dict[str, object]:
    """The names that a kernel has without imports."""
    found = _modules(language)
    nl = found["nki.language"]
    return {
        **builtins(),
        "nki": found["nki"], "nl": nl, "nisa": found["nki.isa"], "nt": found["nki.typing"],
        "np": found["numpy"], "math": found["math"], "par_dim": nl.members["par_dim"],
        **{name: Builtin(name, function) for name, function in HELPERS.items()},
    }  # fmt: skip


def _div_ceil(run: Execution, n: Any, d: Any) -> int:
    if whole(d, "div_ceil") == 0:
        raise KernelError("arithmetic", "div_ceil by zero")
    return -(-whole(n, "div_ceil") // whole(d, "div_ceil"))


def _n_elts(run: Execution, shape: Any) -> int:
    return math.prod(creation.sizes_of(run, shape))


def _normalize_dim(run: Execution, i: Any, rank: Any) -> int:
    return whole(i, "normalize_dim") % max(1, whole(rank, "normalize_dim"))


HELPERS: Mapping[str, Callable[..., Any]] = {
    "div_ceil": _div_ceil, "n_elts": _n_elts, "normalize_dim": _normalize_dim
}  # fmt: skip
"""Names that public harnesses provide in addition to the kernel."""
