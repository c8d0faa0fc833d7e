"""`TrainiumTarget`: opens workloads and folders as tasks for one NeuronCore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path

from tilewright.core.records import FolderTemplate, TargetBrief
from tilewright.native.settings import EvaluationSettings
from tilewright.parts.brief_files import load_examples, load_menu, load_template, render
from tilewright.parts.folder import read_folder
from tilewright.parts.languages import NKI
from tilewright.targets.trainium.evaluator import LATENCY, versions
from tilewright.targets.trainium.latency.costs import CAUSES
from tilewright.targets.trainium.machine import Machine, load_machine
from tilewright.targets.trainium.modelling import modelled_ns
from tilewright.targets.trainium.problems.create import create_problem
from tilewright.targets.trainium.shapes import KINDS, MOST_BYTES, REGISTERED, parse_shape
from tilewright.targets.trainium.task import TrainiumTask
from tilewright.targets.trainium.translation.plain import constants_of, in_nki_2

FOLDER = Path(__file__).parent

FAILURES = {
    "limit_exceeded": "more partitions, elements or bytes than the chip has",
    "uninitialised_read": "a tile was read before it was ever written",
}
"""Kinds of failure that the interpreter reports and few other targets have."""


class TrainiumTarget:
    """NKI kernels on one NeuronCore, which are interpreted and whose latency is modelled."""

    def __init__(self, name: str, machine: str) -> None:
        self.name = name
        self._machine_name = machine

    @cached_property
    def machine(self) -> Machine:
        """The core's parameters."""
        return load_machine(self._machine_name)

    def brief(self) -> TargetBrief:
        """The instructions, rules, menu and limits."""
        return self._brief

    @cached_property
    def _brief(self) -> TargetBrief:
        words = self._words
        return TargetBrief(
            name=self.name,
            isa=render(FOLDER / "isa.md", words),
            rules=render(FOLDER / "rules.md", words),
            menu=load_menu(FOLDER / "menu.toml", words),
            commands=(),
            limits=self._limits,
            constants={},
            language=replace(
                NKI, plain=partial(in_nki_2, self._machine_name), constants=constants_of
            ),
            latency=LATENCY,
            costs=render(FOLDER / "costs.md", words),
            failures=FAILURES,
            causes=CAUSES,
            examples=load_examples(FOLDER / "examples", words),
            model=partial(modelled_ns, self._machine_name),
            computations={name: kind.computation for name, kind in KINDS.items()},
        )

    @property
    def _limits(self) -> Mapping[str, int]:
        memory = self.machine.memory
        return {
            "partitions": memory.partitions,
            "sbuf_partition_bytes": memory.sbuf_partition_bytes,
            "psum_banks": memory.psum_banks,
            "psum_bank_bytes": memory.psum_bank_bytes,
        }

    @property
    def _words(self) -> Mapping[str, object]:
        """The words that the text files of this folder may use: every parameter of the core."""
        machine = self.machine
        clocks = {f"{name}_ghz": rate for name, rate in asdict(machine.clock).items()}
        return {
            **self._limits,
            **clocks,
            **asdict(machine.issue),
            **asdict(machine.pe),
            **asdict(machine.dma),
            "dma_engines": machine.dma.engines,
            "psum_port_shared": machine.psum_port_shared,
            "vector_port_shared": machine.vector_port_shared,
            "launch_us": machine.launch / 1e3,
            "machine": machine.name,
        }

    def template(self) -> FolderTemplate:
        """What `tilewright init` writes: a matrix product."""
        return load_template(FOLDER / "template.toml", self._words)

    def workloads(self) -> Mapping[str, str]:
        """Patterns and registered names."""
        patterns = {f"{name}-{kind.sizes}": kind.text for name, kind in KINDS.items()}
        return patterns | {
            name: f"{text}; {parse_shape(name).contract}" for name, text in REGISTERED.items()
        }

    def open(self, spec: str, settings: Mapping[str, object]) -> TrainiumTask:
        """The workload named by `spec`, with its naive starting kernel."""
        shape = parse_shape(spec)
        baselines = {
            name: (FOLDER / "library" / name / f"{shape.kind}.py").read_text(encoding="utf-8")
            for name in ("naive", "tuned")
        }
        return TrainiumTask(
            shape.workload(self.name),
            baselines["naive"],
            create_problem(shape),
            EvaluationSettings.from_mapping(settings),
            self.machine,
            shape.constants,
            baselines,
        )

    def open_folder(self, folder: Path, settings: Mapping[str, object]) -> TrainiumTask:
        """A user's kernel folder. Its reference runs only in the evaluating process."""
        workload, start, problem = read_folder(
            folder, self.name, NKI, MOST_BYTES, "what is kept for one kernel", traced=True
        )
        chosen = EvaluationSettings.from_mapping(settings)
        return TrainiumTask(workload, start, problem, chosen, self.machine, problem.constants, {})

    def versions(self) -> Mapping[str, str]:
        """Interpreter, latency model and its parameters."""
        return versions(self.machine)

    def doctor(self) -> Sequence[tuple[str, bool | None, str]]:
        """Reports on the interpreter and the model, which are part of the package, and on the AWS
        SDK, which is optional."""
        sdk = find_spec("nki") is not None or find_spec("neuronxcc") is not None
        found = versions(self.machine)
        return [
            ("interpreter", True, found["interpreter"]),
            ("latency model", True, f"{found['latency model']} for {found['machine']}"),
            (
                "AWS Neuron SDK",
                sdk or None,
                "installed" if sdk else "not installed; only needed to measure on a trn instance",
            ),
        ]
