"""The tools with their names and arguments, and the function that carries out a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.core.errors import InputError, ToolchainMissingError, UnknownNameError
from tilewright.core.records import Failed, Trial, content_id
from tilewright.core.text import plain_text
from tilewright.proposers.llm.feedback import first_error
from tilewright.tools import comparing, rewriting
from tilewright.tools.arguments import (
    EDITS,
    KERNEL,
    MOST_KERNELS,
    NOTE,
    OF_KERNEL,
    Parameter,
    read_arguments,
    schema_of,
)
from tilewright.tools.assembly import assembly
from tilewright.tools.bench import Bench
from tilewright.tools.kernel_lookup import known_trial, source_of
from tilewright.tools.records import (
    Answer,
    Assembly,
    Checked,
    Compared,
    Evaluated,
    Fact,
    Facts,
    Profiled,
    Refused,
    Rewrites,
    Rewritten,
    Shown,
    Submitted,
    Tried,
)

_SHOWN = 60
LONGEST_REASON = 300
"""Number of characters of a build's failure that are shown together with something else."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: its description, its arguments and its function. A tool with `evaluates` uses
    budget.
    """

    name: str
    text: str
    parameters: tuple[Parameter, ...]
    run: Callable[[Bench, Mapping[str, Any]], Answer]
    evaluates: bool = False

    @property
    def usage(self) -> str:
        """The name of the tool with the names of its arguments: `profile(kernel)`."""
        return f"{self.name}({', '.join(p.name for p in self.parameters)})"

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        properties = {p.name: schema_of(p) for p in self.parameters}
        required = [p.name for p in self.parameters if p.required]
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }


def call(bench: Bench, name: str, arguments: object) -> Answer:
    """The answer of a tool; `Refused` if its name or its arguments cannot be used."""
    try:
        tool = tool_named(name)
        return tool.run(bench, read_arguments(name, tool.parameters, arguments))
    except InputError as error:
        return Refused(plain_text(str(error)))
    except RecursionError:
        return Refused("the kernel is nested too deeply to be read: give a simpler kernel.")


def sources_to_evaluate(bench: Bench, name: str, arguments: object) -> list[str]:
    """The kernels that a call would evaluate; `InputError` if the call cannot be carried out."""
    tool = tool_named(name)
    given = read_arguments(name, tool.parameters, arguments)
    if not tool.evaluates:
        return []
    kernels = given.get("kernels", [given])
    return [source_of(bench, kernel) for kernel in kernels]


def tool_named(name: str) -> Tool:
    """The tool with this name; `UnknownNameError` if there is none."""
    if name not in TOOLS:
        raise UnknownNameError("tool", plain_text(name[:_SHOWN]), TOOLS)
    return TOOLS[name]


def _check(bench: Bench, given: Mapping[str, Any]) -> Checked:
    source = source_of(bench, given)
    return comparing.checked(content_id(source), bench.check(source))


def _evaluate(bench: Bench, given: Mapping[str, Any]) -> Evaluated:
    return _evaluated(bench, source_of(bench, given), given.get("note", ""), bench.best)


def _try(bench: Bench, given: Mapping[str, Any]) -> Compared:
    note, parent, best = given.get("note", ""), bench.parent, bench.best
    sources = [source_of(bench, kernel) for kernel in given["kernels"]]  # all, before one runs
    rows = tuple(_evaluated(bench, source, note, best) for source in sources)
    other = best.candidate.id if best is not None and best != parent else ""
    return Compared(parent.candidate.id, rows, other)


def _submit(bench: Bench, given: Mapping[str, Any]) -> Submitted:
    return Submitted(_evaluate(bench, given))


def _profile(bench: Bench, given: Mapping[str, Any]) -> Profiled:
    trial = known_trial(bench, given)
    found = comparing.profiled(trial, bench.target.exclusive_causes)
    if found is None:
        raise InputError(f"kernel {trial.candidate.id} was not measured: give a correct kernel.")
    return found


def _asm(bench: Bench, given: Mapping[str, Any]) -> Assembly:
    source = source_of(bench, given)
    try:
        code = bench.code(source)
    except ToolchainMissingError as error:
        raise InputError(str(error)) from error
    if code is None:
        raise InputError(
            f"kernels of {bench.target.name} have no machine code that could be shown: ask for the "
            "profile instead."
        )
    if isinstance(code, Failed):
        place = f" at line {code.line}" if code.line else ""
        why = plain_text(first_error(code).strip().partition("\n")[0][:LONGEST_REASON])
        raise InputError(f"the kernel does not build{place}: {why or code.kind}")
    return assembly(source, code, given.get("loop", ""))


def _facts(bench: Bench, given: Mapping[str, Any]) -> Facts:
    target = bench.target
    described = f"the description of {target.name}"
    numbers = {**target.limits, **target.constants}
    facts = [Fact(name, str(value), described) for name, value in numbers.items()]
    machine = (Fact(f.name, f.value, f.source, f.meaning) for f in target.facts)
    return Facts(target.name, (*facts, *bench.versions, *machine), target.costs, target.rules)


def _tried(bench: Bench, given: Mapping[str, Any]) -> Tried:
    trial = known_trial(bench, given)
    origin = trial.candidate.parent_id
    siblings = bench.children(origin) if origin is not None else ()
    return comparing.tried(trial, bench.children(trial.candidate.id), siblings)


def _show(bench: Bench, given: Mapping[str, Any]) -> Shown:
    source = source_of(bench, given)
    return Shown(content_id(source), source)


def _rewrites(bench: Bench, given: Mapping[str, Any]) -> Rewrites:
    return rewriting.rewrites(source_of(bench, given), bench.target, bench.workload)


def _rewrite(bench: Bench, given: Mapping[str, Any]) -> Rewritten:
    source = source_of(bench, given)
    made = rewriting.rewritten(source, bench.target, bench.workload, given["steps"])
    bench.drafts[made.candidate] = made.source
    return made


TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            "check",
            "Build a kernel and check it against the rules of the target. Its results are not "
            "compared. Costs nothing.",
            (KERNEL, EDITS),
            _check,
        ),
        Tool(
            "evaluate",
            "Build, check and time a kernel, and say how much time it saves by cause. Costs one "
            "evaluation, even if the kernel does not build.",
            (KERNEL, EDITS, NOTE),
            _evaluate,
            evaluates=True,
        ),
        Tool(
            "try",
            f"Evaluate up to {MOST_KERNELS} kernels and compare them in one table. Each kernel "
            "costs one evaluation.",
            (
                Parameter("kernels", "Objects with kernel and edits.", required=True, many=True),
                NOTE,
            ),
            _try,
            evaluates=True,
        ),
        Tool(
            "profile",
            "Show where an evaluated kernel spends its time: causes, counters and source lines.",
            (OF_KERNEL,),
            _profile,
        ),
        Tool(
            "asm",
            "Show the machine code of a kernel: instructions per iteration of its loops, spills, "
            "and a listing of one loop, of the code of some source lines, or of the whole code. "
            "Costs nothing.",
            (
                OF_KERNEL,
                EDITS,
                Parameter(
                    "loop",
                    "What to list: a loop by its number or 'line 12', 'lines 30-45' for the code "
                    "of these lines, or 'all'. Without this argument, nothing is listed.",
                ),
            ),
            _asm,
        ),
        Tool("facts", "Show what is known about the machine, with sources.", (), _facts),
        Tool(
            "tried",
            "Show the kernels that were made from a kernel and from its parent before, with "
            "their results.",
            (OF_KERNEL,),
            _tried,
        ),
        Tool("show", "Show the whole source of an earlier kernel.", (OF_KERNEL, EDITS), _show),
        Tool(
            "rewrites",
            "List the rewrites that the built-in rewriter can apply to a kernel, with its "
            "estimates.",
            (OF_KERNEL, EDITS),
            _rewrites,
        ),
        Tool(
            "rewrite",
            "Let the built-in rewriter apply rewrites. Returns the new kernel, which is not "
            "evaluated.",
            (
                OF_KERNEL,
                EDITS,
                Parameter("steps", "Rewrites of the list, separated by ';'.", required=True),
            ),
            _rewrite,
        ),
        Tool(
            "submit",
            "Submit a kernel as the result and end the work. If the kernel was not evaluated "
            "yet, it is evaluated now.",
            (KERNEL, EDITS, NOTE),
            _submit,
            evaluates=True,
        ),
    )
}


def _evaluated(bench: Bench, source: str, note: str, best: Trial | None) -> Evaluated:
    """The evaluation of a kernel, compared with the parent and with the earlier `best` kernel."""
    parent = bench.parent
    trial, known = bench.evaluate(source, parent.candidate.id, note)
    return comparing.evaluated(trial, parent, best, known=known, left=bench.left)
