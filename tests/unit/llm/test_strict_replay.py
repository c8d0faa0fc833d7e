"""A strict recording answers the very prompts that were recorded, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.core.errors import InputError
from tilewright.proposers.llm.messages import (
    Message,
    Reply,
    Request,
    reply_to_json,
    request_to_json,
)
from tilewright.proposers.llm.recording import Recording, write_recording


def request(prompt: str) -> Request:
    return Request("openai/gpt-5.5", "plan", (Message("user", prompt),), "sample")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    asked = request("as recorded")
    path = tmp_path / "recording.jsonl"
    exchange = (asked.key, request_to_json(asked), reply_to_json(Reply("an answer", "end")))
    path.write_text(write_recording(None, [exchange]))
    return path


def test_a_prompt_that_differs_is_an_error_only_where_the_recording_is_strict(file: Path) -> None:
    by_place = Recording(file)
    assert by_place.submit(request("another")).result().text == "an answer"
    assert by_place.differing == 1
    strict = Recording(file, strict=True)
    assert strict.submit(request("as recorded")).result().text == "an answer"
    with pytest.raises(InputError, match="no reply to exactly this plan prompt"):
        strict.submit(request("another"))
