"""Options of commands that may ask language models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Proposers = Annotated[
    list[str] | None,
    typer.Option(
        "--proposer",
        metavar="NAME",
        help="The proposer, which writes the kernels. 'builtin' is the rewriter that comes "
        "with tilewright. A language model is openai/MODEL, anthropic/MODEL, google/MODEL, "
        "bedrock/MODEL, openai/MODEL@URL, command:PROGRAM or mailbox:FOLDER. A coding agent is "
        "agent:PROGRAM (docs/agents.md). If the option is repeated, the proposers share the work.",
    ),
]
Without = Annotated[
    list[str] | None,
    typer.Option(
        "--without",
        metavar="PART",
        help="Leave out one part of the prompts or of the search, to measure what the part "
        "contributes: isa, costs, menu, filter, dropout, feedback, examples, history, failed, "
        "done, plan, ensemble, tools, structure or factors (docs/llm.md). The option may be "
        "repeated.",
    ),
]
Edits = Annotated[
    bool,
    typer.Option(
        "--edits", help="Let models answer with changes to the kernel instead of the whole kernel."
    ),
]
Templates = Annotated[
    bool,
    typer.Option(
        "--templates",
        help="Let models leave numbers open in a kernel, such as block sizes. The search then "
        "tries values for these numbers (docs/templates.md).",
    ),
]
Repairs = Annotated[
    int,
    typer.Option(
        "--repairs",
        metavar="R",
        help="Number of times that a model may correct each failed kernel.",
    ),
]
Turns = Annotated[
    int,
    typer.Option(
        "--turns",
        metavar="N",
        help="Let a model work on each proposal in up to N turns, in which it can call tools that "
        "build, evaluate and profile kernels (docs/agents.md).",
    ),
]
Share = Annotated[
    int | None,
    typer.Option(
        "--share",
        metavar="N",
        min=1,
        help="Number of evaluations that a model may use for one proposal with --turns, or that "
        "one agent may use. The default is a quarter of the budget's evaluations. If the run has "
        "fewer than four proposals, they share the evaluations equally.",
    ),
]
AllowUnpriced = Annotated[
    bool,
    typer.Option(
        "--allow-unpriced",
        help="Accept models whose price is unknown even if the budget limits dollars.",
    ),
]
Allocation = Annotated[
    str,
    typer.Option(
        "--allocation",
        metavar="even|adaptive",
        help="How several models share the work. With 'even', each model gets the same share. "
        "With 'adaptive', a model with a larger measured gain per dollar gets a larger share.",
    ),
]
Record = Annotated[
    Path | None,
    typer.Option(
        "--record",
        metavar="FILE",
        help="Write every prompt and every reply of the models to this file.",
    ),
]
Replay = Annotated[
    Path | None,
    typer.Option(
        "--replay",
        metavar="FILE",
        help="Take the models' replies from a file that --record wrote, and call no model.",
    ),
]
