"""`/curator`: the curator, which keeps the skill library small and current."""

import re
from functools import partial

from gateway_service.chats.access import Who
from gateway_service.clients import call_scheduler
from gateway_service.commands.base import (
    ALONE,
    Answer,
    Chat,
    Command,
    CommandContext,
    Group,
    Verb,
    code,
    format_time,
    render_list,
    shorten,
    wrong,
)
from hermes.common.v1.curation_pb2 import CurationReport
from hermes.scheduler.v1 import curator_pb2

ROLL_BACK_S = 120.0
"""How long a restore may take."""
WAIT_S = 5.0
"""How long to wait for a run; /curator status shows its result later."""
LOOK_S = 0.5
CHANGES_SHOWN = 10
REPORTS_SHOWN = 5
BACKUPS_SHOWN = 3


async def _curator(context: CommandContext, chat: Chat) -> curator_pb2.Curator:
    request = curator_pb2.GetCuratorRequest(profile=chat.profile)
    return (await call_scheduler(context.scheduler.curators.GetCurator, request)).curator


async def _status(context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    return Answer(_render_status(await _curator(context, chat)))


async def _run(is_dry: bool, context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    request = curator_pb2.RunCuratorRequest(
        profile=chat.profile, run_id=chat.effect_id("cur"), dry_run=is_dry
    )
    waited_s = 0.0
    while True:
        # A repeat finds the same run by its id.
        run = (await call_scheduler(context.scheduler.curators.RunCurator, request)).run
        if run.HasField("finish_time") or waited_s >= WAIT_S:
            break
        await context.clock.sleep(LOOK_S)
        waited_s += LOOK_S
    if run.error:
        return wrong(f"The skills stay as they are: {run.error}")
    if not run.HasField("report"):
        return Answer("The curator is at work; /curator status tells what came of it.")
    return Answer(_render_report(run.report))


_begin, _begin_dry = partial(_run, False), partial(_run, True)


async def _pause(context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    request = curator_pb2.PauseCuratorRequest(profile=chat.profile)
    changed = await call_scheduler(context.scheduler.curators.PauseCurator, request)
    return Answer(_render_status(changed.curator))


async def _resume(context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    request = curator_pb2.ResumeCuratorRequest(profile=chat.profile)
    changed = await call_scheduler(context.scheduler.curators.ResumeCurator, request)
    return Answer(_render_status(changed.curator))


async def _roll_back(context: CommandContext, chat: Chat, arguments: str) -> Answer:
    words = arguments.replace("`", " ").split()
    is_agreed = words[-1:] == ["yes"]
    backup = " ".join(words[:-1] if is_agreed else words)
    if not re.fullmatch(r"[\w.:-]*", backup):
        return wrong("Say /curator rollback BACKUP, one of those that /curator status has.")
    if not is_agreed:
        return await _ask_first(context, chat, backup)
    # A repeat finds the same run by its id, whatever the latest backup is by then.
    request = curator_pb2.RollBackRequest(
        profile=chat.profile, run_id=chat.effect_id("cur"), backup_id=backup
    )
    done = await call_scheduler(context.scheduler.curators.RollBack, request, ROLL_BACK_S)
    return Answer(_render_report(done.report))


async def _ask_first(context: CommandContext, chat: Chat, backup: str) -> Answer:
    there = (await _curator(context, chat)).backup_ids
    if backup not in (*there, "") or not there:
        return wrong(f"there is no backup {backup}".strip())
    which = f"since {backup}" if backup else f"in its latest change, since {there[0]}"
    return Answer(
        f"That undoes what the curator changed {which}. Skills that others made or changed since "
        f"stay as they are. To do it: /curator rollback {backup and f'{backup} '}yes"
    )


async def _reports(context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    request = curator_pb2.ListReportsRequest(profile=chat.profile, page_size=REPORTS_SHOWN + 1)
    found = (await call_scheduler(context.scheduler.curators.ListReports, request)).reports
    if not found:
        return Answer("The curator has not run yet; try /curator dry-run")
    lines = [
        f"{format_time(each.time)}: {shorten(each.summary)}"
        + (f" (backup `{each.backup_id}`)" if each.backup_id else "")
        for each in found
    ]
    return Answer(render_list(lines, "`hermes curator reports` shows them", REPORTS_SHOWN))


def _render_status(found: curator_pb2.Curator) -> str:
    state = "paused" if found.is_paused else "on" if found.is_enabled else "off (curator.enabled)"
    # The first look at a library is recorded like a run.
    last = format_time(found.last_run_time) if found.run_count else "never"
    lines = [f"The curator is **{state}**.", f"- last run: {last}"]
    if found.HasField("next_run_time"):
        lines.append(
            f"- next: {format_time(found.next_run_time)} or later, when nobody talks to me"
        )
    if found.last_summary:
        lines.append(f"- last time: {shorten(found.last_summary, 300)}")
    if found.HasField("latest_run") and not found.latest_run.HasField("finish_time"):
        lines.append("- a run is under way")
    elif found.latest_run.error:
        lines.append(f"- the latest run failed: {shorten(found.latest_run.error, 300)}")
    if found.backup_ids:
        kept = ", ".join(f"`{each}`" for each in found.backup_ids[:BACKUPS_SHOWN])
        lines.append(f"- backups: {kept}; /curator rollback undoes what came after the first")
    return "\n".join(lines)


def _render_report(report: CurationReport) -> str:
    said = f"{'Would be: ' if report.dry_run else ''}{report.summary}"
    parts = [said]
    if report.changes:
        lines = [
            code(f"{each.name}: {each.kind}{f' into {each.into}' if each.into else ''}")
            for each in report.changes
        ]
        parts.append(render_list(lines, "the report has them all", CHANGES_SHOWN))
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
            Verb("run", "look after the skills now", _begin, who=_ADMINS, changes=True),
            Verb("dry-run", "only say what would be done", _begin_dry, who=_ADMINS),
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
