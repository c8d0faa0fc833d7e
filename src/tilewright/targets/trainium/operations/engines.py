"""The engine that executes an operation, if the kernel names one."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.tiles.view import View
from tilewright.targets.trainium.trace import Engine

_NAMES: dict[Engine, str] = {
    "pe": "tensor engine (PE)", "dve": "vector engine (DVE)", "act": "scalar engine (ACT)",
    "pool": "gpsimd engine (Pool)", "dma": "DMA", "any": "any engine",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class EngineName:
    """A value of `nisa.engine`."""

    engine: Engine


def chosen(
    run: Execution, named: object, default: Engine, allowed: tuple[Engine, ...], *views: View
) -> Engine:
    """The engine that the kernel names, or the default. Pool cannot access PSUM."""
    engine = default
    if isinstance(named, EngineName):
        engine = default if named.engine == "any" else named.engine
    elif named is not None:
        raise KernelError("unsupported_engine", f"{run.function}: engine must be a nisa engine")
    if engine != default and engine not in allowed:
        raise KernelError(
            "unsupported_engine",
            f"{run.function} does not run on the {_NAMES[engine]}: "
            f"{' or '.join(_NAMES[e] for e in allowed)} can",
        )
    if engine == "pool" and any(view.memory == "psum" for view in views):
        raise KernelError(
            "unsupported_memory", f"{run.function}: the {_NAMES['pool']} cannot use PSUM"
        )
    return engine
