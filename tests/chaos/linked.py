"""An agent, an executor and a gateway in one process, and a link wherever one calls another."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from prometheus_client import CollectorRegistry

from agent_service import app as agent_app
from gateway_service import app as gateway_app
from services.config.settings import Settings, load_settings
from services.lifecycle import Workers
from services.rpc.addresses import Address, TcpAddress, UnixAddress
from services.rpc.auth import Identity, Tokens
from services.rpc.channels import Channels
from services.runtime.component import Component
from services.runtime.server import ListenOptions, Server
from services.telemetry.metrics import Meter
from tests.support.executors import end_boxes, executor_settings, serving
from tests.support.links import Link, link_to

LINKS = (
    "client-gateway",
    "gateway-agent",
    "agent-executor",
    "agent-model",
    "agent-database",
    "gateway-database",
)


@dataclass(frozen=True, slots=True)
class Linked:
    """What runs."""

    links: Mapping[str, Link]
    operator: Channels


@asynccontextmanager
async def linked(folder: Path, model_url: str, database_url: str) -> AsyncGenerator[Linked]:
    """Run the services for the time of the block, each with its own part of the database."""
    boxes = executor_settings(folder / "executor", "bubblewrap", HERMES_KEEP_SANDBOXES="true")
    sockets = {name: UnixAddress(folder / f"{name}.sock") for name in ("agent", "gateway")}
    model, database = sa.make_url(model_url), sa.make_url(database_url)
    assert model.port is not None
    assert database.port is not None
    async with AsyncExitStack() as stack:
        stack.push_async_callback(end_boxes, boxes)
        executor = await stack.enter_async_context(serving(boxes))
        places: dict[str, Address] = {
            "client-gateway": sockets["gateway"],
            "gateway-agent": sockets["agent"],
            "agent-executor": executor.address,
            "agent-model": TcpAddress("127.0.0.1", model.port),
            "agent-database": TcpAddress("127.0.0.1", database.port),
            "gateway-database": TcpAddress("127.0.0.1", database.port),
        }
        links = {
            name: await stack.enter_async_context(link_to(place)) for name, place in places.items()
        }
        for name, build in (("agent", agent_app.build), ("gateway", gateway_app.build)):
            environ = {
                "HERMES_HOME": str(folder / name),
                "HERMES_BASE_URL": str(model.set(port=links["agent-model"].port)),
                "HERMES_MODEL": "scripted",
                "HERMES_SKILLS_BUNDLED": "false",
                "HERMES_DATABASE_URL": str(database.set(port=links[f"{name}-database"].port)),
            }
            settings = await asyncio.to_thread(_settings, environ)
            ways = {"agent": ("agent-executor", "executor"), "gateway": ("gateway-agent", "agent")}
            way, other = ways[name]
            identity = Identity(name)
            token = executor.tokens[identity]
            channels = Channels(identity, {other: links[way].address}, token=token)
            await stack.enter_async_context(channels)
            component = build(settings, channels, Meter(CollectorRegistry()))
            await stack.enter_async_context(_running(component, sockets[name], executor.tokens))
        operator = Channels(
            Identity.OPERATOR,
            {"gateway": links["client-gateway"].address},
            token=executor.tokens[Identity.OPERATOR],
        )
        yield Linked(links, await stack.enter_async_context(operator))


@asynccontextmanager
async def _running(
    component: Component, socket: UnixAddress, tokens: Tokens
) -> AsyncGenerator[None]:
    async with (
        Server([component], ListenOptions((socket,), tokens=tokens)) as server,
        component,
        Workers() as workers,
    ):
        await server.start()
        workers.start(component.name, component.run())
        yield
        await component.drain()


def _settings(environ: Mapping[str, str]) -> Settings:
    settings = load_settings({}, environ)
    settings.home.create()
    return settings
