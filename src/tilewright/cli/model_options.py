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
        help="Who writes kernels: 'builtin', or a model such as openai/MODEL, anthropic/MODEL, "
        "google/MODEL, bedrock/MODEL, openai/MODEL@URL, command:PROGRAM or mailbox:FOLDER; "
        "or an agent that works by itself, agent:PROGRAM (docs/agents.md). "
        "Give it several times to share the work.",
    ),
]
Without = Annotated[
    list[str] | None,
    typer.Option(
        "--without",
        metavar="PART",
        help="Omit a part of the prompts or of the search, to measure what it contributes: isa, "
        "costs, menu, filter, dropout, feedback, examples, history, failed, done, plan, "
        "ensemble, tools (one turn whatever --turns says) or structure (only the values of "
        "templates are searched). May be repeated.",
    ),
]
Edits = Annotated[
    bool, typer.Option("--edits", help="Let models answer with edits instead of whole kernels.")
]
Templates = Annotated[
    bool,
    typer.Option(
        "--templates",
        help="Let models leave numbers open (block sizes, buffers that take turns), whose values "
        "are then searched (docs/templates.md).",
    ),
]
Repairs = Annotated[
    int,
    typer.Option(
        "--repairs", metavar="R", help="How many times a model may correct a kernel that failed."
    ),
]
Turns = Annotated[
    int,
    typer.Option(
        "--turns",
        metavar="N",
        help="Let a model work on a proposal in up to N turns, with tools that build, evaluate and "
        "profile kernels (docs/agents.md).",
    ),
]
Share = Annotated[
    int | None,
    typer.Option(
        "--share",
        metavar="N",
        min=1,
        help="Evaluations that one proposal in turns, or one agent, may spend; by default a "
        "quarter of the budget's.",
    ),
]
AllowUnpriced = Annotated[
    bool,
    typer.Option("--allow-unpriced", help="Accept models of unknown price under a budget in USD."),
]
Allocation = Annotated[
    str,
    typer.Option(
        "--allocation",
        metavar="even|adaptive",
        help="How several models share the work: equally, or by measured gain per dollar.",
    ),
]
Record = Annotated[
    Path | None,
    typer.Option("--record", metavar="FILE", help="Write all calls to models to a file."),
]
Replay = Annotated[
    Path | None,
    typer.Option("--replay", metavar="FILE", help="Take the models' replies from a recorded file."),
]
