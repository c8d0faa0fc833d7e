"""Commands that ask language models, or say what asking would be like."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from toy_cli import Cli, World

from tilewright.testing.model_protocols import Behaviour
from tilewright.testing.model_server import ModelServer

SEARCH = ("optimize", "toy:digits", "--iterations", "2", "--beam", "1", "--plans", "2")


def lowered(prompt: str, key: str) -> str:
    """Answers any prompt of the toy world."""
    if "Make a plan" in prompt:
        return f"OPTION: 1\n\nLower it, {key}."
    return f"```\ntoy 9 9 9 9 {int(key, 16) % 9}  toy()\n```"


@pytest.mark.usefixtures("world")
def test_optimize_with_a_model_shows_and_writes_its_cost(cli: Cli) -> None:
    with ModelServer(answer=lowered) as server:
        model = f"openai/toy-1@{server.url}?price=1:10"
        result = cli(
            *SEARCH, "--proposer", model, "--budget", "1 USD", "--json", "a.json",
            "--record", "calls.jsonl",
        )  # fmt: skip
    assert result.code == 0, result.err
    written = json.loads(Path("a.json").read_text())
    assert written["speedup"] > 1
    assert written["model_calls"] == len(server.requests)
    assert written["model_usd"] == pytest.approx(0.00200 * written["model_calls"])
    assert "USD per doubling of speed" in result.out
    assert "calls to models" in result.err
    assert "plan" in result.out
    assert "USD per doubling" in cli("runs", "show", "latest").out
    asked = len(server.requests)
    again = cli(*SEARCH, "--project", "b", "--proposer", model, "--budget", "1 USD",
                "--json", "b.json", "--replay", "calls.jsonl")  # fmt: skip
    assert again.code == 0, again.err
    assert len(server.requests) == asked
    assert json.loads(Path("b.json").read_text())["best_latency"] == written["best_latency"]


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--proposer", "openai/gpt-5"), "OPENAI_API_KEY"),
        (("--proposer", "opanai/gpt-5"), "did you mean 'openai/'"),
        (("--proposer", "command:no-such-program -x"), "not on PATH"),
        (("--proposer", "mailbox:box", "--budget", "1 USD"), "--allow-unpriced"),
        (("--proposer", "openai/m?tmp=1@http://x/v1"), "tmp"),
        (("--proposer", "openai/m", "--replay", "missing.jsonl"), "missing.jsonl"),
        (("--budget", "40 calls"), "limits only language models"),
        (("--without", "isas"), "did you mean 'isa'"),
        (("--without", "structure"), "the kernel of toy:digits is not a template"),
        (("--repairs", "-1"), "repairs"),
        (("--record", "missing/folder/x"), "missing/folder"),
        (("--from", "beefbeef"), "beefbeef"),
        (("--budget", "5 bananas"), "bananas"),
        (("--proposer", "openai/m@http://127.0.0.1:9/v1"), "cannot be reached"),
    ],
)
def test_bad_input_is_one_sentence(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    result = cli(*SEARCH, *arguments)
    assert result.code == 2
    assert words in result.err
    assert len(result.err.strip().splitlines()) == 1


@pytest.mark.usefixtures("world")
def test_a_price_that_nobody_knows_is_refused_before_anything_is_asked(cli: Cli) -> None:
    with ModelServer(answer=lowered) as server:
        result = cli(*SEARCH, "--proposer", f"openai/m@{server.url}", "--budget", "1 USD")
        assert server.requests == []
    assert result.code == 2
    assert "--allow-unpriced" in result.err
    assert len(result.err.strip().splitlines()) == 1


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("configuration", "words"), [("", "needs an AWS region"), ("odd", "AWS configuration")]
)
def test_bedrock_without_a_region_is_noticed_at_once(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, configuration: str, words: str
) -> None:
    pytest.importorskip("boto3")
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "absent"))
    if configuration:
        monkeypatch.setenv("AWS_PROFILE", configuration)
    result = cli(*SEARCH, "--proposer", "bedrock/some-model")
    assert result.code == 2
    assert words in result.err
    assert len(result.err.strip().splitlines()) == 1


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("sleep 60?timeout_s=0.3", "gave no answer within 0.3 s"),
        ("false", "ended with exit code 1"),
    ],
)
def test_a_command_that_hangs_or_fails_pauses_the_run(cli: Cli, program: str, words: str) -> None:
    result = cli(*SEARCH, "--proposer", f"command:{program}")
    assert result.code == 2
    assert words in result.err.strip().splitlines()[-1]
    assert "Traceback" not in result.err
    assert "interrupted" in cli("runs", "list").out


@pytest.mark.usefixtures("world")
def test_a_model_that_stops_answering_pauses_the_run(cli: Cli) -> None:
    with ModelServer(Behaviour(status=401), answer=lowered) as server:
        model = f"openai/toy-1@{server.url}"
        result = cli(*SEARCH, "--proposer", model)
        assert result.code == 2
        assert "refused the key" in result.err
        assert "interrupted" in cli("runs", "list").out
        server.script = [Behaviour()]
        assert cli("runs", "resume", "latest").code == 0


@pytest.mark.usefixtures("world")
def test_models_says_what_is_configured(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-1234-secret")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    result = cli("models")
    assert result.code == 0
    assert "key found" in result.out
    assert "ANTHROPIC_API_KEY" in result.out
    assert "canary" not in result.out


def test_models_are_reached_and_priced(cli: Cli) -> None:
    with ModelServer(Behaviour(text="ready", model="other-1")) as server:
        name = f"openai/m@{server.url}?price=1:2"
        asked = cli("models", name, "--ask")
        looked = cli("models", name)
        assert len(server.requests) == 1
    assert asked.code == looked.code == 0
    assert "answered as other-1" in " ".join(asked.out.split())
    assert "1, 2" in looked.out
    gone = cli("models", name)
    assert gone.code == 1
    assert "cannot be reached" in " ".join(gone.out.split())


def test_prompt_prints_what_would_be_sent(world: World, cli: Cli) -> None:
    result = cli("prompt", "toy:digits", "--dropout", "0")
    assert result.code == 0
    assert "toy 9 9 9 9 9" in result.out
    assert "`lower-3`" in result.out
    assert "tokens" in result.err
    assert "`lower-3`" not in cli("prompt", "toy:digits", "--without", "menu").out
    assert "# The plan" in cli("prompt", "toy:digits", "--phase", "implement").out
    assert cli(*SEARCH, "--seed", "1").code == 0
    assert "latency:" in cli("prompt", "toy:digits", "--run", "latest").out
