"""What a target declares about itself: its menu, commands, kernel language, facts and latencies."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Literal

from tilewright.core.records.failures import GENERAL_FAILURES
from tilewright.core.records.workloads import Workload
from tilewright.core.templates import TemplateNotation

Quantity = Literal["simulated", "measured", "modelled"]
"""How a latency was obtained."""


@dataclass(frozen=True, slots=True)
class MenuOption:
    """One optimisation of a target's menu.

    `id` is stable and appears in plans. `text` is the description that a proposer reads.
    `technique` names the transformation of the built-in rewriter, and is empty if only a language
    model can carry out the optimisation. `kinds` lists the workloads to which the option applies,
    by the first word of their names; empty for all workloads. The option can help only a kernel
    that has one of the facts in `needs` (see `proposers.rewriter.facts`) and that loses at least
    the share `worth` of its time to the causes in `saves`. The target counts what a kernel does
    (`Measured.details`): the option can help only a kernel for which one of the counts in
    `requires` is not 0, and none of those in `unless`, which show that this was done already. If
    these fields are empty, any kernel will do.
    `allowed_by` lists conditions, one of which the task must meet: `precision=tf32` is met if the
    target's setting `precision` is `tf32`, and `input=float16` if the kernel reads such an array.
    The option can help only a workload with at least `least_reuse` multiply-adds for each element
    of its arrays: where there are fewer, each element is used too few times.
    """

    id: str
    text: str
    technique: str = ""
    kinds: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    saves: tuple[str, ...] = ()
    worth: float = 0.005
    requires: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    allowed_by: tuple[str, ...] = ()
    least_reuse: float = 0.0


@dataclass(frozen=True, slots=True)
class CommandEffect:
    """What one accelerator command reads, writes or configures, as the target declares it.

    `operands` contains a role for each parameter of the macro, in order; docs/targets.md lists the
    roles. The rewriter and the hazard checks know nothing else about commands.
    """

    name: str
    operands: tuple[str, ...]
    unit: str
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Example:
    """A worked example for language models, shown with plans on one of its menu options."""

    name: str
    options: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class KernelLanguage:
    """The language in which the kernels of a target are written.

    - `file`: the name of a kernel's file in folders and in messages
    - `entry`: the function that a kernel defines
    - `marks`: regular expressions that find a kernel's function if it may have another name than
      `entry`. Each counts only for texts of which none is found by the expressions before it.
    - `fence`: the tag of a fenced block in prompts
    - `comment`: the characters that begin a comment up to the end of the line
    - `lexer`: the name of the Pygments lexer that colours kernels
    - `keywords`: names that no argument may have
    - `normal_form`: a function that returns equal texts for two sources only if both have the same
      tokens. It must be a function of a module, because it is sent to other processes.
    - `templates`: how templates declare parameters; None if the language has no templates
    - `plain`: a function that returns a workload's kernel in the newest version of the language,
      or raises `InputError` if this is not possible; None if kernels are read as they are
    - `constants`: a function that returns the arguments of a workload's kernels that are not
      arrays, by name; None if there are none
    """

    name: str
    file: str
    fence: str
    comment: str
    lexer: str
    normal_form: Callable[[str], str]
    keywords: frozenset[str] = frozenset()
    entry: str = "kernel"
    marks: tuple[str, ...] = ()
    templates: TemplateNotation | None = None
    plain: Callable[[str, Workload], str] | None = None
    constants: Callable[[Workload], Mapping[str, object]] | None = None

    @property
    def suffix(self) -> str:
        """The suffix of kernel files, including the dot."""
        return Path(self.file).suffix

    @property
    def kernel_in_words(self) -> str:
        """What a kernel's source defines, for messages: "the function `kernel`"."""
        return "a kernel" if self.marks else f"the function `{self.entry}`"

    def kernels(self, texts: Sequence[str]) -> list[str]:
        """Those of the texts that define a kernel's function outside comments, or, if none does,
        those that contain it. A text that only calls the function is an example of its use."""
        comments = re.compile(rf"{re.escape(self.comment)}.*")
        codes = [(text, comments.sub("", text)) for text in texts]
        entry = re.escape(self.entry)
        defined, used = rf"\b(?:void|def|class)\s++{entry}\b", rf"\b{entry}\s*+\("
        for mark in self.marks or (defined, used):
            found = [text for text, code in codes if re.search(mark, code, re.MULTILINE)]
            if found:
                return found
        return []

    def located(self, message: str, line: int | None) -> str:
        """The message, preceded by the file and by the line of the kernel if it is known."""
        return f"{self.file}:{line}: {message}" if line else message


