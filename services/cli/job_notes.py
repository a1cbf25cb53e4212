"""What a job names that is not there now: no mistake, since it may come later."""

import argparse
from collections.abc import Collection, Iterable, Iterator

from hermes.agent.v1 import skill_pb2, tool_catalog_pb2
from hermes.agent.v1.skill_pb2_grpc import SkillServiceStub
from hermes.agent.v1.tool_catalog_pb2_grpc import ToolCatalogServiceStub
from services.channels import Channels
from services.cli.failures import EXPECTED, explain
from services.cli.job_options import target
from services.cli.startup import catalog
from services.config_paths import nearest, suggestion

_PLATFORMS = ("platforms",)
_ALWAYS = ("origin", "local", "cli")
"""Where output can go without a platform."""


def needs_agent(arguments: argparse.Namespace) -> bool:
    """Whether only the agent knows if something that is named is there."""
    return bool(arguments.skill or arguments.toolset)


async def missing(channels: Channels, arguments: argparse.Namespace) -> list[str]:
    """A sentence for each thing that a job names and there is none of."""
    notes = list(_platforms(arguments.to or ()))
    try:
        if arguments.skill:
            notes += _unknown("skill", arguments.skill, await _skills(channels, arguments))
        if arguments.toolset:
            notes += _unknown("toolset", arguments.toolset, await _toolsets(channels, arguments))
    except EXPECTED as error:
        notes.append(f"whether its skills and toolsets are there is not known: {explain(error)}")
    return notes


async def _skills(channels: Channels, arguments: argparse.Namespace) -> set[str]:
    request = skill_pb2.ListSkillsRequest(profile=arguments.profile or "")
    found = (await SkillServiceStub(channels.to("agent")).ListSkills(request)).skills
    return {name for skill in found for name in (skill.name, f"{skill.category}/{skill.name}")}


async def _toolsets(channels: Channels, arguments: argparse.Namespace) -> Collection[str]:
    request = tool_catalog_pb2.ListToolsRequest(profile=arguments.profile or "")
    return (await ToolCatalogServiceStub(channels.to("agent")).ListTools(request)).toolsets


def _unknown(what: str, names: Iterable[str], known: Collection[str]) -> Iterator[str]:
    for name in names:
        if name not in known:
            yield f"there is no {what} {name!r} now{suggestion(nearest(name, known))}"


def _platforms(places: Iterable[str]) -> Iterator[str]:
    known = {path.split(".")[1] for path in catalog().paths.inside(_PLATFORMS)}
    for place in places:
        platform = target(place).platform
        if platform not in known and platform not in _ALWAYS:
            told = ", ".join(sorted(known))
            yield f"nothing can go to {place}: there is no platform {platform!r}, but {told}"
