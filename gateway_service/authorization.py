"""Who may talk to Hermes, and who may say which command: those who are listed, and nobody else."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct, field

from gateway_service.messages import Source

ANYBODY = "*"
"""Instead of a person: everybody else who may talk; instead of a command: all of them."""
SKILLS = "skill"
"""Instead of a command: every skill."""


class Who(StrEnum):
    """Whom a command is for, unless something else is said of it."""

    EVERYBODY = "everybody"
    """Who may talk."""
    ADMINS = "admins"
    """Those to whom the deployment belongs: it changes what others have too, or costs."""


class Rights(Struct, frozen=True):
    """What is said of persons and commands, by the platform's ids of persons."""

    admins: frozenset[str] = frozenset()
    allow: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    deny: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    def may(self, user_id: str, names: Sequence[str], who: Who) -> bool:
        """Whether somebody who may talk may say a command, given its names.

        What is said of a person is stronger than what is said of everybody, and there a denial
        stronger than a permission.
        """
        for person in (user_id, ANYBODY):
            if _names(self.deny.get(person, ()), names) and not self._is_above(person, user_id):
                return False
            if _names(self.allow.get(person, ()), names):
                return True
        return who is Who.EVERYBODY or user_id in self.admins

    def _is_above(self, person: str, user_id: str) -> bool:
        """Whether what is denied to everybody is not meant for somebody."""
        return person == ANYBODY and user_id in self.admins

    def commands(self) -> Iterator[str]:
        """All commands of which something is said."""
        for listed in (*self.allow.values(), *self.deny.values()):
            yield from listed

    def persons(self) -> Iterator[str]:
        """All of whom something is said."""
        yield from {*self.admins, *self.allow, *self.deny} - {ANYBODY}


class Access(Struct, frozen=True):
    """Who may talk to an account, and what they may say."""

    allowed_users: frozenset[str] = frozenset()
    """The platform's ids of people."""
    allow_all: bool = False
    rights: Rights = Rights()

    @property
    def is_closed(self) -> bool:
        """Whether nobody may talk."""
        return not self.allow_all and not self.allowed_users

    @property
    def lacks_admin(self) -> bool:
        """Whether there is nobody who may change the deployment from a chat."""
        return not self.is_closed and not self._admins

    def allows(self, source: Source) -> bool:
        """Whether the sender may talk."""
        return self.allow_all or (bool(source.user_id) and source.user_id in self.allowed_users)

    def may(self, source: Source, names: Sequence[str], who: Who) -> bool:
        """Whether the sender may say a command, given its names; unknown persons may nothing."""
        if not source.user_id or not self.allows(source):
            return False
        return self._rights.may(source.user_id, names, who)

    def is_admin(self, source: Source) -> bool:
        """Whether the deployment belongs to the sender."""
        return self.allows(source) and source.user_id in self._admins

    def persons(self) -> list[str]:
        """Those who are named anywhere and may talk, in the order of their ids."""
        named = {*self.allowed_users, *self.rights.persons()}
        return sorted(named if self.allow_all else named & self.allowed_users)

    @property
    def _admins(self) -> frozenset[str]:
        # Who is alone with Hermes need not be named twice.
        if self.rights.admins or self.allow_all or len(self.allowed_users) != 1:
            return self.rights.admins
        return self.allowed_users

    @property
    def _rights(self) -> Rights:
        return Rights(self._admins, self.rights.allow, self.rights.deny)


def _names(listed: Sequence[str], names: Sequence[str]) -> bool:
    return any(name == ANYBODY or name in names for name in listed)
