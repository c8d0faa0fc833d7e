"""Checks the models of a run before any call, and constructs the proposer of the run."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence

from tilewright.core.budget import Budget, Spent
from tilewright.core.errors import ConfigurationError
from tilewright.core.records import CallRecord
from tilewright.core.roles import CallStore, MenuFilter
from tilewright.proposers.llm.allocation import AdaptiveShares
from tilewright.proposers.llm.attempts import Notes
from tilewright.proposers.llm.branches import Branches
from tilewright.proposers.llm.caller import Caller
from tilewright.proposers.llm.conversations import Conversations
from tilewright.proposers.llm.dispatch import Transport
from tilewright.proposers.llm.ledger import Ledger
from tilewright.proposers.llm.models import Model, parse_model
from tilewright.proposers.llm.prices import Price, needs_table, price_of
from tilewright.proposers.llm.prompts.render import Prompts
from tilewright.proposers.llm.proposer import LLMProposer
from tilewright.proposers.llm.providers.base import find_key, install_command
from tilewright.proposers.llm.providers.bedrock import require_region

SDKS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "google": "google.genai",
    "bedrock": "boto3",
}


def check_model(model: Model, environment: Mapping[str, str] = os.environ) -> None:
    """Raise `ConfigurationError` if a key, package, program or region is missing. Uses no
    network.
    """
    if model.provider == "command":
        program = shlex.split(model.target)[0]
        if shutil.which(program) is None:
            raise ConfigurationError(
                f"model {model.name} names the program {program!r}, which is not on PATH. Install "
                "it or give its full path."
            )
        return
    packages = [SDKS[model.provider]] if model.provider in SDKS else []
    packages += ["genai_prices"] if needs_table(model) else []
    for package in packages:
        if not _installed(package):
            raise ConfigurationError(
                f"model {model.name} needs the Python package {package}. Install it with "
                f"`{install_command(model)}`."
            )
    find_key(model, environment)
    if model.provider == "bedrock":
        require_region(model)


def prices_of(names: Sequence[str]) -> dict[str, Price | None]:
    """Each model's price; None if it is unknown."""
    return {name: price_of(parse_model(name)) for name in names}


def require_prices(prices: Mapping[str, Price | None], budget: Budget) -> None:
    """Raise `ConfigurationError` if the budget is in dollars and a model has no price."""
    for name, price in prices.items():
        if price is None and budget.usd is not None:
            raise ConfigurationError(
                f"the price of model {name} is unknown, so a budget in USD cannot be enforced. Add "
                "?price=INPUT:OUTPUT (US dollars per million tokens) to its name, limit tokens "
                "instead, or allow it with --allow-unpriced."
            )


def create_llm_proposer(
    names: Sequence[str],
    *,
    transport: Transport,
    store: CallStore,
    run_id: str,
    budget: Budget,
    prices: Mapping[str, Price | None],
    without: Collection[str] = (),
    edits: bool = False,
    templates: bool = False,
    shares: AdaptiveShares | None = None,
    branches: Branches | None = None,
    applicable: MenuFilter | None = None,
    notes: Notes | None = None,
    on_call: Callable[[CallRecord], None] = lambda call: None,
    turns: Callable[[Caller], Conversations] | None = None,
) -> tuple[LLMProposer, Ledger]:
    """The proposer with these models, and the ledger of its calls."""
    ledger = Ledger(budget, spent_on(store.calls(run_id)))
    caller = Caller(
        transport=transport,
        store=store,
        run_id=run_id,
        ledger=ledger,
        prices=prices,
        on_call=on_call,
    )
    proposer = LLMProposer(
        names,
        Prompts(without, edits, applicable, notes, templates),
        caller,
        edits=edits,
        templates=templates,
        shares=shares,
        branches=branches,
        turns=turns(caller) if turns is not None else None,
    )
    return proposer, ledger


def spent_on(calls: Sequence[CallRecord]) -> Spent:
    """The amounts that answered calls have used, without calls that were answered with replies of
    another run.
    """
    answered = [call for call in calls if call.state == "replied"]
    return Spent(
        usd=sum(call.counted_usd for call in answered),
        tokens=sum(call.counted_tokens for call in answered),
        calls=sum(not call.cached for call in answered),
    )


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False
