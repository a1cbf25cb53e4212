"""A service as the process runs it."""

import sys
from typing import Protocol, Self, runtime_checkable

import grpc.aio

from services.rpc.auth import Policy


class Component(Protocol):
    """One service, built by `build(settings, channels)` in its `app.py` and run by `serve`.

    The order is: enter (open the database and connections), `register`, `run` beside the server;
    at the end `drain`, the server stops, `run` is cancelled, exit.
    """

    @property
    def name(self) -> str:
        """The service's name: `agent`, `executor`, `gateway` or `scheduler`."""
        ...

    @property
    def policy(self) -> Policy:
        """Who may call which of the methods that `register` adds; the rest is refused."""
        ...

    def register(self, server: grpc.aio.Server) -> None:
        """Add the servicers to the server."""
        ...

    async def run(self) -> None:
        """Do the background work until cancelled; a failure ends the whole process."""
        ...

    async def drain(self) -> None:
        """Claim no more work, and release what runs within 5 s."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...


def add_servicers(server: grpc.aio.Server, *servicers: object) -> None:
    """Add servicers, whose classes have generated ones as bases, to a server."""
    for servicer in servicers:
        for base in type(servicer).__mro__:
            add = getattr(sys.modules[base.__module__], f"add_{base.__name__}_to_server", None)
            if add is not None:
                add(servicer, server)


@runtime_checkable
class Readiness(Protocol):
    """A component that can run without being ready, such as without its platforms."""

    def unready(self) -> str:
        """Say in one line why the component is not ready; empty if it is."""
        ...
