"""Who may talk to Hermes: those who are listed, and nobody else unless everybody may."""

from msgspec import Struct

from gateway_service.messages import Source


class Access(Struct, frozen=True):
    """Who may talk to an account."""

    allowed_users: frozenset[str] = frozenset()
    """The platform's ids of people."""
    allow_all: bool = False

    @property
    def is_closed(self) -> bool:
        """Whether nobody may."""
        return not self.allow_all and not self.allowed_users

    def allows(self, source: Source) -> bool:
        """Whether the sender may."""
        return self.allow_all or (bool(source.user_id) and source.user_id in self.allowed_users)
