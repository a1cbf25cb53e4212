"""What `hermes budget set` makes of its arguments."""

import pytest

from hermes.agent.v1 import usage_pb2 as pb
from services.amounts import dollars
from services.cli.budget import change_request
from services.cli.main import parser_of
from services.errors import InvalidArgument


def asked(*arguments: str) -> pb.SetBudgetRequest:
    return change_request(parser_of("budget").parse_args(["set", *arguments]))


def test_amounts_are_read_exactly() -> None:
    request = asked("day", "--usd", "2.500001", "--tokens", "7", "--profile", "work")
    assert request == pb.SetBudgetRequest(
        profile="work",
        scope=pb.BUDGET_SCOPE_DAY,
        limit=pb.BudgetAmount(micro_usd=2_500_001, tokens=7),
    )
    assert asked("session", "--id", "s", "--usd", "$1").scope_id == "s"


def test_no_limit_and_the_default_are_two_things() -> None:
    assert asked("job", "--unlimited").HasField("limit")
    assert not asked("job", "--default").HasField("limit")


@pytest.mark.parametrize(
    "arguments", [(), ("--unlimited", "--default"), ("--usd", "1", "--unlimited")]
)
def test_what_makes_no_sense_is_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgument):
        asked("day", *arguments)


@pytest.mark.parametrize("value", ["0", "-1", "nan", "1e30", "much"])
@pytest.mark.parametrize("option", ["--usd", "--tokens"])
def test_what_is_no_amount_is_refused(option: str, value: str) -> None:
    with pytest.raises(SystemExit):
        asked("day", f"{option}={value}")


@pytest.mark.parametrize(
    ("micro_usd", "text"),
    [(0, "$0.00"), (500, "$0.0005"), (1_000_000, "$1.00"), (1_234_567_890, "$1,234.57")],
)
def test_amounts_are_shown_as_people_read_them(micro_usd: int, text: str) -> None:
    assert dollars(micro_usd) == text
