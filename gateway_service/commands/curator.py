"""`/curator`: the curator, which keeps the skill library small and current."""

import re
from functools import partial

from gateway_service.chats.access import Who
from gateway_service.clients import call_scheduler
from gateway_service.commands.base import (
    NOT_IN_GROUPS,
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
        return wrong(f"The curator changed nothing: {run.error}")
    if not run.HasField("report"):
        return Answer("The curator is running. /curator status shows the result.")
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
        return wrong("Use /curator rollback BACKUP, with a backup that /curator status lists.")
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
        return wrong(f"There is no backup {backup}.".replace(" .", "."))
    which = f"since {backup}" if backup else f"in its latest change, since {there[0]}"
    return Answer(
        f"This undoes what the curator changed {which}. Skills that others have created or changed "
        f"since then stay as they are. To do it: /curator rollback {backup and f'{backup} '}yes"
    )


async def _reports(context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    request = curator_pb2.ListReportsRequest(profile=chat.profile, page_size=REPORTS_SHOWN + 1)
    found = (await call_scheduler(context.scheduler.curators.ListReports, request)).reports
    if not found:
        return Answer("The curator has not run yet. Try /curator dry-run.")
    lines = [
        f"{format_time(each.time)}: {shorten(each.summary)}"
        + (f" (backup `{each.backup_id}`)" if each.backup_id else "")
        for each in found
    ]
    return Answer(render_list(lines, "`hermes curator reports` shows all reports", REPORTS_SHOWN))


def _render_status(found: curator_pb2.Curator) -> str:
    state = "paused" if found.is_paused else "on" if found.is_enabled else "off (curator.enabled)"
    # The first look at a library is recorded like a run.
    last = format_time(found.last_run_time) if found.run_count else "never"
    lines = [f"The curator is **{state}**.", f"- last run: {last}"]
    if found.HasField("next_run_time"):
        lines.append(
            f"- next run: {format_time(found.next_run_time)} or later, when nobody talks to me"
        )
    if found.last_summary:
        lines.append(f"- result: {shorten(found.last_summary, 300)}")
    if found.HasField("latest_run") and not found.latest_run.HasField("finish_time"):
        lines.append("- a run is in progress")
    elif found.latest_run.error:
        lines.append(f"- the latest run failed: {shorten(found.latest_run.error, 300)}")
    if found.backup_ids:
        kept = ", ".join(f"`{each}`" for each in found.backup_ids[:BACKUPS_SHOWN])
        lines.append(f"- backups: {kept}; /curator rollback undoes the changes since the first")
    return "\n".join(lines)


def _render_report(report: CurationReport) -> str:
    parts = [f"{'Would be: ' if report.dry_run else ''}{report.summary}"]
    if report.changes:
        lines = [
            code(f"{each.name}: {each.kind}{f' into {each.into}' if each.into else ''}")
            for each in report.changes
        ]
        parts.append(render_list(lines, "the report lists all changes", CHANGES_SHOWN))
    if report.backup_id:
        parts.append(f"/curator rollback {report.backup_id} undoes it.")
    return "\n\n".join(parts)


_ADMINS = Who.ADMINS

COMMANDS: tuple[Command, ...] = (
    Command(
        "curator",
        Group.KNOWLEDGE,
        "run, pause and undo the curator, which tidies up skills",
        (
            Verb("status", "show when the curator runs, and its results", _status, who=_ADMINS),
            Verb("run", "run the curator now", _begin, who=_ADMINS, changes=True),
            Verb("dry-run", "show what it would do", _begin_dry, who=_ADMINS),
            Verb("pause", "stop automatic runs", _pause, who=_ADMINS, changes=True),
            Verb("resume", "allow automatic runs again", _resume, who=_ADMINS, changes=True),
            Verb(
                "rollback",
                "undo changes of the curator",
                _roll_back,
                "[BACKUP] [yes]",
                _ADMINS,
                changes=True,
            ),
            Verb("reports", "show the results of its latest runs", _reports, who=_ADMINS),
        ),
        "/curator rollback",
        NOT_IN_GROUPS,
    ),
)
