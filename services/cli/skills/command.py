"""List, show, pin and archive skills, and install and share them."""

import sys

from hermes.agent.v1 import skill_pb2 as pb
from hermes.agent.v1.skill_pb2_grpc import SkillServiceStub
from services.cli.command import JSON_LIST, JSON_OBJECT, Command, Context, action, arg
from services.cli.console import printable, say
from services.cli.output import Column, field_value, print_json
from services.cli.skills.hub import ACTIONS as HUB_ACTIONS
from services.cli.skills.hub import TRUST

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


def _title(skill: pb.Skill) -> str:
    return f"{skill.category}/{skill.name}" if skill.category else skill.name


def _state(skill: pb.Skill) -> str:
    state = str(field_value(skill, "usage.state"))
    return f"{state}, pinned" if skill.usage.is_pinned else state


def _purpose(text: str) -> str:
    """Return a description; on a terminal only its first sentence, as lines are short there."""
    return text.partition(". ")[0] if sys.stdout.isatty() else text


_COLUMNS = (
    Column("skill", _title),
    Column("from", "origin"),
    TRUST,
    Column("state", _state),
    Column("read", "usage.view_count"),
    Column("what it is for", "description", _purpose),
)


async def _list(context: Context) -> None:
    """List skills by category."""
    request = context.request(pb.ListSkillsRequest)
    found = (await context.stub(SkillServiceStub).ListSkills(request)).skills
    named = context.given.category
    where = f" in the category {named}" if named else " yet"
    context.print_list(found, _COLUMNS, f"There are no skills{where}.")


async def _show(context: Context) -> None:
    """Show the text of a skill."""
    request = context.request(pb.GetSkillRequest)
    answer = await context.stub(SkillServiceStub).GetSkill(request)
    if context.given.json:
        print_json(answer)
        return
    say(printable(answer.text.rstrip("\n")))
    if answer.skill.files and not request.file_path:
        say("\nFiles (show one with --file):")
        for path in answer.skill.files:
            say(printable(f"  {path}"))


async def _pin(context: Context) -> None:
    """Protect a skill from changes by the agent and the curator."""
    request = context.request(pb.PinSkillRequest, is_pinned=context.given.action == "pin")
    skill = (await context.stub(SkillServiceStub).PinSkill(request)).skill
    what = "pinned" if skill.usage.is_pinned else "unpinned"
    context.print_value(skill, f"{what} {skill.name}")


async def _archive(context: Context) -> None:
    """Move a skill to the archive."""
    name, request = context.given.name, context.request(pb.ArchiveSkillRequest)
    path = (await context.stub(SkillServiceStub).ArchiveSkill(request)).path
    kept = path.rpartition("/")[2]
    text = f"archived {name}; restore it with: hermes skills restore {kept}"
    context.print_value({"name": name, "path": path}, text)


async def _restore(context: Context) -> None:
    """Restore a skill from the archive."""
    request = context.request(pb.RestoreSkillRequest)
    skill = (await context.stub(SkillServiceStub).RestoreSkill(request)).skill
    context.print_value(skill, f"restored {skill.name}")


_NAME = arg("NAME", "name of the skill, or category/name")
_CATEGORY = arg("--category NAME", "list only this category", default="")
_FILE = arg("--file PATH", "show this file of the skill", field="file_path", default="")
_KEPT = (_NAME, JSON_OBJECT)
COMMAND = Command(
    EXAMPLES,
    (
        action(_list, _CATEGORY, JSON_LIST),
        action(_show, _NAME, _FILE, JSON_OBJECT),
        action(_pin, *_KEPT),
        action(_pin, *_KEPT, name="unpin", help="Allow changes of a pinned skill again."),
        action(_archive, *_KEPT),
        action(_restore, *_KEPT),
        *HUB_ACTIONS,
    ),
    services=("agent",),
)
