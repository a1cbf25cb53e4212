"""What messages do to the work in progress, as it is configured."""

from collections.abc import Mapping

from msgspec import Struct, field

from gateway_service.messages import BusyMode


class BusyModes(Struct, frozen=True):
    """What holds where a chat has not chosen for itself."""

    usual: BusyMode = BusyMode.INTERRUPT
    own: Mapping[str, BusyMode] = field(default_factory=dict[str, BusyMode])
    """By platform, where it is another there."""

    def of(self, platform: str) -> BusyMode:
        """That of a platform's chats."""
        return self.own.get(platform, self.usual)
