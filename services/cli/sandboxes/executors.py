"""The executors of a deployment, for an operator.

They are found by the addresses of their common name. Each gives the endpoint that reaches it alone;
one without an endpoint is the only one.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from operator import itemgetter
from typing import Any, TypeVar

import grpc.aio
from google.protobuf.message import Message
from msgspec import Struct

from hermes.executor.v1 import sandbox_pb2
from hermes.executor.v1.sandbox_pb2_grpc import SandboxServiceStub
from services.cli.command import Context, Function, pick
from services.cli.connection import connected, running
from services.cli.console import complain
from services.cli.failures import in_short, remedy
from services.cli.output import Column, json_value, print_json, print_rows
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
"""The timeout of finding an executor."""
TELL_S = 10.0
"""The timeout of its report."""
LOOKUP_S = 5.0
"""The timeout of a name lookup."""

_T = TypeVar("_T")


class Executor(Struct, frozen=True):
    """An executor that answers."""

    endpoint: str
    """The endpoint that reaches it alone; empty for the only one."""
    channel: grpc.aio.Channel
    capabilities: sandbox_pb2.GetCapabilitiesResponse

    @property
    def name(self) -> str:
        return self.endpoint or "the executor"


class Executors(Struct):
    """The executors of a deployment."""

    each: Sequence[Executor]
    """At least one, ordered by endpoint."""
    silent: dict[str, str]
    """Executors with incomplete reports, and their failures."""

    @property
    def are_several(self) -> bool:
        return len(self.each) + len(self.silent) > 1

    async def ask(
        self, question: Callable[[Executor], Awaitable[Iterable[_T]]]
    ) -> list[tuple[Executor, _T]]:
        """Ask all concurrently; return each item with its executor. Raises if all fail."""
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
        """Find an item with each executor that has it; raises NotFound or InvalidArgument."""
        try:
            found = pick(named, [one for _, one in told], ident, names=names, what=what, see=see)
        except NotFound as error:
            but = [f"; the executor at {name} {why}" for name, why in self.silent.items()]
            raise NotFound(f"{error.message}{''.join(but)}") from None
        return [(at, one) for at, one in told if ident(one) == ident(found)]

    def complain(self) -> None:
        for endpoint, instead in self.silent.items():
            complain(f"the executor at {endpoint} {instead}; its entries are missing")

    def print_list(
        self,
        context: Context,
        told: Sequence[tuple[Executor, Any]],
        columns: Sequence[Column],
        empty: str = "",
    ) -> None:
        """Print items; with several executors, theirs is a column."""
        self.complain()
        if context.given.json:
            print_json([json_of(at, one) for at, one in told])
            return
        shown = [column.within(itemgetter(1)) for column in columns]
        shown += [Column("executor", lambda pair: pair[0].endpoint)] if self.are_several else []
        print_rows(told, shown, empty)

    def chosen(self, named: str | None) -> "Executors":
        """Return the one with this endpoint or unique prefix, all for None; raises like `pick`."""
        if named is None:
            return self
        endpoints = [*(one.endpoint for one in self.each), *self.silent]
        meant = pick(named, endpoints, str, what="executor", see="hermes pools list")
        if meant in self.silent:
            raise ServiceUnavailable(f"the executor at {meant} {self.silent[meant]}")
        return Executors([one for one in self.each if one.endpoint == meant], {})

    def one(self, named: str | None) -> Executor:
        """Return the only one or the named one; raises NotFound or InvalidArgument."""
        chosen = self.chosen(named)
        if chosen.are_several:
            names = " and ".join([*(one.endpoint for one in self.each), *self.silent])
            raise InvalidArgument(f"choose an executor with --executor: {names}")
        return chosen.each[0]


def json_of(at: Executor, one: Message) -> dict[str, Any]:
    """Return an item with its executor as a JSON object."""
    return {**json_value(one), "executor": at.endpoint or None}


def at_executors(function: Callable[[Context, Executors], Awaitable[int | None]]) -> Function:
    """Wrap a command's function that also takes the executors of the deployment."""

    @wraps(function)
    async def with_executors(context: Context) -> int | None:
        async with executors(context.settings) as deployment:
            return await function(context, deployment)

    return with_executors


@asynccontextmanager
async def executors(settings: Settings, *, start: bool = False) -> AsyncGenerator[Executors]:
    """Yield running executors, if `start` also one started here; raises ServiceUnavailable."""
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
        yield await _find(channels, tuple(places), is_tunnel=bool(address.server_name))


async def _find(channels: Channels, places: Sequence[str], *, is_tunnel: bool) -> Executors:
    found, silent = dict[str, Executor](), dict[str, str]()
    answers = await all_of(_answer(_capabilities(channels.to(name))) for name in places)
    for name, answer in zip(places, answers, strict=True):
        if isinstance(answer, grpc.aio.AioRpcError):
            silent[name] = _instead(answer)
        else:
            endpoint = answer.endpoint
            # Whoever names the certificate comes through a tunnel, and the endpoint is beyond it.
            is_direct = endpoint and not is_tunnel
            channel = channels.at(endpoint) if is_direct else channels.to(name)
            found.setdefault(endpoint, Executor(endpoint, channel, answer))
    if not found:
        each = "; ".join(f"the executor at {name} {why}" for name, why in silent.items())
        raise ServiceUnavailable(f"{each}; {remedy('executor')}")
    return Executors([found[endpoint] for endpoint in sorted(found)], silent)


def _instead(error: grpc.aio.AioRpcError) -> str:
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
    """Resolve an address, to IPv6 only without IPv4, as an executor may have both."""
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
    name = address.server_name or ("" if address.host in hosts else address.host)
    return [TcpAddress(host, address.port, server_name=name) for host in hosts]