@dataclass(frozen=True, slots=True)
class FolderTemplate:
    """The content of a new kernel folder of a target (`tilewright init`).

    `workload` is the name, without the target, of the workload from which the folder takes arrays,
    operations and starting kernel. `reference` is the text of `reference.py`, and `reduction` the
    number of products that each output sums. `skeleton` is a Jinja template of a kernel without a
    body, for the user's own arrays. It can use `parameters`, the C declarations of the arguments,
    and `inputs` and `outputs`. `tolerance` contains the absolute and the relative tolerance, and is
    empty if the target's own rule applies. `inputs` is TOML text that describes the values of each
    input, and is empty for the usual values.
    """

    workload: str
    reduction: int
    reference: str
    skeleton: str
    tolerance: tuple[float, ...] = ()
    inputs: str = ""


@dataclass(frozen=True, slots=True)
class MachineFact:
    """One number or word about a machine, where it comes from, and what it means.

    Facts that are `first` are shown at the beginning of the work on a kernel, others on request.
    """

    name: str
    value: str
    source: str
    meaning: str = ""
    first: bool = False


@dataclass(frozen=True, slots=True)
class Cause:
    """An entry of a breakdown, and what it counts.

    Each cycle is counted for exactly one of a target's `exclusive` causes; other causes overlap.
    """

    name: str
    meaning: str
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class LatencyKind:
    """How all latencies of a target are obtained, and their unit, such as "cycles" or "ns".

    >>> str(LatencyKind("simulated", "cycles"))
    'simulated cycles'
    """

    quantity: Quantity
    unit: str

    def __str__(self) -> str:
        return f"{self.quantity} {self.unit}"


@dataclass(frozen=True, slots=True)
class TargetBrief:
    """Everything that a proposer may know about a target. It has no access to the evaluator.

    `latency` is the kind of its latencies; an outcome with a latency of another kind is refused.
    `costs` states the costs of operations, and `plan_hints` says how detailed a plan must be. Only
    language models read these two. `settings` lists the target's own settings by name, each with
    its values, the default first. `failures` explains the kinds of failure that only this target
    has. `causes` explains the entries that a breakdown may have. `facts` are shown only on request.
    `model` returns the modelled latency of a workload's kernel in ns, or None if the kernel breaks
    a rule. Only targets that model latencies without running kernels have it. It must be a function
    of a module, because it is sent to other processes. `computations` states what registered
    workloads of each kind compute, and how exactly.
    """

    name: str
    isa: str
    rules: str
    menu: tuple[MenuOption, ...]
    commands: tuple[CommandEffect, ...]
    limits: Mapping[str, int]
    constants: Mapping[str, int]
    language: KernelLanguage
    latency: LatencyKind
    examples: tuple[Example, ...] = ()
    costs: str = ""
    plan_hints: str = ""
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    causes: tuple[Cause, ...] = ()
    facts: tuple[MachineFact, ...] = ()
    model: Callable[[str, Workload], float | None] | None = None
    computations: Mapping[str, str] = field(default_factory=dict)

    def computation(self, workload: Workload) -> str:
        """What a registered workload computes; empty if this is not known, as for a folder."""
        return self.computations.get(workload.source.partition("-")[0], "")

    @property
    def failure_kinds(self) -> frozenset[str]:
        """Every kind of failure that a kernel of the target may have."""
        return GENERAL_FAILURES.union(self.failures)

    @property
    def exclusive_causes(self) -> tuple[str, ...]:
        """The causes that do not overlap: every cycle has exactly one of them. May be empty."""
        return tuple(cause.name for cause in self.causes if cause.exclusive)

    def menu_for(
        self, workload: Workload, settings: Mapping[str, object] | None = None
    ) -> tuple[MenuOption, ...]:
        """The options that apply to the kind of a workload, or to any kind for a kernel folder, and
        that the workload or the target's own `settings` allow.

        The kind is the first word of a registered name: `gemm` of `gemm-512x512x512`.
        """
        met = {f"input={a.dtype}" for a in workload.arguments if a.is_given}
        met |= {f"{name}={value}" for name, value in (settings or {}).items()}
        elements = sum(prod(a.shape) for a in workload.arguments)
        allowed = (
            o
            for o in self.menu
            if (not o.allowed_by or not met.isdisjoint(o.allowed_by))
            and (not workload.operations or workload.operations >= o.least_reuse * elements)
        )
        if Path(workload.source).is_absolute():
            return tuple(allowed)
        kind = workload.source.partition("-")[0]
        return tuple(o for o in allowed if not o.kinds or kind in o.kinds)
