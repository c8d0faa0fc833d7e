"""The cost of calls, from an installed price table that needs no network.

An unknown price is None, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tilewright.core.errors import ConfigurationError
from tilewright.core.run_notes import Prices
from tilewright.proposers.llm.messages import Request, Usage
from tilewright.proposers.llm.models import LOCAL, Model, parse_model

PER_TOKEN = 1e-6
CHARACTERS_PER_TOKEN = 3.0
"""Number of characters per token for reservations, which is low so that reservations are rather too
large.
"""

_TABLE_NAMES = {"openai": "openai", "anthropic": "anthropic", "google": "google", "bedrock": "aws"}


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens. Reading and writing the provider's cache have separate
    prices.
    """

    input: float
    output: float
    cached: float
    cache_written: float

    def usd(self, usage: Usage) -> float | None:
        """The cost of a call in dollars; None if its tokens are unknown."""
        if usage.input is None or usage.output is None:
            return None
        cached, written = usage.cached or 0, usage.cache_written or 0
        return PER_TOKEN * (
            (usage.input - cached - written) * self.input
            + cached * self.cached
            + written * self.cache_written
            + usage.output * self.output
        )


def needs_table(model: Model) -> bool:
    """Whether the model's price can come only from the price table."""
    local = model.provider in LOCAL or model.on_this_machine
    return model.options.price is None and not local


def price_of(model: Model) -> Price | None:
    """The model's price, from its option `price` or from the table; None if neither contains it.

    Also None if the package of the table is not installed, in which case `check_model` refuses the
    model.
    """
    if model.options.price is not None:
        return _own_price(model)
    if not needs_table(model):
        return None
    try:
        from genai_prices import Usage as TableUsage
        from genai_prices import calc_price
    except ImportError:
        return None

    if model.base_url:
        where = {"provider_api_url": model.base_url}
    else:
        where = {"provider_id": _TABLE_NAMES[model.provider]}
    try:
        row: Any = calc_price(TableUsage(), model.target, **where).model_price  # type: ignore[call-overload]
    except LookupError:
        return None
    full, output = _base(row.input_mtok), _base(row.output_mtok)
    if full is None or output is None:
        return None
    cached, written = _base(row.cache_read_mtok), _base(row.cache_write_mtok)
    return Price(
        full, output, full if cached is None else cached, full if written is None else written
    )


def snapshot(models: Mapping[str, Price | None]) -> Prices:
    """The part of the table that a run stores: the prices that it uses, and the version of the
    table.
    """
    prices = {name: asdict(price) if price else None for name, price in models.items()}
    try:
        table = f"genai-prices {version('genai-prices')}"
    except PackageNotFoundError:  # models with prices of their own, commands and folders need none
        table = "none"
    return Prices(table, prices)


def from_snapshot(stored: Prices) -> dict[str, Price | None]:
    """Inverse of `snapshot`."""
    prices = stored.usd_per_mtok.items()
    return {name: Price(**price) if price else None for name, price in prices}


def reserved_usage(request: Request) -> Usage:
    """An estimate of the maximum tokens of a call before it is made."""
    inputs = int(request.characters / CHARACTERS_PER_TOKEN) + 1
    return Usage(input=inputs, output=parse_model(request.model).reply_tokens)


def _own_price(model: Model) -> Price:
    try:
        inputs, outputs = (float(p) for p in str(model.options.price).split(":"))
        if not (inputs >= 0 and outputs >= 0):
            raise ValueError
    except ValueError:
        raise ConfigurationError(
            f"price={model.options.price} of model {model.name} is not usable. Write "
            "price=INPUT:OUTPUT in US dollars per million tokens, for example price=0.5:1.5."
        ) from None
    return Price(inputs, outputs, inputs, inputs)


def _base(price: Any) -> float | None:
    """The price below the first tier (long prompts cost more; ours are short)."""
    return None if price is None else float(getattr(price, "base", price))
