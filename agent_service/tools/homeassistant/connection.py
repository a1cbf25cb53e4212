"""Home Assistant's WebSocket API: a connection for each call, and what there is at home."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from agent_service.config.senses import HomeAssistantConfig
from agent_service.models.proxies import proxy_of
from agent_service.models.wires.wire import objects_of
from agent_service.tools.base import ForeignFailure, ToolFailed
from services.validation import object_of

if TYPE_CHECKING:
    from aiohttp import ClientWebSocketResponse

SETTINGS = ("HASS_TOKEN",)
CALL_S = 30.0
MAX_BYTES = 64 * 1024 * 1024
"""Of one message: the states of a large home are some megabytes."""
UNCERTAIN = (
    "Home Assistant did not answer, so it is unknown whether the service was called. Look at the "
    "state before you call it again."
)
_GROUPS_WITHIN = 5


class Connection:
    """A connection after its login."""

    def __init__(self, socket: "ClientWebSocketResponse") -> None:
        self.lost = ""
        """What to say if the connection is lost, if not that there is none."""
        self._socket = socket
        self._ids = count(1)

    async def ask(self, kind: str, **fields: Any) -> Any:
        """The result of a command; raises ForeignFailure."""
        number = next(self._ids)
        await self._socket.send_json({"id": number, "type": kind, **fields})
        while True:
            answer = await self._socket.receive_json(timeout=CALL_S)
            if answer.get("id") == number and answer.get("type") == "result":
                break
        if not answer.get("success"):
            raise ForeignFailure(f"Home Assistant: {object_of(answer.get('error')).get('message')}")
        return answer.get("result")


class HomeAssistant(Struct, frozen=True):
    """A Home Assistant, as configured."""

    config: HomeAssistantConfig

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[Connection]:
        """Connect and log in; ToolFailed if the connection fails, also later."""
        import aiohttp

        url, connection = self.config.url.rstrip("/"), None
        try:
            async with (
                aiohttp.ClientSession() as http,
                http.ws_connect(
                    f"{url}/api/websocket", max_msg_size=MAX_BYTES, proxy=proxy_of(url)
                ) as socket,
            ):
                await socket.receive_json(timeout=CALL_S)
                token = self.config.token.get_secret_value()
                await socket.send_json({"type": "auth", "access_token": token})
                answer = await socket.receive_json(timeout=CALL_S)
                if answer.get("type") != "auth_ok":
                    raise ToolFailed("Home Assistant refuses the token; check HASS_TOKEN.")
                yield (connection := Connection(socket))
        except (aiohttp.ClientError, OSError, TimeoutError, TypeError, ValueError) as error:
            # A connection that was closed gives something that is no JSON.
            away = f"Home Assistant cannot be reached at {url} ({type(error).__name__})."
            raise ToolFailed((connection and connection.lost) or away) from error


class Entity(Struct, frozen=True):
    """An entity."""

    entity_id: str
    name: str
    state: str
    area: str
    attributes: Mapping[str, Any]

    @property
    def domain(self) -> str:
        return self.entity_id.partition(".")[0]

    def is_called(self, name: str) -> bool:
        """Whether somebody may mean it by a name or id."""
        return name.strip().casefold() in (self.entity_id.casefold(), self.name.casefold())

    def __str__(self) -> str:
        unit = self.attributes.get("unit_of_measurement")
        state = f"{self.state} {unit}" if unit else self.state
        where = f" ({self.area})" if self.area else ""
        return one_line(f"{self.entity_id}: {self.name}{where}: {state}")


class HomeAssistantEntities(Struct, frozen=True):
    """What there is at home."""

    things: Sequence[Entity]

    @classmethod
    async def read(cls, connection: Connection) -> "HomeAssistantEntities":
        """Read all states, and where things are."""
        states = objects_of(await connection.ask("get_states"))
        areas = {
            each.get("area_id"): str(each.get("name"))
            for each in objects_of(await connection.ask("config/area_registry/list"))
        }
        devices = {
            each.get("id"): each.get("area_id")
            for each in objects_of(await connection.ask("config/device_registry/list"))
        }
        places = {
            each.get("entity_id"): each.get("area_id") or devices.get(each.get("device_id"))
            for each in objects_of(await connection.ask("config/entity_registry/list"))
        }
        return cls([_thing(state, areas, places) for state in states])

    def in_area(self, name: str) -> Sequence[Entity]:
        return [thing for thing in self.things if thing.area.casefold() == name.strip().casefold()]

    def find(self, name: str) -> Entity:
        """The thing that a name or id means; ToolFailed unless it is exactly one."""
        found = [thing for thing in self.things if thing.is_called(name)]
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(thing.entity_id for thing in found)
            raise ForeignFailure(f"{name} may be {ids}. Use the id.")
        words = name.casefold().replace("_", " ").replace(".", " ").split()
        called = ((thing.entity_id, f"{thing.entity_id} {thing.name}") for thing in self.things)
        like = [each for each, text in called if any(word in text.casefold() for word in words)]
        listed = ", ".join(like[:10]) or "other things"
        raise ForeignFailure(f"There is no {name}. There are {listed}.")

    def areas(self) -> str:
        return ", ".join(sorted({thing.area for thing in self.things} - {""})) or "none"

    def reached_by(self, things: Iterable[Entity], data: str) -> Mapping[str, Entity]:
        """Things by id, with those that JSON names, and the members of groups and scenes.

        Home Assistant takes ids in upper case as well.
        """
        data = data.lower()
        known = {thing.entity_id: thing for thing in self.things}
        reached = {thing.entity_id: thing for thing in things}
        reached |= {each: thing for each, thing in known.items() if each in data}
        for _ in range(_GROUPS_WITHIN):
            members = [
                known[each]
                for thing in reached.values()
                for each in _texts(thing.attributes.get("entity_id"))
                if each in known
            ]
            reached |= {thing.entity_id: thing for thing in members}
        return reached


def one_line(text: str) -> str:
    """Return a text that cannot break out of its line or hide parts of it."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def _thing(state: Mapping[str, Any], areas: Mapping[Any, str], places: Mapping[Any, Any]) -> Entity:
    entity_id, attributes = str(state.get("entity_id")), object_of(state.get("attributes"))
    name = str(attributes.get("friendly_name") or entity_id)
    area = areas.get(places.get(entity_id), "")
    return Entity(entity_id, name, str(state.get("state")), area, attributes)


def _texts(value: object) -> Sequence[str]:
    listed = cast("list[object]", value) if isinstance(value, list | tuple) else [value]
    return [each for each in listed if isinstance(each, str)]
