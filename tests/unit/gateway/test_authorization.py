"""Who may say which command, as a table."""

from collections.abc import Mapping, Sequence

import pytest

from gateway_service.chats.access import Access, Who
from gateway_service.commands.registry import find_unknown
from gateway_service.messages import Source

ADMIN, OTHER, STRANGER = "7", "8", "9"
Lists = Mapping[str, Sequence[str]]


def access(
    allowed: str = "7 8", admins: str = "7", allow: Lists | None = None, deny: Lists | None = None
) -> Access:
    users, named = frozenset(allowed.split()), frozenset(admins.split())
    return Access(users, allowed == "", named, allow or {}, deny or {})


def may(given: Access, user: str, command: str, who: Who = Who.ADMINS) -> bool:
    names = (command.split(maxsplit=1)[0], command)
    return given.may(Source("telegram", "1", user_id=user), names, who)


@pytest.mark.parametrize(
    ("given", "who", "allowed"),
    [
        # With one person there is nobody to be kept from anything.
        (access("7", ""), Who.ADMINS, {ADMIN}),
        # With several, nobody is an admin who is not named.
        (access("7 8", ""), Who.ADMINS, set[str]()),
        (access("7 8", ""), Who.EVERYBODY, {ADMIN, OTHER}),
        (access(), Who.ADMINS, {ADMIN}),
        (access(), Who.EVERYBODY, {ADMIN, OTHER}),
        # Who is named may still have to be one who may talk.
        (access("8", "7"), Who.ADMINS, set[str]()),
        # An automation is no person.
        (Access(frozenset({OTHER}), programs=frozenset({OTHER})), Who.ADMINS, set[str]()),
        (Access(frozenset({ADMIN, OTHER}), programs=frozenset({OTHER})), Who.ADMINS, {ADMIN}),
        (access("", ""), Who.ADMINS, set[str]()),
        (access("", "7"), Who.ADMINS, {ADMIN}),
        (access("", ""), Who.EVERYBODY, {ADMIN, OTHER, STRANGER}),
    ],
)
def test_levels(given: Access, who: Who, allowed: set[str]) -> None:
    found = {user for user in (ADMIN, OTHER, STRANGER) if may(given, user, "cron add", who)}
    assert found == allowed


@pytest.mark.parametrize(
    ("allow", "deny", "command", "allowed"),
    [
        ({OTHER: ["cron"]}, {}, "cron add", {ADMIN, OTHER}),
        ({OTHER: ["cron list"]}, {}, "cron add", {ADMIN}),
        ({OTHER: ["cron list"]}, {}, "cron list", {ADMIN, OTHER}),
        ({"*": ["model"]}, {}, "model set", {ADMIN, OTHER}),
        ({OTHER: ["*"]}, {}, "curator run", {ADMIN, OTHER}),
        ({}, {ADMIN: ["cron remove"]}, "cron remove", set[str]()),
        ({}, {ADMIN: ["cron remove"]}, "cron add", {ADMIN}),
        # What is said of a person is stronger than what is said of all, and there a denial wins.
        ({OTHER: ["cron"]}, {"*": ["cron"]}, "cron add", {ADMIN, OTHER}),
        ({"*": ["cron"]}, {OTHER: ["cron"]}, "cron add", {ADMIN}),
        ({OTHER: ["cron"]}, {OTHER: ["cron add"]}, "cron add", {ADMIN}),
        ({STRANGER: ["*"]}, {}, "cron add", {ADMIN}),
    ],
)
def test_lists(allow: Lists, deny: Lists, command: str, allowed: set[str]) -> None:
    given = access(allow=allow, deny=deny)
    assert {user for user in (ADMIN, OTHER, STRANGER) if may(given, user, command)} == allowed


def test_what_everybody_may_can_be_taken_from_all_but_admins() -> None:
    given = access(deny={"*": ["skill"]})
    assert may(given, ADMIN, "skill", Who.EVERYBODY)
    assert not may(given, OTHER, "skill", Who.EVERYBODY)


def test_nobody_is_an_admin_without_an_id() -> None:
    anybody = Source("telegram", "1")
    for given in (access("", ""), access("7", "")):
        assert not given.may(anybody, ("stop", "stop"), Who.EVERYBODY)
        assert not given.is_admin(anybody)


@pytest.mark.parametrize(
    ("given", "lacks"),
    [
        (access("7", ""), False),
        (access("7 8", ""), True),
        (access("", ""), True),
        (access("", "7"), False),
        (Access(), False),
    ],
)
def test_an_admin_is_lacking_where_several_may_talk(given: Access, lacks: bool) -> None:
    assert given.lacks_admin is lacks


def test_a_name_that_no_command_has_is_found() -> None:
    allow = {"8": ["cron", "cron list", "approve always", "skill", "*"]}
    given = access(allow=allow, deny={"*": ["corn", "cron lits", "arxiv"]})
    assert find_unknown(given) == ["arxiv", "corn", "cron lits"]
