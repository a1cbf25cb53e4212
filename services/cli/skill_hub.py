"""Find, install, update, remove, look through and share skills of others."""

import argparse
import asyncio
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hermes.agent.v1 import skill_hub_pb2 as pb
from hermes.agent.v1 import skill_pb2
from hermes.agent.v1.skill_hub_pb2_grpc import SkillHubServiceStub
from services.cli.arguments import Actions
from services.cli.connection import connected
from services.cli.console import complain, counted, print_json, printable, say
from services.cli.progress import StatusLine
from services.cli.standard_input import agreed
from services.cli.tables import print_table
from services.config import Settings
from services.errors import FailedPrecondition, InvalidArgument
from services.home_files import check_path
from services.ids import new_id
from services.streams import open_stream

_DONE = (
    pb.SKILL_OUTCOME_STATUS_INSTALLED,
    pb.SKILL_OUTCOME_STATUS_UPDATED,
    pb.SKILL_OUTCOME_STATUS_UNCHANGED,
)
_WORDS = {
    pb.SKILL_OUTCOME_STATUS_INSTALLED: "installed",
    pb.SKILL_OUTCOME_STATUS_UPDATED: "updated",
    pb.SKILL_OUTCOME_STATUS_UNCHANGED: "unchanged",
    pb.SKILL_OUTCOME_STATUS_ASKS: "not accepted",
    pb.SKILL_OUTCOME_STATUS_REFUSED: "refused",
    pb.SKILL_OUTCOME_STATUS_FAILED: "failed",
}
_SHOWN = 40
"""Findings that a person is shown of a skill; `--json` has all."""


def add_actions(actions: Actions) -> None:
    """The actions of `hermes skills` that are about hubs."""
    search = actions.add("search", "what the hubs of skills.hubs, or a source, have")
    search.add_argument("words", metavar="WORD", nargs="*", help="what it is about, all of it")
    search.add_argument("--source", default="", metavar="SOURCE", help="only this one")
    search.add_argument("--json", action="store_true", help="one JSON object")
    install = actions.add("install", "install skills of a hub, a repository, a site or a folder")
    install.add_argument(
        "source",
        metavar="SOURCE",
        help="HUB/SKILL, a git URL with @REF and #FOLDER, the URL of a site, or a folder",
    )
    install.add_argument("names", metavar="SKILL", nargs="*", help="which of its skills")
    _add_terms(install)
    update = actions.add("update", "bring installed skills to what their sources have")
    update.add_argument("names", metavar="SKILL", nargs="*", help="the skills")
    update.add_argument("--all", action="store_true", help="all that are not pinned")
    _add_terms(update)
    remove = actions.add("remove", "put an installed skill into the archive")
    remove.add_argument("name", metavar="SKILL", help="the skill")
    remove.add_argument("--json", action="store_true", help="one JSON object")
    audit = actions.add("audit", "look again at what is in skills, and whether it has changed")
    audit.add_argument("names", metavar="SKILL", nargs="*", help="the skills (default: installed)")
    audit.add_argument("--json", action="store_true", help="one JSON list")
    export = actions.add("export", "write skills so that others can install them")
    export.add_argument("names", metavar="SKILL", nargs="+", help="the skills")
    export.add_argument(
        "--to", required=True, type=Path, metavar="DIR", help="a folder, new or empty"
    )
    export.add_argument("--index", action="store_true", help="as a site with an index")
    export.add_argument("--json", action="store_true", help="one JSON object")


def _add_terms(action: argparse.ArgumentParser) -> None:
    action.add_argument("--yes", action="store_true", help="accept what asks, once it was shown")
    action.add_argument("--dry-run", action="store_true", help="only say what would be done")
    action.add_argument("--json", action="store_true", help="one JSON list")


async def search(settings: Settings, given: argparse.Namespace) -> int:
    """What can be had."""
    request = pb.SearchHubRequest(
        profile=given.profile or "", words=given.words, source=await _source(given.source)
    )
    async with connected(settings, ("agent",)) as channels:
        stub = SkillHubServiceStub(channels.to("agent"))
        answer = await stub.SearchHub(request, timeout=300)
    if given.json:
        silent = [{"hub": each.name, "reason": each.reason} for each in answer.silent]
        print_json({"skills": list(map(_found, answer.skills)), "silent": silent})
        return 0
    for each in answer.silent:
        complain(f"{each.name} cannot be asked: {each.reason}")
    if not answer.skills:
        say("Nothing was found.")
        return 0
    rows = [
        (
            printable(each.name),
            printable(each.hub),
            trust_name(each.trust),
            "yes" if each.is_installed else "",
            printable(each.description),
        )
        for each in answer.skills
    ]
    print_table(("skill", "hub", "trust", "here", "what it is for"), rows)
    return 0


