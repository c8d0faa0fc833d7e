"""The arguments with which an answer is called: arrays and constants, by their names in the
reference model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.core.records import Argument, Workload


@dataclass(frozen=True)
class UnsupportedArgument:
    """An argument that is neither an array nor a number. An answer is refused only if it uses the
    argument."""

    what: str


@dataclass(frozen=True)
class InnerModule:
    """A module inside the reference model: the name of its class in `torch.nn` (empty if it has
    none), the parameters of its constructor with their default values, and its plain attributes."""

    kind: str
    parameters: Mapping[str, object]
    attributes: Mapping[str, object]


@dataclass(frozen=True)
class Form:
    """How `ModelNew` is constructed and called.

    `inputs` are the arguments of `forward` in order, each an array or a constant. `outputs` are the
    arrays that it returns. `initial` are the arguments of `__init__`. `state` are arrays of the
    reference model by their names there (`conv.weight`), and `modules` are the modules that contain
    them (`conv`).
    """

    inputs: tuple[object, ...]
    outputs: tuple[Argument, ...]
    initial: tuple[object, ...] = ()
    state: Mapping[str, Argument] = field(default_factory=dict)
    modules: Mapping[str, InnerModule] = field(default_factory=dict)

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """All arrays in the order of the launcher's parameters: inputs, arrays of the model,
        outputs."""
        given = [found for found in self.inputs if isinstance(found, Argument)]
        return (*given, *self.state.values(), *self.outputs)


def form_of(workload: Workload) -> Form:
    """The form of answers for a workload whose model has no arrays of its own, such as weights."""
    given = tuple(a for a in workload.arguments if a.role == "input")
    return Form(given, tuple(a for a in workload.arguments if a.is_written))
