"""Find, install, update, remove, look through and share skills of others."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hermes.agent.v1 import skill_hub_pb2 as pb
from hermes.agent.v1 import skill_pb2
from hermes.agent.v1.skill_hub_pb2_grpc import SkillHubServiceStub
from services.amounts import plural
from services.cli.command import DRY_RUN, JSON_LIST, JSON_OBJECT, Context, action, arg, flag
from services.cli.console import StatusLine, complain, printable, say
from services.cli.home.folders import Target
from services.cli.output import Column, field_value, print_json, print_rows
from services.cli.standard_input import agreed
from services.errors import InvalidArgument
from services.home.paths import DEFAULT_PROFILE
from services.rpc.streams import open_stream

_DONE = (
    pb.SKILL_OUTCOME_STATUS_INSTALLED,
    pb.SKILL_OUTCOME_STATUS_UPDATED,
    pb.SKILL_OUTCOME_STATUS_UNCHANGED,
)


def _trust(message: pb.SkillOutcome | pb.HubSkill | skill_pb2.Skill) -> str:
    """Return the word for trust; empty for the user's own skills."""
    return str(field_value(message, "trust") or "").replace("_", "-")


def _status(outcome: pb.SkillOutcome) -> str:
    word = str(field_value(outcome, "status") or "unknown")
    return "not accepted" if word == "asks" else word


def _verdict(message: pb.SkillOutcome | pb.SkillFinding) -> str:
    return str(field_value(message, "verdict") or "")


TRUST = Column("trust", _trust)
_FOUND = (
    Column("skill", "name"),
    Column("hub"),
    TRUST,
    Column("here", "is_installed", lambda it: "yes" if it else ""),
    Column("what it is for", "description"),
)


async def _search(context: Context) -> None:
    """Search the hubs in skills.hubs, or one source."""
    given = context.given
    request = context.request(pb.SearchHubRequest, source=await _source(given.source))
    answer = await context.stub(SkillHubServiceStub).SearchHub(request, timeout=300)
    if given.json:
        print_json(answer)
        return
    for each in answer.silent:
        complain(f"cannot search {each.name}: {each.reason}")
    print_rows(answer.skills, _FOUND, "No skill matches.")


async def _install(context: Context) -> int:
    """Install skills from a hub, a git repository or a site."""
    source = await _source(context.given.source)
    request = context.request(pb.InstallSkillsRequest, source=source)
    return await _settle(context, context.stub(SkillHubServiceStub).InstallSkills, request)


async def _update(context: Context) -> int:
    """Update installed skills from their sources."""
    given = context.given
    if bool(given.names) is given.all:
        raise InvalidArgument("give the names of skills or --all")
    request = context.request(pb.UpdateSkillsRequest)
    return await _settle(context, context.stub(SkillHubServiceStub).UpdateSkills, request)


async def _remove(context: Context) -> None:
    """Remove an installed skill; the archive keeps a copy."""
    name, request = context.given.name, context.request(pb.RemoveSkillRequest)
    message = (await context.stub(SkillHubServiceStub).RemoveSkill(request)).message
    removed = {"name": name, "status": "removed", "message": message}
    context.print_value(removed, f"removed {name}: {message}")


async def _audit(context: Context) -> int:
    """Scan skills again, and check whether their files have changed."""
    call = context.stub(SkillHubServiceStub).AuditSkills(context.request(pb.AuditSkillsRequest))
    async with open_stream(call):
        outcomes = [answer.outcome async for answer in call]
    if context.given.json:
        print_json(outcomes)
    elif not outcomes:
        say("No skills are installed from hubs.")
    else:
        for each in outcomes:
            say(printable(f"{each.name}: {_verdict(each) or 'not scanned'}{_because(each)}"))
            _say_findings(each)
    bad = pb.SKILL_VERDICT_DANGEROUS
    return int(any(each.status not in _DONE or each.verdict == bad for each in outcomes))


async def _export(context: Context) -> None:
    """Export skills so that others can install them."""
    given, target, path = context.given, Target(context.given.to), ""
    target.check()
    request = context.request(pb.ExportSkillsRequest)
    call = context.stub(SkillHubServiceStub).ExportSkills(request)
    async with open_stream(call):
        with target.replace_files(0o755):
            async for answer in call:
                if answer.path != path:
                    path = answer.path
                    target.begin(DEFAULT_PROFILE, path, 0o644)
                target.write(answer.data)
    folder, files = str(target.folder), sorted(target.modes)
    text = (
        f"exported {plural(len(given.names), 'skill')} ({plural(len(files), 'file')}) to {folder}"
    )
    context.print_value({"folder": folder, "files": files}, text)


