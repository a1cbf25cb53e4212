"""A service of which only some calls are played."""

from typing import Any, Protocol

from grpclib import GRPCError, Status
from grpclib.const import Handler
from grpclib.server import Stream


class Service(Protocol):
    """What is generated for a service of the protocol."""

    def __mapping__(self) -> dict[str, Handler]:
        """All its calls."""
        ...


class Played:
    """A generated service over an object that has the calls which are needed."""

    def __init__(self, service: type[Service], own: object) -> None:
        self._service: Any = service
        self._own = own

    def __mapping__(self) -> dict[str, Handler]:
        return self._service.__mapping__(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name, _unknown)


async def _unknown(_stream: Stream[Any, Any]) -> None:
    raise GRPCError(Status.UNIMPLEMENTED, "this is not played here")
