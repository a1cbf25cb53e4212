"""`/curator`: who keeps the library of skills small and current."""

import re

from gateway_service.authorization import Who
from gateway_service.clients.curators import CuratorInfo, CuratorReport
from gateway_service.commands.base import ALONE, Answer, Chat, Command, Group, Tools, Verb, wrong
from gateway_service.commands.texts import code, listed, moment, shortened

WAIT_S = 5.0
"""How long a run is waited for; later /curator status tells of it."""
LOOK_S = 0.5
CHANGES_SHOWN = 10
REPORTS_SHOWN = 5
BACKUPS_SHOWN = 3


async def _status(tools: Tools, chat: Chat, _arguments: str) -> Answer:
    return Answer(_standing(await tools.clients.curators.get(chat.profile)))


async def _run(tools: Tools, chat: Chat, _arguments: str) -> Answer:
    return await _begin(tools, chat, is_dry=False)


async def _dry_run(tools: Tools, chat: Chat, _arguments: str) -> Answer:
    return await _begin(tools, chat, is_dry=True)


async def _begin(tools: Tools, chat: Chat, *, is_dry: bool) -> Answer:
    run_id = chat.effect_id("cur")
    run = await tools.clients.curators.run(chat.profile, run_id, is_dry=is_dry)
    waited_s = 0.0
    while not run.is_over and waited_s < WAIT_S:
        await tools.clock.sleep(LOOK_S)
        waited_s += LOOK_S
        run = await tools.clients.curators.run(chat.profile, run_id, is_dry=is_dry)
    if run.error:
        return wrong(f"The skills stay as they are: {run.error}")
    if run.report is None:
        return Answer("The curator is at work; /curator status tells what came of it.")
    return Answer(_told(run.report))


async def _pause(tools: Tools, chat: Chat, _arguments: str) -> Answer:
    return Answer(_standing(await tools.clients.curators.pause(chat.profile)))


async def _resume(tools: Tools, chat: Chat, _arguments: str) -> Answer:
    return Answer(_standing(await tools.clients.curators.resume(chat.profile)))


async def _roll_back(tools: Tools, chat: Chat, arguments: str) -> Answer:
    words = arguments.replace("`", " ").split()
    is_agreed = words[-1:] == ["yes"]
    backup = " ".join(words[:-1] if is_agreed else words)
    if not re.fullmatch(r"[\w.:-]*", backup):
        return wrong("Say /curator rollback BACKUP, one of those that /curator status has.")
    if not is_agreed:
        return await _asked(tools, chat, backup)
    # Asked for again, the same run is found by its id, whatever is the latest backup by then.
    report = await tools.clients.curators.roll_back(chat.profile, chat.effect_id("cur"), backup)
    return Answer(_told(report))


async def _asked(tools: Tools, chat: Chat, backup: str) -> Answer:
    """What a roll-back would do."""
    there = (await tools.clients.curators.get(chat.profile)).backup_ids
    if backup not in (*there, "") or not there:
        return wrong(f"there is no backup {backup}".strip())
    which = f"since {backup}" if backup else f"in its latest change, since {there[0]}"
    return Answer(
        f"That undoes what the curator changed {which}. Skills that others made or changed since "
        f"stay as they are. To do it: /curator rollback {backup and f'{backup} '}yes"
    )


async def _reports(tools: Tools, chat: Chat, _arguments: str) -> Answer:
    found = await tools.clients.curators.reports(chat.profile, REPORTS_SHOWN + 1)
    if not found:
        return Answer("The curator has not run yet; try /curator dry-run")
    lines = [
        f"{moment(each.made_at)}: {shortened(each.summary)}"
        + (f" (backup `{each.backup_id}`)" if each.backup_id else "")
        for each in found
    ]
    return Answer(listed(lines, "`hermes curator reports` shows them", REPORTS_SHOWN))


def _standing(found: CuratorInfo) -> str:
    state = "paused" if found.is_paused else "on" if found.is_enabled else "off (curator.enabled)"
    # The first look at a library is noted as if it were a run.
    last = moment(found.last_run_at) if found.run_count else "never"
    lines = [f"The curator is **{state}**.", f"- last run: {last}"]
    if found.next_run_at is not None:
        lines.append(f"- next: {moment(found.next_run_at)} or later, when nobody talks to me")
    if found.last_summary:
        lines.append(f"- last time: {shortened(found.last_summary, 300)}")
    if found.is_running:
        lines.append("- a run is under way")
    elif found.error:
        lines.append(f"- the latest run failed: {shortened(found.error, 300)}")
    if found.backup_ids:
        kept = ", ".join(f"`{each}`" for each in found.backup_ids[:BACKUPS_SHOWN])
        lines.append(f"- backups: {kept}; /curator rollback undoes what came after the first")
    return "\n".join(lines)


def _told(report: CuratorReport) -> str:
    said = f"{'Would be: ' if report.is_dry_run else ''}{report.summary}"
    parts = [said]
    if report.changes:
        lines = [code(each) for each in report.changes]
        parts.append(listed(lines, "the report has them all", CHANGES_SHOWN))
    if report.backup_id:
        parts.append(f"/curator rollback {report.backup_id} undoes it.")
    return "\n\n".join(parts)


_ADMINS = Who.ADMINS

COMMANDS: tuple[Command, ...] = (
    Command(
        "curator",
        Group.KNOWLEDGE,
        "who keeps the skills few and current",
        (
            Verb("status", "when it runs, and what it did", _status, who=_ADMINS),
            Verb("run", "look after the skills now", _run, who=_ADMINS, changes=True),
            Verb("dry-run", "only say what would be done", _dry_run, who=_ADMINS),
            Verb("pause", "let it begin by itself no more", _pause, who=_ADMINS, changes=True),
            Verb("resume", "let it begin by itself again", _resume, who=_ADMINS, changes=True),
            Verb(
                "rollback",
                "undo what the curator has changed",
                _roll_back,
                "[BACKUP] [yes]",
                _ADMINS,
                changes=True,
            ),
            Verb("reports", "what came of its last runs", _reports, who=_ADMINS),
        ),
        "/curator rollback",
        ALONE,
    ),
)
"""Those of this module."""
