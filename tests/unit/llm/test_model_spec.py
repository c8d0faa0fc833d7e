from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core.errors import InputError
from tilewright.proposers.llm.models import is_model_name, parse_model


def test_a_plain_name() -> None:
    model = parse_model("openai/gpt-5.5")
    assert (model.provider, model.target, model.base_url) == ("openai", "gpt-5.5", None)
    assert model.key_variables == ("OPENAI_API_KEY",)


def test_slashes_and_colons_belong_to_the_model() -> None:
    model = parse_model("openai/meta-llama/llama-4@https://openrouter.ai/api/v1?key_env=OR_KEY")
    assert model.target == "meta-llama/llama-4"
    assert model.base_url == "https://openrouter.ai/api/v1"
    assert model.key_variables == ("OR_KEY",)
    assert parse_model("bedrock/us.anthropic.claude-v1:0").target == "us.anthropic.claude-v1:0"


def test_options() -> None:
    options = parse_model("anthropic/c?temperature=0.7&max_tokens=99&json=yes").options
    assert (options.temperature, options.max_tokens, options.json) == (0.7, 99, True)
    assert options.reasoning_effort is None


def test_commands_keep_their_arguments() -> None:
    assert parse_model("command:agent -p 'two words'").target == "agent -p 'two words'"
    assert parse_model("mailbox:/tmp/box?timeout_s=5").options.timeout_s == 5


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("openai/", "names no model"),
        ("opanai/gpt", "did you mean 'openai/'"),
        ("command:", "PROGRAM ARGUMENTS"),
        ("command:a 'b", "quotes"),
        ("mailbox:", "FOLDER"),
        ("openai/m?temprature=1", "did you mean 'temperature'"),
        ("openai/m?temperature=hot", "temperature=hot"),
        ("openai/m?max_tokens=-1", "max_tokens=-1"),
        ("openai/m?concurrency=0", "above 0"),
        ("openai/m@http://?x=1", "no usable address"),
        ("openai/m@http://me:hush@host/v1", "password"),
        ("openai/m?key_env=HOME", "does not look like a secret"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(name: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        parse_model(name)
    assert "hush" not in str(caught.value)


@given(st.text(max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(InputError):
        parse_model(text)


def test_plug_ins_are_no_models() -> None:
    assert not is_model_name("builtin")
    assert is_model_name("mailbox:x")
    assert is_model_name("openai/x")
