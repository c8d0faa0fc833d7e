import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core.budget import Budget
from tilewright.core.budget_text import describe_budget, parse_budget
from tilewright.core.errors import InputError
from tilewright.core.text import shortened


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90 s", Budget(wall_s=90)),
        ("90s", Budget(wall_s=90)),
        ("1.5 min", Budget(wall_s=90)),
        ("2 Hours", Budget(wall_s=7200)),
        ("500 evaluations", Budget(evaluations=500)),
        ("1 evaluation", Budget(evaluations=1)),
        ("90 s, 500 evaluations", Budget(500, 90)),
        ("500 evals ,10 minutes", Budget(500, 600)),
        ("5 USD, 2 h, 1000 evaluations, 3 Mtok", Budget(1000, 7200, 5, 3_000_000)),
        ("0.50 dollars", Budget(usd=0.5)),
        ("1.5 ktok", Budget(tokens=1500)),
        ("40 calls", Budget(calls=40)),
        ("1 call, 2 USD", Budget(usd=2, calls=1)),
    ],
)
def test_reads_time_and_evaluations(text: str, expected: Budget) -> None:
    assert parse_budget(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "90",
        "s",
        "90 parsecs",
        "0 s",
        "-3 s",
        "1.5 evaluations",
        "0 evaluations",
        "90 s,",
        "90 s, 2 min",
        "5 USD, 3 dollars",
        "0.5 tokens",
        "1.5 calls",
        "5 EUR",
        "1 evaluation, 2 evaluations",
        "nan s",
        "inf s",
        "9" * 400 + " s",
    ],
)
def test_refuses_anything_else_in_one_sentence(text: str) -> None:
    with pytest.raises(InputError, match="write for example") as refusal:
        parse_budget(text)
    assert shortened(text) in str(refusal.value)


@pytest.mark.parametrize("amount", ["0 s", "-5 s", "0 evaluations", "-0.5 USD", "0.0000001 s"])
def test_names_an_amount_that_is_not_positive(amount: str) -> None:
    with pytest.raises(InputError, match=f"contains '{amount.lower()}', but every amount must be"):
        parse_budget(f"2 h, {amount}" if not amount.endswith(" s") else f"{amount}, 3 USD")


@given(
    evaluations=st.none() | st.integers(1, 10**9),
    wall_s=st.none() | st.floats(0.5, 1e9).map(lambda v: round(v, 3)),
    usd=st.none() | st.floats(0.01, 1e6).map(lambda v: round(v, 3)),
    tokens=st.none() | st.integers(1, 10**12),
    calls=st.none() | st.integers(1, 10**6),
)
def test_a_described_budget_reads_back(
    evaluations: int | None,
    wall_s: float | None,
    usd: float | None,
    tokens: int | None,
    calls: int | None,
) -> None:
    budget = Budget(evaluations, wall_s, usd, tokens, calls)
    if budget != Budget():
        assert parse_budget(describe_budget(budget)) == budget


def test_no_budget_is_no_text() -> None:
    assert describe_budget(Budget()) == ""
