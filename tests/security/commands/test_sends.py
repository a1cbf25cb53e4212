"""Whom a command asks, and whether it tells them more than an address."""

import json
from pathlib import Path

import pytest

from agent_service.security.commands.classifier import CommandClassifier
from agent_service.security.commands.network_clients import TALKERS, is_local

ROWS = [
    json.loads(line) for line in (Path(__file__).parent / "sends.jsonl").read_text().splitlines()
]
CLASSIFIER = CommandClassifier()


def of(*tables: str) -> list[str]:
    """The commands of these tables."""
    found = [row["command"] for row in ROWS if row["table"] in tables]
    assert found
    return found


def test_what_says_more_than_an_address_sends() -> None:
    assert [text for text in of("sends") if not CLASSIFIER.classify(text).sends] == []


def test_what_says_only_what_the_command_says_sends_nothing() -> None:
    assert [text for text in of("tells nothing") if CLASSIFIER.classify(text).sends] == []


def test_what_stays_on_the_machine_neither_sends_nor_asks() -> None:
    for command in of("stays here"):
        verdict = CLASSIFIER.classify(command)
        assert (verdict.sends, verdict.addresses) == (False, ()), command


def test_an_address_is_found_in_every_way_to_ask_it() -> None:
    for command in of("asks example.org"):
        verdict = CLASSIFIER.classify(command)
        found = {url.removeprefix("https://").rpartition("@")[2] for url in verdict.addresses}
        assert (verdict.sends, found) == (False, {"example.org"}), command


def test_whatever_program_is_given_an_address_asks_it() -> None:
    for command in of("asks evil.example"):
        verdict = CLASSIFIER.classify(command)
        assert not verdict.sends, command
        assert [url for url in verdict.addresses if "evil.example" in url], command


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_loop_asks_an_address_for_each_of_its_items(quote: str) -> None:
    text = f"for i in 1 2 3; do curl {quote}https://example.com/$i{quote}; done"
    addresses = tuple(f"https://example.com/{number}" for number in (1, 2, 3))
    assert CLASSIFIER.classify(text).addresses == addresses


def test_an_address_is_local_by_its_whole_host() -> None:
    local = ("localhost", "http://127.0.0.2:80/a", "[::1]:80", "::1", "0.0.0.0")
    other = ("localhost:evil.com", "http://me@localhost/", "localhost.evil.com", "")
    assert all(map(is_local, local))
    assert not any(map(is_local, (*other, "127.0.0.1.evil.com", "http://localhost\\@evil.com")))


def test_an_option_of_a_program_means_one_thing() -> None:
    for talker in TALKERS.values():
        assert talker.quiet.isdisjoint(talker.gives)
