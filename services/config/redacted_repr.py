"""Records that hide fields from logs, errors and tracebacks."""

from typing import ClassVar

from msgspec import Struct


class RedactedRepr(Struct, frozen=True):
    """A record whose `repr` leaves out the fields that `unshown` names."""

    unshown: ClassVar[tuple[str, ...]]

    def __repr__(self) -> str:
        names = (name for name in self.__struct_fields__ if name not in self.unshown)
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__name__}({shown})"
