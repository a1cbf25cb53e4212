"""The `ha_call_service` tool."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import Field

from agent_service.tools.base import (
    Effect,
    ForeignFailure,
    RetryWithHint,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
    UsualTool,
)
from agent_service.tools.guards.approval import binding_of, check_allowed
from agent_service.tools.guards.taint import must_ask
from agent_service.tools.homeassistant.connection import (
    UNCERTAIN,
    Connection,
    Entity,
    HomeAssistant,
    HomeAssistantEntities,
    one_line,
)
from agent_service.tools.homeassistant.queries import TOOLSET
from services.validation import object_of

GENERIC = "homeassistant"
"""The domain whose services are for things of any domain."""
_TARGETS = ("area_id", "device_id", "floor_id", "label_id")
_AT_HOME = frozenset(
    {
        *("alarm_control_panel", "button", "climate", "cover", "fan", "group", GENERIC),
        *("humidifier", "input_boolean", "input_button", "input_datetime", "input_number"),
        *("input_select", "lawn_mower", "light", "lock", "media_player", "number", "scene"),
        *("select", "siren", "switch", "timer", "vacuum", "valve", "water_heater"),
    }
)
"""Domains whose services only change things at home; others may send text or run programs."""
_READS = frozenset({"calendar.get_events", "todo.get_items", "weather.get_forecasts"})
_FREE_FORM = frozenset({"scene.apply", "scene.create"})
"""They take states of any things."""
_SENT_FROM = "This session has read untrusted text, and this may send data out of the home."


class CallServiceArguments(ToolArguments):
    """Does something in the user's home, such as turning on a light.

    Find things with `ha_list_entities`, and services with `ha_list_services`. The user may have to
    approve it first, such as for locks.
    """

    domain: str = Field(pattern=r"^[a-z0-9_]+$", description="Such as light.")
    service: str = Field(pattern=r"^[a-z0-9_]+$", description="Such as turn_on.")
    entity_id: str = Field(
        default="", description="Ids or names of the things, separated by commas."
    )
    area: str = Field(
        default="", description="All things of the domain in this area, such as Kitchen."
    )
    data: dict[str, Any] = Field(
        default={}, description='What else the service takes, such as {"brightness_pct": 40}.'
    )


class CallService(UsualTool[CallServiceArguments]):
    """Calls services."""

    name = "ha_call_service"
    toolset = TOOLSET
    arguments = CallServiceArguments
    usual_effect = Effect.UNSAFE
    usual_writes = frozenset({"home"})

    def __init__(self, server: HomeAssistant, *, asks: bool, asks_if_tainted: bool) -> None:
        """`asks` is whether a person is asked at all."""
        self._server, self._asks, self._asks_if_tainted = server, asks, asks_if_tainted

    async def run(self, arguments: CallServiceArguments, context: ToolContext) -> ToolResult:
        async with self._server.connect() as connection:
            home = await HomeAssistantEntities.read(connection)
            service = _known_service(object_of(await connection.ask("get_services")), arguments)
            data = dict(arguments.data)
            things = _targets(home, arguments, data.pop("entity_id", ""))
            reached = home.reached_by(things, json.dumps(data, ensure_ascii=False))
            await self._check(arguments, data, reached, context)
            connection.lost = UNCERTAIN
            called = await _call(connection, arguments, data, things, service)
            after = await HomeAssistantEntities.read(connection) if things else home
        ids = {thing.entity_id for thing in things}
        states = [str(thing) for thing in after.things if thing.entity_id in ids]
        return ToolResult("\n".join((called, *states)))

    async def _check(
        self,
        arguments: CallServiceArguments,
        data: Mapping[str, Any],
        reached: Mapping[str, Entity],
        context: ToolContext,
    ) -> None:
        """Return if the call is allowed; else raise ToolFailed or DecisionRequired."""
        config = self._server.config
        domains = {arguments.domain, *(thing.domain for thing in reached.values())}
        if denied := sorted(domains & {*config.deny_domains}):
            raise ToolFailed(
                f"homeassistant.deny_domains denies {', '.join(denied)}, so nothing was done."
            )
        called = f"{arguments.domain}.{arguments.service}"
        is_beyond = called not in _READS and (called in _FREE_FORM or not domains <= _AT_HOME)
        sends = is_beyond or "://" in json.dumps(data)
        is_tainted = sends and self._asks_if_tainted and await must_ask(context)
        # Without a thing the generic services are about Home Assistant itself, such as its stop.
        is_administration = arguments.domain == GENERIC and not reached
        is_asked = is_administration or is_beyond or bool(domains & {*config.ask_domains})
        asks = self._asks and is_asked
        if asks or is_tainted or context.decision is not None:
            lines = [f"{called} at home", *map(str, reached.values())]
            if data:
                lines.append(one_line(json.dumps(data, ensure_ascii=False)))
            if is_tainted:
                lines.append(_SENT_FROM)
            binding = binding_of(arguments, *sorted(reached))
            await check_allowed(self.name, "\n".join(lines), binding, context)


async def _call(
    connection: Connection,
    arguments: CallServiceArguments,
    data: Mapping[str, Any],
    things: Sequence[Entity],
    service: Mapping[str, Any],
) -> str:
    more: dict[str, Any] = {"return_response": True} if service.get("response") else {}
    if things:
        more["target"] = {"entity_id": [thing.entity_id for thing in things]}
    asked = {"domain": arguments.domain, "service": arguments.service, "service_data": data}
    result = object_of(await connection.ask("call_service", **asked, **more))
    text = f"Called {arguments.domain}.{arguments.service}."
    answer = result.get("response")
    return f"{text}\n{json.dumps(answer, ensure_ascii=False)}" if answer else text


def _known_service(known: Mapping[str, Any], arguments: CallServiceArguments) -> Mapping[str, Any]:
    services = object_of(known.get(arguments.domain))
    if arguments.service in services:
        return object_of(services[arguments.service])
    if services:
        names = ", ".join(services)
        raise RetryWithHint(f"{arguments.domain} has no {arguments.service}. It has {names}.")
    raise RetryWithHint(f"There is no domain {arguments.domain}. There are {', '.join(known)}.")


def _targets(
    home: HomeAssistantEntities, arguments: CallServiceArguments, in_data: object
) -> Sequence[Entity]:
    """The things that a call names, each once."""
    if named := [key for key in _TARGETS if key in arguments.data]:
        raise RetryWithHint(f"Name things by entity_id or area, not by {named[0]} in data.")
    listed = cast("list[object]", in_data) if isinstance(in_data, list) else [in_data]
    names = ",".join((arguments.entity_id, *map(str, listed))).split(",")
    if "all" in (name.strip().lower() for name in names):
        raise RetryWithHint("Name the things or an area; all at once cannot be called.")
    found = [home.find(name) for name in names if name.strip()]
    if arguments.area:
        inside = home.in_area(arguments.area)
        chosen = [thing for thing in inside if arguments.domain in (GENERIC, thing.domain)]
        if not chosen:
            raise ForeignFailure(
                f"{arguments.area} has no {arguments.domain}. Areas: {home.areas()}."
            )
        found += chosen
    return list({thing.entity_id: thing for thing in found}.values())