async def install(settings: Settings, given: argparse.Namespace) -> int:
    """Installs."""
    source = await _source(given.source)
    async with connected(settings, ("agent",)) as channels:
        stub = SkillHubServiceStub(channels.to("agent"))

        def call(names: Sequence[str], consents: Sequence[str]) -> Any:
            return stub.InstallSkills(
                pb.InstallSkillsRequest(
                    profile=given.profile or "",
                    source=source,
                    names=names,
                    consents=consents,
                    dry_run=given.dry_run,
                )
            )

        outcomes = await _made(call(given.names, ()))
        return await _settled(call, outcomes, given)


async def update(settings: Settings, given: argparse.Namespace) -> int:
    """Updates."""
    if bool(given.names) is given.all:
        raise InvalidArgument("say which skills, or --all")
    async with connected(settings, ("agent",)) as channels:
        stub = SkillHubServiceStub(channels.to("agent"))

        def call(names: Sequence[str], consents: Sequence[str]) -> Any:
            return stub.UpdateSkills(
                pb.UpdateSkillsRequest(
                    profile=given.profile or "",
                    names=names,
                    consents=consents,
                    dry_run=given.dry_run,
                )
            )

        outcomes = await _made(call(given.names, ()))
        return await _settled(call, outcomes, given)


async def remove(settings: Settings, given: argparse.Namespace) -> int:
    """Removes."""
    request = pb.RemoveSkillRequest(profile=given.profile or "", name=given.name)
    async with connected(settings, ("agent",)) as channels:
        answer = await SkillHubServiceStub(channels.to("agent")).RemoveSkill(request)
    if given.json:
        print_json({"name": given.name, "status": "removed", "message": answer.message})
    else:
        say(printable(f"removed {given.name}: {answer.message}"))
    return 0


async def audit(settings: Settings, given: argparse.Namespace) -> int:
    """Looks again."""
    request = pb.AuditSkillsRequest(profile=given.profile or "", names=given.names)
    async with connected(settings, ("agent",)) as channels:
        call = SkillHubServiceStub(channels.to("agent")).AuditSkills(request)
        async with open_stream(call):
            outcomes = [answer.outcome async for answer in call]
    if given.json:
        print_json(list(map(_outcome, outcomes)))
    elif not outcomes:
        say("No skills were installed from hubs.")
    else:
        for each in outcomes:
            say(printable(f"{each.name}: {_verdict(each) or 'not looked at'}{_because(each)}"))
            _say_findings(each)
    bad = (pb.SKILL_VERDICT_DANGEROUS,)
    return int(any(each.status not in _DONE or each.verdict in bad for each in outcomes))


async def export(settings: Settings, given: argparse.Namespace) -> int:
    """Writes what is shared."""
    folder = await asyncio.to_thread(lambda: given.to.expanduser().resolve())
    await asyncio.to_thread(_check_empty, folder)
    request = pb.ExportSkillsRequest(
        profile=given.profile or "", names=given.names, as_index=given.index
    )
    files: dict[str, bytes] = {}
    async with connected(settings, ("agent",)) as channels:
        call = SkillHubServiceStub(channels.to("agent")).ExportSkills(request)
        async with open_stream(call):
            async for answer in call:
                files[answer.path] = files.get(answer.path, b"") + answer.data
    await asyncio.to_thread(_write, folder, files)
    if given.json:
        print_json({"folder": str(folder), "files": sorted(files)})
    else:
        say(f"{folder} has {counted(len(files), 'file')} of {counted(len(given.names), 'skill')}")
    return 0


def trust_name(trust: skill_pb2.SkillTrust.ValueType) -> str:
    """How trust is called; empty where a skill is the user's own."""
    if trust == skill_pb2.SKILL_TRUST_UNSPECIFIED:
        return ""
    name = skill_pb2.SkillTrust.Name(trust).removeprefix("SKILL_TRUST_")
    return name.lower().replace("_", "-")


async def _source(text: str) -> str:
    """A source as the agent takes it: folders by their whole path."""
    if text.startswith(("./", "../", "~")) or text in (".", ".."):
        path, hash_, folder = text.partition("#")
        whole = await asyncio.to_thread(lambda: Path(path).expanduser().resolve())
        return f"{whole}{hash_}{folder}"
    return text


