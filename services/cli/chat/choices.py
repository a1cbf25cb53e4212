"""Messages that the person at the terminal may choose by number."""

from collections.abc import Sequence

from msgspec import Struct

from hermes.gateway.v1.conversation_pb2 import ConverseResponse

IDLE = "> "


class Choices(Struct, frozen=True):
    """What a reply offers; nothing if it is empty."""

    offered: Sequence[ConverseResponse.Choice] = ()

    @property
    def lines(self) -> str:
        width = len(str(len(self.offered)))
        return "\n".join(f"{n:>{width}}. {one.label}" for n, one in enumerate(self.offered, 1))

    @property
    def label(self) -> str:
        """The label before the answer, or before any message if nothing is offered."""
        return f"number (1-{len(self.offered)}) or message > " if self.offered else IDLE

    def message(self, said: str) -> str:
        """The message of the chosen number; anything else is a message itself."""
        number = int(said) if said.isdecimal() and len(said) < 3 else 0
        return self.offered[number - 1].message if 0 < number <= len(self.offered) else said
