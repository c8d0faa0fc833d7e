"""The table of calls to models that ends a search."""

from __future__ import annotations

import io

from rich.console import Console

from tilewright.cli.cost_table import cost_lines
from tilewright.core.records import CallRecord

MAILBOX = "mailbox:/home/someone/replies/of/people?timeout_s=5000"


def printed(*calls: CallRecord) -> list[str]:
    stream = io.StringIO()
    console = Console(file=stream, width=80)
    for line in cost_lines(calls, 2.0):
        console.print(line)
    return stream.getvalue().splitlines()


def call(model: str, phase: str) -> CallRecord:
    return CallRecord("run", f"{model} {phase}", model, phase, "replied", input_tokens=123_456)


def test_the_name_of_a_model_is_printed_whole_on_a_line_of_its_own():
    lines = printed(call(MAILBOX, "plan"), call(MAILBOX, "implement"))
    assert lines[0] == MAILBOX
    assert [line.split()[0] for line in lines[1:4]] == ["phase", "plan", "implement"]
    assert lines[4:6] == ["all models", lines[1]]


def test_the_columns_of_all_models_are_aligned():
    lines = printed(call("anthropic/a-model", "plan"), call(MAILBOX, "implement"))
    ends = {line.index("123,456") + 7 for line in lines if "123,456" in line}
    assert len(ends) == 1
    assert max(map(len, lines)) <= 80