async def _made(call: Any) -> list[pb.SkillOutcome]:
    outcomes: list[pb.SkillOutcome] = []
    with StatusLine() as status:
        async with open_stream(call):
            async for answer in call:
                if answer.HasField("outcome"):
                    outcomes.append(answer.outcome)
                else:
                    status.show(printable(answer.step))
    return outcomes


async def _settled(call: Any, outcomes: list[pb.SkillOutcome], given: argparse.Namespace) -> int:
    """Have what asks accepted or not, and say what came of all of it."""
    settled: list[pb.SkillOutcome] = []
    for outcome in outcomes:
        if outcome.status == pb.SKILL_OUTCOME_STATUS_ASKS and not given.dry_run:
            if not given.json:
                _say_asked(outcome)
            if given.yes or await _accepts(outcome, given):
                settled += await _made(call([outcome.name], [outcome.consent]))
                continue
        settled.append(outcome)
    if given.json:
        print_json(list(map(_outcome, settled)))
    else:
        _say_outcomes(settled)
    return int(any(outcome.status not in _DONE for outcome in settled))


async def _accepts(outcome: pb.SkillOutcome, given: argparse.Namespace) -> bool:
    """Whether a person who has seen what was found wants it; nobody there is no."""
    if given.json or not await asyncio.to_thread(sys.stdin.isatty):
        outcome.message = f"{outcome.message}; nobody was asked: --yes accepts what was found"
        return False
    return await agreed(f"Have {outcome.name} all the same?", "say --yes")


def _say_asked(outcome: pb.SkillOutcome) -> None:
    say(printable(f"{outcome.name} of {outcome.source}: {_verdict(outcome)}{_because(outcome)}"))
    _say_findings(outcome)


def _say_outcomes(outcomes: Sequence[pb.SkillOutcome]) -> None:
    if not outcomes:
        say("No skills were installed from hubs.")
    for each in outcomes:
        word = _WORDS.get(each.status, "unknown")
        details = [trust_name(each.trust), _verdict(each), each.version[:12]]
        described = ", ".join(filter(None, details))
        say(
            printable(f"{word} {each.name}{f' ({described})' if described else ''}{_because(each)}")
        )
        if each.status == pb.SKILL_OUTCOME_STATUS_REFUSED:
            _say_findings(each)


def _say_findings(outcome: pb.SkillOutcome) -> None:
    for found in outcome.findings[:_SHOWN]:
        place = f"{found.path}:{found.line}" if found.line else found.path
        verdict = _named(pb.SkillVerdict.Name(found.verdict))
        about = f" ({found.about})" if found.about else ""
        say(printable(f"  {verdict} {place}: {found.family}{about}"))
        if found.text:
            say(printable(f"      {found.text}"))
    if len(outcome.findings) > _SHOWN:
        say(f"  and {len(outcome.findings) - _SHOWN} more; --json has all")


def _because(outcome: pb.SkillOutcome) -> str:
    return f": {outcome.message}" if outcome.message else ""


def _verdict(outcome: pb.SkillOutcome) -> str:
    return _named(pb.SkillVerdict.Name(outcome.verdict))


def _named(constant: str) -> str:
    return constant.removeprefix("SKILL_VERDICT_").removeprefix("UNSPECIFIED").lower()


def _found(skill: pb.HubSkill) -> dict[str, Any]:
    return {
        "name": skill.name,
        "description": skill.description,
        "hub": skill.hub,
        "trust": trust_name(skill.trust),
        "installed": skill.is_installed,
    }


def _outcome(outcome: pb.SkillOutcome) -> dict[str, Any]:
    return {
        "name": outcome.name,
        "status": _WORDS.get(outcome.status, "unknown"),
        "message": outcome.message,
        "source": outcome.source,
        "version": outcome.version,
        "digest": outcome.digest,
        "trust": trust_name(outcome.trust),
        "verdict": _verdict(outcome),
        "findings": [
            {
                "verdict": _named(pb.SkillVerdict.Name(found.verdict)),
                "family": found.family,
                "path": found.path,
                "line": found.line,
                "text": found.text,
            }
            for found in outcome.findings
        ],
        "files": list(outcome.files),
    }


def _check_empty(folder: Path) -> None:
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise FailedPrecondition(f"{folder} is not an empty folder; choose another one")


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """Write them all, and only then give them their place."""
    beside = folder.with_name(f".{folder.name}.{new_id('exp')}")
    try:
        for path, data in files.items():
            check_path("default", path)
            target = beside / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        beside.replace(folder)
    except OSError as error:
        raise FailedPrecondition(f"{folder} cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
