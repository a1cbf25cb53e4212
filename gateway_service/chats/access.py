"""Who may talk to Hermes, and who may say which command: those who are listed, and nobody else."""

from collections.abc import Mapping, Sequence
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


class Access(Struct, frozen=True):
    """Who may talk to an account, and what they may say, by the platform's ids of persons."""

    allowed_users: frozenset[str] = frozenset()
    allow_all: bool = False
    admins: frozenset[str] = frozenset()
    """Those that are named; who is alone with Hermes need not be."""
    allow: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Commands by persons."""
    deny: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

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
        """Whether the sender may say a command, given its names; unknown persons may nothing.

        What is said of a person is stronger than what is said of everybody, and there a denial
        stronger than a permission. What is denied to everybody is not denied to admins.
        """
        user_id = source.user_id
        if not user_id or not self.allows(source):
            return False
        is_admin = user_id in self._admins
        for person in (user_id, ANYBODY):
            is_meant = person != ANYBODY or not is_admin
            if is_meant and _names(self.deny.get(person, ()), names):
                return False
            if _names(self.allow.get(person, ()), names):
                return True
        return is_admin or who is Who.EVERYBODY

    def is_admin(self, source: Source) -> bool:
        """Whether the deployment belongs to the sender."""
        return self.allows(source) and source.user_id in self._admins

    def persons(self) -> list[str]:
        """Those who are named anywhere and may talk, in the order of their ids."""
        named = {*self.allowed_users, *self.admins, *self.allow, *self.deny} - {ANYBODY}
        return sorted(named if self.allow_all else named & self.allowed_users)

    def commands(self) -> set[str]:
        """All commands of which something is said."""
        return {name for listed in (*self.allow.values(), *self.deny.values()) for name in listed}

    @property
    def _admins(self) -> frozenset[str]:
        # Who is alone with Hermes need not be named twice.
        if self.admins or self.allow_all or len(self.allowed_users) != 1:
            return self.admins
        return self.allowed_users


def _names(listed: Sequence[str], names: Sequence[str]) -> bool:
    return any(name == ANYBODY or name in names for name in listed)
