"""List what the agent has learned, and show it."""

import argparse
import asyncio
from typing import Any

from hermes.agent.v1 import skill_pb2
from hermes.agent.v1.skill_pb2_grpc import SkillServiceStub
from services.cli.arguments import Actions
from services.cli.connection import connected
from services.cli.console import print_json, printable, say
from services.cli.startup import load, logged
from services.cli.tables import print_table
from services.config import Settings

EXAMPLES = """\
examples:
  hermes skills list
  hermes skills list --category research --json
  hermes skills show arxiv
  hermes skills show arxiv --file references/api.md"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes skills`."""
    actions = Actions(parser, "list|show")
    listing = actions.add("list", "the skills by category")
    listing.add_argument("--category", default="", metavar="NAME", help="only this category")
    listing.add_argument("--json", action="store_true", help="one JSON list")
    show = actions.add("show", "what a skill says")
    show.add_argument("name", metavar="NAME", help="the skill, or category/name")
    show.add_argument("--file", default="", metavar="PATH", help="one of its files")
    show.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Lists or shows."""
    settings = load(arguments)
    settings.home.create()
    action = _list if arguments.action == "list" else _show
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        asyncio.run(action(settings, arguments))
    return 0


async def _list(settings: Settings, arguments: argparse.Namespace) -> None:
    async with connected(settings, ("agent",)) as channels:
        answer = await SkillServiceStub(channels.to("agent")).ListSkills(
            skill_pb2.ListSkillsRequest(
                profile=arguments.profile or "", category=arguments.category
            )
        )
    if arguments.json:
        print_json([_described(skill) for skill in answer.skills])
    elif answer.skills:
        rows = [
            (
                printable(f"{skill.category}/{skill.name}" if skill.category else skill.name),
                _name(skill_pb2.SkillOrigin.Name(skill.origin)),
                _name(skill_pb2.SkillState.Name(skill.usage.state)),
                str(skill.usage.view_count),
                printable(skill.description),
            )
            for skill in answer.skills
        ]
        print_table(("skill", "from", "state", "read", "what it is for"), rows)
    else:
        say("There are no skills yet.")


async def _show(settings: Settings, arguments: argparse.Namespace) -> None:
    async with connected(settings, ("agent",)) as channels:
        answer = await SkillServiceStub(channels.to("agent")).GetSkill(
            skill_pb2.GetSkillRequest(
                profile=arguments.profile or "", name=arguments.name, file_path=arguments.file
            )
        )
    if arguments.json:
        print_json({**_described(answer.skill), "text": answer.text})
        return
    say(printable(answer.text.rstrip("\n")))
    if answer.skill.files and not arguments.file:
        say("\nIts files, for --file:")
        for path in answer.skill.files:
            say(printable(f"  {path}"))


def _described(skill: skill_pb2.Skill) -> dict[str, Any]:
    usage = skill.usage
    return {
        "name": skill.name,
        "category": skill.category,
        "description": skill.description,
        "tags": list(skill.tags),
        "files": list(skill.files),
        "origin": _name(skill_pb2.SkillOrigin.Name(skill.origin)),
        "state": _name(skill_pb2.SkillState.Name(usage.state)),
        "pinned": usage.is_pinned,
        "use_count": usage.use_count,
        "view_count": usage.view_count,
        "patch_count": usage.patch_count,
        "last_used_at": usage.last_used_at or None,
        "last_viewed_at": usage.last_viewed_at or None,
        "last_patched_at": usage.last_patched_at or None,
        "created_at": usage.created_at or None,
    }


def _name(constant: str) -> str:
    return constant.removeprefix("SKILL_ORIGIN_").removeprefix("SKILL_STATE_").lower()
