"""What a service is to the process that runs it."""

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
        """Adds the servicers to the server."""
        ...

    async def run(self) -> None:
        """Does the background work until cancelled; a failure ends the whole process."""
        ...

    async def drain(self) -> None:
        """Claims nothing more and lets go of what is running, within 5 s."""
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
    """A component that runs, and at times does not hear the platforms that it should."""

    def unready(self) -> str:
        """Why that is so now, in one line for people; empty where all is well."""
        ...
