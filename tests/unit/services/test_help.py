"""Every command and every action of one explains itself: what it does, its arguments, examples."""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest

from services.cli.main import COMMANDS, parser_of
from tests.unit.docs_reference import actions_of


def with_actions(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of its actions."""
    yield parser
    for argument in actions_of(parser):
        if isinstance(argument.choices, Mapping):
            for action in cast("Mapping[str, Any]", argument.choices).values():
                yield from with_actions(action)


PARSERS = {parser.prog: parser for name in COMMANDS for parser in with_actions(parser_of(name))}


def test_the_actions_of_commands_are_found() -> None:
    assert {"hermes chat", "hermes jobs add", "hermes config set", "hermes certs issue"} < {
        *PARSERS
    }


def test_each_says_what_it_does_and_shows_examples() -> None:
    for name, parser in PARSERS.items():
        assert (parser.description or "").rstrip().endswith("."), name
        heading, *examples = (parser.epilog or "").splitlines()
        assert heading == "examples:", name
        assert examples[0].startswith(f"  {name}")


def test_each_explains_every_argument() -> None:
    unexplained = [
        f"{name}: {argument.dest}"
        for name, parser in PARSERS.items()
        for argument in actions_of(parser)
        if not argument.help and not isinstance(argument.choices, Mapping)
    ]
    assert unexplained == []


def test_the_home_is_named_before_an_action_or_behind_it() -> None:
    parser = parser_of("jobs")
    assert parser.parse_args(["--home", "HERE", "list"]).home == "HERE"
    assert parser.parse_args(["list", "--home", "HERE"]).home == "HERE"
    assert parser.parse_args(["list"]).home is None


@pytest.mark.parametrize("text", ["-1", "9" * 30, "1.5", "many"])
def test_a_number_that_no_request_has_is_refused_by_every_command(text: str) -> None:
    numbers = 0
    for parser in PARSERS.values():
        for argument in actions_of(parser):
            known: Any = argument.type
            if known is int or getattr(known, "__name__", "") == "number":
                numbers += 1
                with pytest.raises((argparse.ArgumentTypeError, ValueError)):
                    known(text)
    assert numbers > 10
