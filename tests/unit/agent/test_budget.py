"""What fits into a budget, and what a person is told of one."""

import pytest

from agent_service.records.budget import Amount, BudgetStatus, Scope
from agent_service.storage.usage import job_of

LIMIT = Amount(micro_usd=1_000_000, tokens=1_000)


@pytest.mark.parametrize(
    ("spent", "reserved", "asked", "fits"),
    [
        (Amount(900_000, 0), Amount(), Amount(100_000, 0), True),
        (Amount(900_000, 0), Amount(), Amount(100_001, 0), False),
        (Amount(900_000, 0), Amount(1, 0), Amount(100_000, 0), False),
        (Amount(0, 900), Amount(0, 50), Amount(0, 50), True),
        (Amount(0, 900), Amount(0, 50), Amount(0, 51), False),
        (Amount(1_000_000, 0), Amount(), Amount(0, 1), True),
        (Amount(1_000_001, 0), Amount(), Amount(0, 1), False),
    ],
)
def test_what_is_spent_reserved_and_asked_for_must_fit_together(
    spent: Amount, reserved: Amount, asked: Amount, fits: bool
) -> None:
    assert BudgetStatus(Scope.DAY, "", LIMIT, spent, reserved).has_room_for(asked) is fits


def test_what_has_no_limit_always_fits() -> None:
    huge = Amount(10**14, 10**14)
    assert BudgetStatus(Scope.DAY, "", Amount(tokens=1), huge).has_room_for(Amount()) is False
    assert BudgetStatus(Scope.DAY, "", Amount(tokens=10**15), huge).has_room_for(huge)
    assert BudgetStatus(Scope.DAY, "", Amount(), huge).has_room_for(huge)


@pytest.mark.parametrize(
    ("spent", "past"),
    [(Amount(799_999, 799), False), (Amount(800_000, 0), True), (Amount(0, 800), True)],
)
def test_a_warning_is_due_from_its_percent_on(spent: Amount, past: bool) -> None:
    assert BudgetStatus(Scope.DAY, "", LIMIT, spent).is_past(80) is past


def test_a_model_without_a_price_fits_into_no_budget_in_dollars() -> None:
    unpriced = Amount(tokens=5, unpriced="local")
    dollars = BudgetStatus(Scope.DAY, "", Amount(micro_usd=10**15))
    assert not dollars.has_room_for(unpriced)
    assert dollars.refusal(unpriced) == (
        "Today's budget is in US dollars, and the price of local is not known, so that the model "
        "is not called. Set its price under models in config.yaml, count such models as free "
        "(hermes config set budget.unpriced free), or limit tokens: "
        "hermes budget set day --tokens N."
    )
    tokens = BudgetStatus(Scope.SESSION, "s", Amount(tokens=1_000), Amount(0, 996))
    assert not tokens.has_room_for(unpriced)
    assert "996 tokens of 1,000 tokens" in tokens.refusal(unpriced)
    assert tokens.has_room_for(Amount(tokens=4, unpriced="local"))


def test_a_refusal_names_the_budget_the_figures_and_the_way_out() -> None:
    standing = BudgetStatus(Scope.SESSION, "s", Amount(tokens=1_000), Amount(0, 900), Amount(0, 50))
    assert standing.refusal(Amount(5, 70)) == (
        "This session's budget does not allow another model call: 900 tokens of 1,000 tokens "
        "spent, 50 tokens reserved by running calls, and the call may take 70 tokens. Raise it "
        "with hermes budget set session --id s."
    )
    day = BudgetStatus(Scope.DAY, "", Amount(micro_usd=2_500_000), Amount(2_400_000, 9))
    assert day.refusal(Amount(200_000, 7)) == (
        "Today's budget does not allow another model call: $2.40 of $2.50 spent, and the call may "
        "take $0.2000. Raise it with hermes budget set day or wait until tomorrow."
    )


@pytest.mark.parametrize(
    ("session_id", "job_id"),
    [
        ("cron_job_06h0_20261123_100000", "job_06h0"),
        ("cron_x_20261123_100000", "x"),
        ("cron_x_20261123_100000_0badcafe", "x"),
        ("cron_x_20261122_090000_20261123_100000", "x_20261122_090000"),
        ("20261123_100000_a1b2c3", ""),
        ("cron_20261123_100000", ""),
        ("acron_x_20261123_100000", ""),
    ],
)
def test_the_session_of_a_jobs_run_names_the_job(session_id: str, job_id: str) -> None:
    assert job_of(session_id) == job_id
