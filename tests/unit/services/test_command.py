"""Commands are declared, and what is meant is found by its id, its name or its id's beginning."""

from importlib import import_module

import pytest

from services.cli.command import JSON_LIST, Action, Command, Context, OneOf, arg, flag, pick
from services.cli.main import module_of
from services.errors import InvalidArgument, NotFound

IDS = ("job_ab1", "job_ab2", "job_c")


def _pick(named: str) -> str:
    return pick(
        named,
        IDS,
        str,
        names=lambda ident: (f"Name {ident[-1]}",),
        what="job",
        see="hermes jobs list",
        prefix="job_",
    )


@pytest.mark.parametrize(
    ("named", "found"),
    [("job_c", "job_c"), ("c", "job_c"), ("ab1", "job_ab1"), ("name 2", "job_ab2")],
)
def test_one_is_picked_by_id_name_or_beginning(named: str, found: str) -> None:
    assert _pick(named) == found


def test_nobody_is_picked_by_chance() -> None:
    with pytest.raises(InvalidArgument, match="'ab' matches job_ab1, job_ab2"):
        _pick("ab")
    with pytest.raises(NotFound, match="there is no job 'x'; see hermes jobs list"):
        _pick("x")


def _list(context: Context) -> int:
    return 3 if context.given.json else 0


def _end(context: Context) -> None:
    """Nothing."""


COMMAND = Command(
    "examples:\n  hermes demo list --json\n  hermes demo end --yes",
    actions=(
        Action("list", "all of them", _list, (JSON_LIST,)),
        Action(
            "end", "one", _end, (arg("one", "one"), OneOf((flag("--a", "a"), flag("--b", "b"))))
        ),
    ),
)


def test_an_action_has_the_examples_that_are_about_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        COMMAND.parser("demo", "Demonstrates.").parse_args(["list", "--help"])
    assert capsys.readouterr().out.endswith("examples:\n  hermes demo list --json\n")


def test_the_function_of_an_action_says_how_it_ends() -> None:
    parser = COMMAND.parser("demo", "Demonstrates.")
    assert COMMAND.run(parser.parse_args(["list", "--json"])) == 3
    assert COMMAND.run(parser.parse_args(["list"])) == 0


def test_only_one_of_a_group_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        COMMAND.parser("demo", "Demonstrates.").parse_args(["end", "x", "--a", "--b"])
    assert "see hermes demo end --help" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "typed", "meant"),
    [
        ("jobs", [], ["list"]),
        ("jobs", ["--json"], ["list", "--json"]),
        ("memory", [], ["show"]),
        ("curator", [], ["status"]),
        ("jobs", ["lst"], ["lst"]),
        ("jobs", ["--home", "x", "add"], ["--home", "x", "add"]),
        ("jobs", ["--help"], ["--help"]),
        ("home", [], []),
        ("tools", [], []),
    ],
)
def test_a_noun_alone_shows_what_there_is(command: str, typed: list[str], meant: list[str]) -> None:
    declared = import_module(module_of(command)).COMMAND
    assert [*declared.with_action(typed)] == meant
