"""Models whose packages are extras that are not installed."""

from __future__ import annotations

import sys

import pytest

from tilewright.core.errors import ConfigurationError
from tilewright.proposers.llm import prices, setup
from tilewright.proposers.llm.models import parse_model

KEY = {"OPENAI_API_KEY": "k"}


@pytest.mark.parametrize("package", ["openai", "genai_prices"])
def test_a_missing_package_is_named_with_its_extra(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "_installed", lambda name: name != package)
    with pytest.raises(ConfigurationError) as caught:
        setup.check_model(parse_model("openai/gpt-5.5"), KEY)
    assert package in str(caught.value)
    assert 'pip install "tilewright[openai]"' in str(caught.value)


@pytest.mark.parametrize(
    "name", ["openai/gpt-5.5?price=1:2", "openai/llama@http://127.0.0.1:8000/v1", "mailbox:box"]
)
def test_the_price_table_is_asked_of_those_only_whose_prices_it_knows(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "_installed", lambda package: package != "genai_prices")
    setup.check_model(parse_model(name), KEY)


def test_without_the_price_table_a_price_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert prices.price_of(parse_model("openai/gpt-5")) is not None
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert prices.price_of(parse_model("openai/gpt-5")) is None


def test_a_run_says_when_it_had_no_price_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise prices.PackageNotFoundError(name)

    monkeypatch.setattr(prices, "version", missing)
    assert prices.snapshot({"mailbox:box": None}).table == "none"
