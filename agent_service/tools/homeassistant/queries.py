"""The tools that look at a home: `ha_list_entities`, `ha_get_state`, `ha_list_services`."""

import json

from pydantic import Field

from agent_service.tools.base import (
    A,
    Effect,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
    UsualTool,
)
from agent_service.tools.homeassistant.connection import HomeAssistant, HomeAssistantEntities
from services.validation import object_of

TOOLSET = "homeassistant"
MOST_SHOWN = 200
_SHOWN = ("description", "required", "example")


class _Query(UsualTool[A]):
    toolset = TOOLSET
    usual_effect = Effect.PURE

    def __init__(self, server: HomeAssistant) -> None:
        self._server = server


class ListEntitiesArguments(ToolArguments):
    """Lists the things of the user's home with their states: lights, sensors, locks and so on."""

    domain: str = Field(default="", description="Only of this kind, such as light or climate.")
    area: str = Field(default="", description="Only in this area, such as Kitchen.")


class ListEntities(_Query[ListEntitiesArguments]):
    """Lists things."""

    name = "ha_list_entities"
    arguments = ListEntitiesArguments

    async def run(self, arguments: ListEntitiesArguments, context: ToolContext) -> ToolResult:
        async with self._server.connect() as connection:
            home = await HomeAssistantEntities.read(connection)
        things = home.in_area(arguments.area) if arguments.area else home.things
        domain = arguments.domain.strip().lower()
        lines = sorted(str(thing) for thing in things if domain in ("", thing.domain))
        if not lines:
            return ToolResult(f"There is nothing like that. Areas: {home.areas()}.")
        left = len(lines) - MOST_SHOWN
        more = (f"… and {left} more; ask for a domain or an area.",) if left > 0 else ()
        return ToolResult("\n".join((*lines[:MOST_SHOWN], *more)))


class GetStateArguments(ToolArguments):
    """Shows the state of one thing of the user's home, with all its attributes."""

    entity_id: str = Field(
        min_length=1, description="Its id, such as climate.bedroom, or its name, such as Bedroom."
    )


class GetState(_Query[GetStateArguments]):
    """Shows a thing."""

    name = "ha_get_state"
    arguments = GetStateArguments

    async def run(self, arguments: GetStateArguments, context: ToolContext) -> ToolResult:
        async with self._server.connect() as connection:
            home = await HomeAssistantEntities.read(connection)
        thing = home.find(arguments.entity_id)
        attributes = json.dumps(thing.attributes, ensure_ascii=False, indent=1)
        return ToolResult(f"{thing}\n{attributes}")


class ListServicesArguments(ToolArguments):
    """Lists what can be done in the user's home, for `ha_call_service`.

    Without a domain it lists only names; with one, also what each service takes.
    """

    domain: str = Field(default="", description="Such as light or media_player.")


class ListServices(_Query[ListServicesArguments]):
    """Lists services."""

    name = "ha_list_services"
    arguments = ListServicesArguments

    async def run(self, arguments: ListServicesArguments, context: ToolContext) -> ToolResult:
        async with self._server.connect() as connection:
            known = object_of(await connection.ask("get_services"))
        domain = arguments.domain.strip().lower()
        if not domain:
            lines = [f"{name}: {', '.join(object_of(known[name]))}" for name in sorted(known)]
            return ToolResult("\n".join(lines))
        if domain not in known:
            raise ToolFailed(f"There is no domain {domain}. There are {', '.join(sorted(known))}.")
        services = object_of(known[domain])
        return ToolResult("\n".join(_described(domain, name, services[name]) for name in services))


def _described(domain: str, name: str, service: object) -> str:
    """A service with what it takes, without the forms that Home Assistant shows for it."""
    described = object_of(service)
    fields = object_of(described.get("fields"))
    # Rarely used ones are in sections.
    sections = [object_of(object_of(each).get("fields")) for each in fields.values()]
    lines = [f"{domain}.{name}: {described.get('description') or ''}"]
    for key, value in {k: v for part in (fields, *sections) for k, v in part.items()}.items():
        kept = {n: object_of(value)[n] for n in _SHOWN if n in object_of(value)}
        lines += [f"  {key}: {json.dumps(kept, ensure_ascii=False)}"] if kept else []
    return "\n".join(lines)
