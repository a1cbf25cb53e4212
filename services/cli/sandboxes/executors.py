"""The executors of a deployment as an operator reaches them: all of them, each alone.

They are found by the addresses of the name that they share. Each of them says at which endpoint it
alone is reached; one that says none is the only one.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from operator import itemgetter
from typing import Any, TypeVar

import grpc.aio
from msgspec import Struct

from hermes.executor.v1 import sandbox_pb2
from hermes.executor.v1.sandbox_pb2_grpc import SandboxServiceStub
from services.cli.command import Context, Function, pick
from services.cli.connection import connected, running
from services.cli.console import complain
from services.cli.failures import in_short, remedy
from services.cli.output import Column
from services.config.settings import Settings
from services.errors import (
    InvalidArgument,
    NotFound,
    Reason,
    ServiceUnavailable,
    message_of,
    reason_of,
)
from services.lifecycle import all_of
from services.rpc.addresses import TcpAddress
from services.rpc.auth import Identity
from services.rpc.channels import Channels
from services.runtime.config import ServiceConfig

THERE_S = 3.0
"""How long an executor has to say that it is there."""
TELL_S = 10.0
"""How long it has to tell what it has."""
LOOKUP_S = 5.0
"""How long it may take to look up a name."""

_T = TypeVar("_T")


class Executor(Struct, frozen=True):
    """One that answers."""

    endpoint: str
    """Where it alone is reached; empty where it is the only one."""
    channel: grpc.aio.Channel
    capabilities: sandbox_pb2.GetCapabilitiesResponse

    @property
    def name(self) -> str:
        """What people call it."""
        return self.endpoint or "the executor"


class Executors(Struct):
    """Those of a deployment."""

    each: Sequence[Executor]
    """At least one, in the order of their endpoints."""
    silent: dict[str, str]
    """Those of which something is not known, and what they do instead of telling."""

    @property
    def are_several(self) -> bool:
        """Whether it matters which of them it is."""
        return len(self.each) + len(self.silent) > 1

    async def ask(
        self, question: Callable[[Executor], Awaitable[Iterable[_T]]]
    ) -> list[tuple[Executor, _T]]:
        """What they have, each thing with the one that has it; they are asked at the same time.

        Those that do not tell are silent from then on; fails when none tells anything.
        """
        told = list[tuple[Executor, _T]]()
        failures = list[grpc.aio.AioRpcError]()
        answers = await all_of(_answer(question(executor)) for executor in self.each)
        for executor, answer in zip(self.each, answers, strict=True):
            if isinstance(answer, grpc.aio.AioRpcError):
                failures.append(answer)
                self.silent[executor.endpoint] = _instead(answer)
            else:
                told += [(executor, one) for one in answer]
        if len(failures) == len(self.each):
            raise failures[0]
        return told

    def pick(
        self,
        named: str,
        told: Sequence[tuple[Executor, _T]],
        ident: Callable[[_T], str],
        names: Callable[[_T], Sequence[str]] = lambda _: (),
        *,
        what: str,
        see: str,
    ) -> Sequence[tuple[Executor, _T]]:
        """What is meant, with each executor that has it; else NotFound or InvalidArgument."""
        try:
            found = pick(named, [one for _, one in told], ident, names=names, what=what, see=see)
        except NotFound as error:
            but = [f"; the executor at {name} {why}" for name, why in self.silent.items()]
            raise NotFound(f"{error.message}{''.join(but)}") from None
        return [(at, one) for at, one in told if ident(one) == ident(found)]

    def complain(self) -> None:
        """Tell a person whose part is missing."""
        for endpoint, instead in self.silent.items():
            complain(f"the executor at {endpoint} {instead}; its entries are missing")

    def print_list(
        self,
        context: Context,
        told: Sequence[tuple[Executor, Any]],
        columns: Sequence[Column],
        empty: str = "",
    ) -> None:
        """What executors have; the one that has it is a column where that matters."""
        self.complain()
        context.print_list(told, self.columns(columns), empty)

    def columns(self, columns: Sequence[Column]) -> Sequence[Column]:
        """The columns for pairs of an executor and what it has."""
        heading = "executor" if self.are_several else ""
        own = Column("executor", heading, lambda pair: pair[0].endpoint, optional=True)
        return (*(column.of(itemgetter(1)) for column in columns), own)

    def chosen(self, named: str | None) -> "Executors":
        """The one whose endpoint is this or alone begins so, or all if it is None.

        Fails as `pick` does, and with ServiceUnavailable for one that does not answer.
        """
        if named is None:
            return self
        endpoints = [*(one.endpoint for one in self.each), *self.silent]
        meant = pick(named, endpoints, str, what="executor", see="hermes pools list")
        if meant in self.silent:
            raise ServiceUnavailable(f"the executor at {meant} {self.silent[meant]}")
        return Executors([one for one in self.each if one.endpoint == meant], {})

    def one(self, named: str | None) -> Executor:
        """The only one, or the one that is named; fails with NotFound or InvalidArgument."""
        chosen = self.chosen(named)
        if chosen.are_several:
            names = " and ".join([*(one.endpoint for one in self.each), *self.silent])
            raise InvalidArgument(f"choose an executor with --executor: {names}")
        return chosen.each[0]


def at_executors(function: Callable[[Context, Executors], Awaitable[int | None]]) -> Function:
    """The function of a command that takes the executors of the deployment as well."""

    @wraps(function)
    async def with_executors(context: Context) -> int | None:
        async with executors(context.settings) as deployment:
            return await function(context, deployment)

    return with_executors


@asynccontextmanager
async def executors(settings: Settings, *, start: bool = False) -> AsyncGenerator[Executors]:
    """Those that run; unless one may start here, ServiceUnavailable says how that is done."""
    config = settings.load(ServiceConfig)
    address = config.addresses.find("executor", settings.home)
    if not isinstance(address, TcpAddress):
        here = connected(settings, ("executor",)) if start else running(settings, "executor")
        async with here as channels:
            channel = channels.to("executor")
            found = await _capabilities(channel)
            yield Executors([Executor(found.endpoint, channel, found)], {})
        return
    places = {str(place): place for place in await places_of(address)}
    async with Channels(Identity.OPERATOR, places, tls=config.tls.files) as channels:
        yield await _find(channels, tuple(places))


async def _find(channels: Channels, places: Sequence[str]) -> Executors:
    """Those that answer at these places, and what the others do."""
    found, silent = dict[str, Executor](), dict[str, str]()
    answers = await all_of(_answer(_capabilities(channels.to(name))) for name in places)
    for name, answer in zip(places, answers, strict=True):
        if isinstance(answer, grpc.aio.AioRpcError):
            silent[name] = _instead(answer)
        else:
            endpoint = answer.endpoint
            channel = channels.at(endpoint) if endpoint else channels.to(name)
            found.setdefault(endpoint, Executor(endpoint, channel, answer))
    if not found:
        each = "; ".join(f"the executor at {name} {why}" for name, why in silent.items())
        raise ServiceUnavailable(f"{each}; {remedy('executor')}")
    return Executors([found[endpoint] for endpoint in sorted(found)], silent)


def _instead(error: grpc.aio.AioRpcError) -> str:
    """What an executor does instead of telling."""
    if reason_of(error) is Reason.SERVICE_UNAVAILABLE:
        return f"does not answer ({in_short(error)})"
    return f"reports an error: {message_of(error)}"


async def _capabilities(channel: grpc.aio.Channel) -> sandbox_pb2.GetCapabilitiesResponse:
    request = sandbox_pb2.GetCapabilitiesRequest()
    return await SandboxServiceStub(channel).GetCapabilities(request, timeout=THERE_S)


async def _answer(call: Awaitable[_T]) -> _T | grpc.aio.AioRpcError:
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        return error


async def places_of(address: TcpAddress) -> list[TcpAddress]:
    """Where an address leads, each place once; fails with ServiceUnavailable.

    Places of IPv6 are only those of a name without IPv4: an executor may have an address of each.
    """
    look_up = asyncio.get_running_loop().getaddrinfo(address.host, None, type=socket.SOCK_STREAM)
    try:
        async with asyncio.timeout(LOOKUP_S):
            found = await look_up
    except (OSError, TimeoutError) as error:
        why = getattr(error, "strerror", None) or f"no answer within {LOOKUP_S:g} s"
        raise ServiceUnavailable(
            f"cannot look up the executor's name {address.host} ({why}); {remedy('executor')}"
        ) from error
    of_ipv4 = [place for place in found if place[0] is socket.AF_INET]
    hosts = dict.fromkeys(str(place[4][0]) for place in of_ipv4 or found)
    name = "" if address.host in hosts else address.host
    return [TcpAddress(host, address.port, server_name=name) for host in hosts]
