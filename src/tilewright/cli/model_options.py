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
        "google/MODEL, bedrock/MODEL, openai/MODEL@URL, command:PROGRAM or mailbox:FOLDER. "
        "Repeat it to share the work.",
    ),
]
Without = Annotated[
    list[str] | None,
    typer.Option(
        "--without",
        metavar="PART",
        help="Leave a part out of the prompts, to see what it is worth: isa, menu, dropout, "
        "feedback, examples, history or ensemble. Repeatable.",
    ),
]
Edits = Annotated[
    bool, typer.Option("--edits", help="Let models answer with edits instead of whole kernels.")
]
Repairs = Annotated[
    int,
    typer.Option(
        "--repairs", metavar="R", help="Rounds in which failed kernels go back to their model."
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
        help="Shares of several models in the work: equal, or by measured gain per dollar.",
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