async def _source(text: str) -> str:
    """Return a source for the agent: local repositories by absolute path."""
    if text.startswith(("./", "../", "~")) or text in (".", ".."):
        path, hash_, folder = text.partition("#")
        whole = await asyncio.to_thread(lambda: Path(path).expanduser().resolve())
        return f"{whole}{hash_}{folder}"
    return text


async def _settle(
    context: Context, method: Any, request: pb.InstallSkillsRequest | pb.UpdateSkillsRequest
) -> int:
    """Send a request, confirm what needs it, and report all results."""
    given = context.given
    settled: list[pb.SkillOutcome] = []
    for outcome in await _collect(method(request)):
        if outcome.status == pb.SKILL_OUTCOME_STATUS_ASKS and not given.dry_run:
            if not given.json:
                text = f"{_verdict(outcome)}{_because(outcome)}"
                say(printable(f"{outcome.name} of {outcome.source}: {text}"))
                _say_findings(outcome)
            if given.yes or await _accepts(context, outcome):
                del request.names[:], request.consents[:]
                request.names.append(outcome.name)
                request.consents.append(outcome.consent)
                settled += await _collect(method(request))
                continue
        settled.append(outcome)
    if given.json:
        print_json(settled)
    else:
        _say_outcomes(settled)
    return int(any(outcome.status not in _DONE for outcome in settled))


async def _collect(call: Any) -> list[pb.SkillOutcome]:
    outcomes: list[pb.SkillOutcome] = []
    with StatusLine() as status:
        async with open_stream(call):
            async for answer in call:
                if answer.HasField("outcome"):
                    outcomes.append(answer.outcome)
                else:
                    status.show(printable(answer.step))
    return outcomes


async def _accepts(context: Context, outcome: pb.SkillOutcome) -> bool:
    """Ask a person to accept the findings; without a terminal the answer is no."""
    if context.given.json or not await asyncio.to_thread(sys.stdin.isatty):
        outcome.message = f"{outcome.message}; use --yes to accept the findings"
        return False
    return await agreed(f"Install {outcome.name} anyway?", "use --yes")


def _say_outcomes(outcomes: Sequence[pb.SkillOutcome]) -> None:
    if not outcomes:
        say("No skills are installed from hubs.")
    for each in outcomes:
        details = ", ".join(filter(None, (_trust(each), _verdict(each), each.version[:12])))
        described = f" ({details})" if details else ""
        say(printable(f"{_status(each)} {each.name}{described}{_because(each)}"))
        if each.status == pb.SKILL_OUTCOME_STATUS_REFUSED:
            _say_findings(each)


def _say_findings(outcome: pb.SkillOutcome) -> None:
    for found in outcome.findings:
        place = f"{found.path}:{found.line}" if found.line else found.path
        about = f" ({found.about})" if found.about else ""
        say(printable(f"  {_verdict(found)} {place}: {found.family}{about}"))
        if found.text:
            say(printable(f"      {found.text}"))


def _because(outcome: pb.SkillOutcome) -> str:
    return f": {outcome.message}" if outcome.message else ""


_ACCEPT = flag("--yes", "accept findings without asking; they are still shown")
_TERMS = (_ACCEPT, DRY_RUN, JSON_LIST)
_TO = arg("--to DIR", "new or empty folder", Path, required=True)
_SOURCE = "HUB/SKILL, a git URL or path with @REF and #FOLDER, or the URL of a site"
ACTIONS = (
    action(
        _search,
        arg("WORD*", "words to search for; all must match", field="words"),
        arg("--source SOURCE", "search only this source", default=""),
        JSON_OBJECT,
    ),
    action(
        _install,
        arg("SOURCE", _SOURCE),
        arg("SKILL*", "skills to install (all)", field="names"),
        *_TERMS,
    ),
    action(
        _update,
        arg("SKILL*", "names of the skills", field="names"),
        flag("--all", "update all skills that are not pinned"),
        *_TERMS,
    ),
    action(_remove, arg("SKILL", "name of the skill", field="name"), JSON_OBJECT),
    action(
        _audit,
        arg("SKILL*", "names of the skills (all that are installed from hubs)", field="names"),
        JSON_LIST,
    ),
    action(
        _export,
        arg("SKILL+", "names of the skills", field="names"),
        _TO,
        flag("--index", "write a site with an index", field="as_index"),
        JSON_OBJECT,
    ),
)
