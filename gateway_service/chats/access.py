"""Who may talk to Hermes, and who may use which command; everybody else is refused."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from gateway_service.messages import Source

ANYBODY = "*"
"""In place of a person: everybody else who may talk; in place of a command: all commands."""
SKILLS = "skill"
"""In place of a command: every skill."""


class Who(StrEnum):
    """Who may use a command by default."""

    EVERYBODY = "everybody"
    ADMINS = "admins"
    """Admins, because it affects other people or costs money."""


class Access(Struct, frozen=True):
    """Who may talk to an account and use which commands, by the platform's user ids."""

    allowed_users: frozenset[str] = frozenset()
    allow_all: bool = False
    admins: frozenset[str] = frozenset()
    """Named admins; the only user of an account need not be named."""
    allow: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    deny: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    pairs: bool = False
    """Whether unknown people get a pairing code in a direct chat; else they get no answer."""
    paired: frozenset[str] = frozenset()
    """People who were let in by pairing."""
    programs: frozenset[str] = frozenset()
    """Ids that stand for no person; they are admins only if they are named as such."""

    @property
    def is_closed(self) -> bool:
        return not (self.allow_all or self.allowed_users or self.paired or self.pairs)

    @property
    def lacks_admin(self) -> bool:
        """Return whether nobody can change the deployment from a chat."""
        has_others = self.allow_all or bool(self.allowed_users - self.programs)
        return has_others and not self._admins

    def allows(self, source: Source) -> bool:
        return self.allow_all or self.knows(source.user_id)

    def knows(self, user_id: str) -> bool:
        """Return whether a person may talk, even if not everybody may."""
        return bool(user_id) and (user_id in self.allowed_users or user_id in self.paired)

    def admit(self, user_id: str, *, is_admin: bool) -> "Access":
        """Return the rules with a person who was let in by pairing."""
        # Named, because the only person on the allow list stays the admin of these rules.
        admins = self._admins | {user_id} if is_admin else self._admins
        return replace(self, paired=self.paired | {user_id}, admins=admins)

    def may(self, source: Source, names: Sequence[str], who: Who) -> bool:
        """Return whether the sender may use a command, given its names; unknown people may use
        none.

        Rules for a person override rules for everybody; among each, denials win. Denials for
        everybody do not apply to admins.
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
        return self.allows(source) and source.user_id in self._admins

    def commands(self) -> set[str]:
        return {name for listed in (*self.allow.values(), *self.deny.values()) for name in listed}

    @property
    def _admins(self) -> frozenset[str]:
        # The only user is an admin without being named as such.
        people = self.allowed_users - self.programs
        if self.admins or self.allow_all or len(people) != 1:
            return self.admins
        return people


def _names(listed: Sequence[str], names: Sequence[str]) -> bool:
    return any(name == ANYBODY or name in names for name in listed)
