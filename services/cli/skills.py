"""List and show skills, keep or put them away, and have those of others."""

import argparse
import asyncio
from typing import Any

from hermes.agent.v1 import skill_pb2
from hermes.agent.v1.skill_pb2_grpc import SkillServiceStub
from services.cli import skill_hub
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
  hermes skills show arxiv --file references/api.md
  hermes skills pin arxiv
  hermes skills unpin arxiv
  hermes skills archive arxiv
  hermes skills restore arxiv
  hermes skills search pdf --source https://github.com/anthropics/skills
  hermes skills install https://github.com/anthropics/skills pdf
  hermes skills install https://example.com/skills.git@v2#office sheets --dry-run
  hermes skills install https://example.com
  hermes skills install ./my-skills notes --yes
  hermes skills update --all
  hermes skills update pdf --json
  hermes skills remove pdf
  hermes skills audit
  hermes skills export notes --to /tmp/shared
  hermes skills export notes --to /srv/site --index"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes skills`."""
    actions = Actions(
        parser,
        "list|show|pin|unpin|archive|restore|search|install|update|remove|audit|export",
    )
    listing = actions.add("list", "the skills by category")
    listing.add_argument("--category", default="", metavar="NAME", help="only this category")
    listing.add_argument("--json", action="store_true", help="one JSON list")
    show = actions.add("show", "what a skill says")
    show.add_argument("name", metavar="NAME", help="the skill, or category/name")
    show.add_argument("--file", default="", metavar="PATH", help="one of its files")
    show.add_argument("--json", action="store_true", help="one JSON object")
    for name, meaning in _KEEPING.items():
        keep = actions.add(name, meaning)
        keep.add_argument("name", metavar="NAME", help="the skill, or category/name")
        keep.add_argument("--json", action="store_true", help="one JSON object")
    skill_hub.add_actions(actions)


def run(arguments: argparse.Namespace) -> int:
    """Does what is asked for."""
    settings = load(arguments)
    settings.home.create()
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        return asyncio.run(_ACTIONS[arguments.action](settings, arguments))


async def _list(settings: Settings, arguments: argparse.Namespace) -> int:
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
                skill_hub.trust_name(skill.trust),
                _state(skill.usage),
                str(skill.usage.view_count),
                printable(skill.description),
            )
            for skill in answer.skills
        ]
        print_table(("skill", "from", "trust", "state", "read", "what it is for"), rows)
    else:
        say("There are no skills yet.")
    return 0


async def _show(settings: Settings, arguments: argparse.Namespace) -> int:
    async with connected(settings, ("agent",)) as channels:
        answer = await SkillServiceStub(channels.to("agent")).GetSkill(
            skill_pb2.GetSkillRequest(
                profile=arguments.profile or "", name=arguments.name, file_path=arguments.file
            )
        )
    if arguments.json:
        print_json({**_described(answer.skill), "text": answer.text})
        return 0
    say(printable(answer.text.rstrip("\n")))
    if answer.skill.files and not arguments.file:
        say("\nIts files, for --file:")
        for path in answer.skill.files:
            say(printable(f"  {path}"))
    return 0


async def _pin(settings: Settings, arguments: argparse.Namespace) -> int:
    request = skill_pb2.PinSkillRequest(
        profile=arguments.profile or "",
        name=arguments.name,
        is_pinned=arguments.action == "pin",
    )
    async with connected(settings, ("agent",)) as channels:
        answer = await SkillServiceStub(channels.to("agent")).PinSkill(request)
    if arguments.json:
        print_json(_described(answer.skill))
    else:
        what = "stays as it is" if answer.skill.usage.is_pinned else "may change again"
        say(printable(f"{answer.skill.name} {what}"))
    return 0


async def _archive(settings: Settings, arguments: argparse.Namespace) -> int:
    request = skill_pb2.ArchiveSkillRequest(profile=arguments.profile or "", name=arguments.name)
    async with connected(settings, ("agent",)) as channels:
        answer = await SkillServiceStub(channels.to("agent")).ArchiveSkill(request)
    if arguments.json:
        print_json({"name": arguments.name, "path": answer.path})
    else:
        kept = answer.path.rpartition("/")[2]
        say(printable(f"{arguments.name} is put away; hermes skills restore {kept} brings it back"))
    return 0


async def _restore(settings: Settings, arguments: argparse.Namespace) -> int:
    request = skill_pb2.RestoreSkillRequest(profile=arguments.profile or "", name=arguments.name)
    async with connected(settings, ("agent",)) as channels:
        answer = await SkillServiceStub(channels.to("agent")).RestoreSkill(request)
    if arguments.json:
        print_json(_described(answer.skill))
    else:
        say(printable(f"{answer.skill.name} is back"))
    return 0


def _described(skill: skill_pb2.Skill) -> dict[str, Any]:
    usage = skill.usage
    return {
        "name": skill.name,
        "category": skill.category,
        "description": skill.description,
        "tags": list(skill.tags),
        "files": list(skill.files),
        "origin": _name(skill_pb2.SkillOrigin.Name(skill.origin)),
        "trust": skill_hub.trust_name(skill.trust),
        "source": skill.source,
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


def _state(usage: skill_pb2.SkillUsage) -> str:
    state = _name(skill_pb2.SkillState.Name(usage.state))
    return f"{state}, pinned" if usage.is_pinned else state


def _name(constant: str) -> str:
    return constant.removeprefix("SKILL_ORIGIN_").removeprefix("SKILL_STATE_").lower()


_KEEPING = {
    "pin": "have a skill stay as it is, whoever else wants to change it",
    "unpin": "let a pinned skill change again",
    "archive": "put a skill away",
    "restore": "bring a skill back that was put away",
}
_ACTIONS = {
    "list": _list,
    "show": _show,
    "pin": _pin,
    "unpin": _pin,
    "archive": _archive,
    "restore": _restore,
    "search": skill_hub.search,
    "install": skill_hub.install,
    "update": skill_hub.update,
    "remove": skill_hub.remove,
    "audit": skill_hub.audit,
    "export": skill_hub.export,
}
