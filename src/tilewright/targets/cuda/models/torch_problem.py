"""The oracle of a problem in KernelBench's form: its `Model` in float64, and the errors of honest
kernels."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from tilewright.core.errors import WorkloadError
from tilewright.core.records import Argument, content_id
from tilewright.parts import inputs
from tilewright.parts.error_tracking import TrackedArray
from tilewright.parts.float_error import HonestError, errors_of
from tilewright.parts.inputs import Array, bytes_of
from tilewright.targets.cuda.models.oracle import process_of

AS_GIVEN = "as given"
"""The name of the distribution that the problem's own `get_inputs` draws, with another seed."""
HONEST, COARSER = ("library", "sequential"), ("tf32-like", "bf16-like")
"""The modes in which the oracle's process computes, in the order of its answer."""
_DRAWS = 6
"""Number of calls from which the deviation of an output is estimated."""
_SPARE_BYTES = 1 << 20
"""Number of bytes by which an answer may be too long, so that a message can report its length."""
_KEPT = 256 << 20
"""Maximum number of bytes of inputs whose correct outputs are kept."""
_OTHERS = (
    "small",
    "shifted mean",
    "shifted below",
    "sparse",
    "extremes",
    "mixed scales",
    "outliers",
)
"""Distributions of inputs that may have any values, in addition to the problem's own."""


@dataclass(frozen=True)
class Given:
    """The arrays with which a model is called: its inputs, which of them are free, and its own
    arrays."""

    inputs: tuple[Argument, ...]
    free: frozenset[str]
    state: tuple[Argument, ...]
    outputs: tuple[Argument, ...]


@dataclass
class TorchProblem:
    """A problem's file with given constants. Its process is started when it is first needed."""

    to_choose: ClassVar[str] = "let get_inputs return"

    path: Path
    text: str
    constants: Mapping[str, int]
    given: Given
    reduction: int = 256
    """Inputs are scaled for sums of this many terms, because those of the model are not known."""
    fingerprint: str = ""
    """A digest of the user's code and of the constants that were changed."""
    _drawn: dict[bool, tuple[int, Mapping[str, Array]]] = field(default_factory=dict)
    _known: dict[str, Mapping[str, TrackedArray]] = field(default_factory=dict)
    _seed: int = 0
    _rng: np.random.Generator | None = None
    _of_case: set[str] = field(default_factory=set)
    """The arguments that have values in the current case."""

    def __post_init__(self) -> None:
        changed = repr(sorted(self.constants.items()))
        self.fingerprint = content_id("model in torch 1", self.text, changed)

    @property
    def distributions(self) -> tuple[str, ...]:
        """The distributions of inputs. The one with a mean of zero is first, if an input may have
        it."""
        first, *rest = _OTHERS
        return (first, AS_GIVEN, *rest) if self.given.free else (AS_GIVEN,) * 4

    @property
    def independent(self) -> frozenset[str]:
        """The inputs that `torch.rand` or `torch.randn` returned, which may have any values."""
        return self.given.free

    def _asked(
        self, what: str, arguments: Sequence[Argument], data: bytes = b"", **more: object
    ) -> dict[str, Array]:
        """The arrays that the process returns."""
        process = process_of(self.path, self.text)
        most = bytes_of(arguments) + _SPARE_BYTES
        found = process.ask(what, data, most, constants=dict(self.constants), **more)[1]
        return self._arrays(arguments, found)

    def draw(self, argument: Argument, distribution: str, rng: np.random.Generator) -> Array:
        """Values of one argument: drawn by the problem itself, or any values if the argument is
        free."""
        if rng is not self._rng or argument.name in self._of_case:
            self._rng, self._seed = rng, int(rng.integers(1 << 31))
            self._of_case.clear()  # the arrays of one case must be consistent
        self._of_case.add(argument.name)
        if argument.name in self.given.free and distribution != AS_GIVEN:
            leading = argument.name == min(self.given.free)
            return inputs.draw(argument, distribution, self.reduction, rng, leading=leading)
        held = argument in self.given.state
        values = self._own(self._seed, held)[argument.name]
        return _varied(values, rng) if held and values.dtype.kind == "f" else values

    def _own(self, seed: int, held: bool) -> Mapping[str, Array]:
        """Values that the problem draws with a seed: arrays of the model, or inputs."""
        if self._drawn.get(held, (-1,))[0] != seed:
            part, arrays = ("state", self.given.state) if held else ("inputs", self.given.inputs)
            self._drawn[held] = seed, self._asked("draw", arrays, seed=seed, part=part)
        return self._drawn[held][1]

    def reference(self, given: Mapping[str, Array]) -> Mapping[str, TrackedArray]:
        """Outputs in float64 with their deviations."""
        data = self._data(given)
        key = hashlib.sha256(data).hexdigest()
        if key not in self._known:
            if len(self._known) * len(data) > _KEPT:
                self._known.clear()
            self._known[key] = self._expected(data)
        return self._known[key]

    def _expected(self, data: bytes) -> Mapping[str, TrackedArray]:
        doubles = [
            Argument(f"{i} {o.name}", o.shape, "float64", "output")
            for o in self.given.outputs
            for i in ("exact", "deviation")
        ]
        arrays = self._asked("expected", doubles, data, draws=_DRAWS, seed=1)
        return {
            o.name: TrackedArray(arrays[f"exact {o.name}"], arrays[f"deviation {o.name}"], [], ())
            for o in self.given.outputs
        }

    def honest(self, given: Mapping[str, Array]) -> Mapping[str, HonestError]:
        """The errors of float32 with the library's sums and with sequential ones, and of lower
        precision classes."""
        ways = (*HONEST, *COARSER)
        results = [
            Argument(f"{way} {o.name}", o.shape, o.dtype, "output")
            for way in ways
            for o in self.given.outputs
        ]
        arrays = self._asked("honest", results, self._data(given))
        expected = self.reference(given)
        return {
            name: errors_of(
                name,
                [TrackedArray(e.exact, e.deviation, [arrays[f"{w} {name}"] for w in ways], ())],
                HONEST,
                COARSER,
            )
            for name, e in expected.items()
        }

    def _data(self, given: Mapping[str, Array]) -> bytes:
        return b"".join(given[a.name].tobytes() for a in (*self.given.inputs, *self.given.state))

    def _arrays(self, arguments: Sequence[Argument], data: bytes) -> dict[str, Array]:
        if len(data) != bytes_of(arguments):
            raise WorkloadError(
                f"{self.path}: its Model answered {len(data)} bytes, expected "
                f"{bytes_of(arguments)}; shapes and types must be the same with every call."
            )
        found, at = dict[str, Array](), 0
        for argument in arguments:
            size = bytes_of([argument])
            part = np.frombuffer(data[at : at + size], argument.dtype)
            found[argument.name] = part.reshape(argument.shape).copy()
            at += size
        return found


def _varied(values: Array, rng: np.random.Generator) -> Array:
    """Arrays of a model that are filled with one value (0, 1) get other values. Otherwise, a kernel
    could ignore them."""
    if values.size == 0 or not np.all(values == values.flat[0]):
        return values
    if values.flat[0] == 0:
        return (0.1 * rng.standard_normal(values.shape)).astype(values.dtype)
    return (values * rng.uniform(0.5, 2.0, values.shape)).astype(values.dtype)
