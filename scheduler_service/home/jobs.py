"""Reads jobs leniently from the `cron/jobs.json` of a home; pure functions."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from scheduler_service.errors import ScheduleError
from scheduler_service.jobs import Job, JobSpec, JobState, LastRun, Origin, RunState
from scheduler_service.options import LOCAL, ORIGIN, JobOptions
from scheduler_service.schedule.schedule import (
    Cron,
    Interval,
    Once,
    Schedule,
    check_zone,
    next_after,
    parse,
    zone_of,
)
from services.errors import InvalidArgument
from services.home.texts import decode_text
from services.validation import convert, denied_commands

KNOWN = frozenset(
    {
        *("id", "name", "prompt", "skills", "skill", "model", "provider", "base_url", "script"),
        *("no_agent", "context_from", "schedule", "schedule_display", "repeat", "enabled", "state"),
        *("created_at", "next_run_at", "last_run_at", "last_status", "last_error", "deliver"),
        *("last_delivery_error", "origin", "enabled_toolsets", "workdir", "paused_at", "options"),
        *("paused_reason", "updated_at"),
    }
)
OPTIONS = "options"
"""The key of job options for which the file format has no key of its own."""

OWN = ("time_zone", "unattended", "sandbox_template", "denied_commands", "pause_reason")
"""The other keys in that object."""

_ID = re.compile(r"[A-Za-z0-9_:-][A-Za-z0-9_.:-]{0,99}")
_NAME_CHARS = 60
_STATES = ("scheduled", "paused", "completed", "error")
_SCRIPT_FOLDERS = re.compile(r"^(?:~/\.hermes/|\./)?(?:scripts/)?")


class ImportContext(Struct, frozen=True):
    """The context in which a job file is read."""

    profile: str
    zone: str
    """The time zone of schedules that name none."""
    now: datetime
    grace: timedelta
    """How late a job that runs once may still run."""
    scripts: Mapping[str, str]
    """The files in the home's `scripts` folder, by relative path."""
    is_paused: bool = False
    """Import all jobs as paused."""


class ReadJob(Struct, frozen=True):
    """A job from a file, or the reason why it was not imported."""

    name: str
    job: Job | None
    notes: tuple[str, ...] = ()
    """Notes for the user; without a job, the reasons."""


def stable_id(profile: str, given: str) -> str:
    """Derive a deterministic id for a job whose own id is invalid or belongs to another profile."""
    digest = hashlib.sha256(f"{profile}\0{given}".encode()).hexdigest()
    return f"job_{digest[:12]}"


class _Problem(Exception):
    """Why a job cannot be imported."""


def read_document(data: bytes, reading: ImportContext) -> list[ReadJob]:
    """Return the jobs of a file in order."""
    text = decode_text(data, "replace")
    if not text.strip():
        return []
    try:
        loaded = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        return [ReadJob("the file", None, (f"it is no JSON: {error}",))]
    listed = cast("dict[str, Any]", loaded).get("jobs") if isinstance(loaded, dict) else loaded
    if not isinstance(listed, list):
        return [ReadJob("the file", None, ('it holds no list of jobs, nor one under "jobs"',))]
    return [_read(number, job, reading) for number, job in enumerate(cast("list[object]", listed))]


def _read(number: int, given: object, reading: ImportContext) -> ReadJob:
    if not isinstance(given, dict):
        return ReadJob(f"number {number + 1}", None, ("it is no object with fields",))
    fields = cast("dict[str, Any]", given)
    shown = _text_of(fields, "name") or _text_of(fields, "id") or f"number {number + 1}"
    notes: list[str] = []
    try:
        job = _job(fields, reading, notes)
    except _Problem as problem:
        return ReadJob(shown, None, (str(problem),))
    unknown = sorted(str(key) for key in fields if key not in KNOWN)
    if unknown:
        notes.append(f"what is not known is left out: {', '.join(unknown)}")
    return ReadJob(job.spec.name, job, tuple(notes))


def _job(given: Mapping[str, Any], reading: ImportContext, notes: list[str]) -> Job:
    own = _part_of(given, OPTIONS)
    said = _read_own(own)
    zone = said.time_zone or reading.zone
    schedule, text = _schedule(given, zone, reading)
    if isinstance(schedule, Cron):
        zone = schedule.zone
    options = _options(given, own, schedule, reading)
    prompt = _text_of(given, "prompt")
    if not prompt.strip() and not options.script_only:
        raise _Problem("it has no prompt")
    name = " ".join(_text_of(given, "name").split())
    spec = replace(
        said,
        name=name or " ".join((prompt or options.script).split())[:_NAME_CHARS],
        prompt=prompt,
        schedule=text,
        time_zone=zone,
        origin=_origin(given),
        options=options,
    )
    completed = _part_of(given, "repeat").get("completed")
    job = Job(
        id=_id(given, reading.profile, f"{spec.name}\0{prompt}\0{text}"),
        profile=reading.profile,
        spec=spec,
        schedule=schedule,
        state=JobState.SCHEDULED,
        next_run_at=None,
        created_at=_time_of(given, "created_at", zone) or reading.now,
        run_count=completed if isinstance(completed, int) and completed > 0 else 0,
        last_run=_last_run(given, zone),
    )
    return _set_state(given, job, reading, notes)


def _set_state(given: Mapping[str, Any], job: Job, reading: ImportContext, notes: list[str]) -> Job:
    state = _text_of(given, "state").lower() or "scheduled"
    if state not in _STATES:
        raise _Problem(f'its state "{state}" is none of {", ".join(_STATES)}')
    over = 0 < job.spec.options.max_runs <= job.run_count
    if state == "completed" or over:
        return replace(job, state=JobState.COMPLETED)
    why = _text_of(given, "paused_reason") if state == "paused" else ""
    if state == "error":
        why = "it had stopped with an error"
    asked = [
        f"{name} {text}" for name in ("provider", "base_url") if (text := _text_of(given, name))
    ]
    if asked:
        why = f"it asks for {' and '.join(asked)}, which jobs cannot choose here; give it a model"
    if why:
        job = replace(job, spec=replace(job.spec, pause_reason=why))
        notes.append(f"it is paused: {why}")
    if why or reading.is_paused or state == "paused" or given.get("enabled") is False:
        return replace(job, state=JobState.PAUSED)
    return _due(given, job, reading)


def _due(given: Mapping[str, Any], job: Job, reading: ImportContext) -> Job:
    known = _time_of(given, "next_run_at", job.spec.time_zone)
    schedule = job.schedule
    if known is not None and known > reading.now:
        due: datetime | None = known
    elif isinstance(schedule, Once):
        due = schedule.at
        if reading.now - due > reading.grace:
            raise _Problem(f"its time has passed: {due.astimezone(ZoneInfo(job.spec.time_zone))}")
    else:
        due = next_after(schedule, reading.now)
    match schedule:
        case Interval(every, anchor) if due is not None and (due - anchor) % every:
            # Keep its rhythm.
            schedule = Interval(every, anchor=due - every)
        case Once() if due is not None:
            schedule = Once(due)
        case _:
            pass
    return replace(job, schedule=schedule, next_run_at=due)


def _schedule(given: Mapping[str, Any], zone: str, reading: ImportContext) -> tuple[Schedule, str]:
    part = _part_of(given, "schedule")
    if isinstance(plain := given.get("schedule"), str):
        return _parse(plain, zone, reading), plain
    kind, shown = _text_of(part, "kind").lower(), _text_of(part, "display")
    match kind:
        case "once":
            at = _time_of(part, "run_at", zone)
            if at is None:
                raise _Problem(f'its time "{_text_of(part, "run_at")}" is no ISO timestamp')
            moment = at.astimezone(ZoneInfo(zone)).isoformat()
            schedule, text = Once(at), shown if shown and OPTIONS in given else moment
        case "interval":
            schedule, text = _interval(part, given, reading)
        case "cron":
            text = _text_of(part, "expr")
            schedule = _parse(text, zone, reading)
        case _:
            raise _Problem(f'its schedule is of no kind once, interval or cron, but "{kind}"')
    # The display text may be just a name, or outdated after an edit.
    with suppress(_Problem):
        means = _parse(shown, zone, reading)
        if isinstance(means, Interval) and isinstance(schedule, Interval):
            means = Interval(means.every, schedule.anchor)
        text = shown if means == schedule else text
    return schedule, text


def _interval(
    part: Mapping[str, Any], given: Mapping[str, Any], reading: ImportContext
) -> tuple[Interval, str]:
    minutes = part.get("minutes")
    if isinstance(minutes, bool) or not isinstance(minutes, int | float):
        raise _Problem(f"its interval is no number of minutes: {minutes!r}")
    try:
        every = timedelta(seconds=round(minutes * 60))
    except (OverflowError, ValueError):
        raise _Problem(f"its interval of {minutes} minutes is too long") from None
    if not timedelta(minutes=1) <= every <= timedelta(days=3660):
        raise _Problem(f"its interval of {minutes} minutes is shorter than one, or too long")
    own = _part_of(given, OPTIONS)
    anchors = (_time_of(own, "anchor_at", "UTC"), _time_of(given, "last_run_at", "UTC"))
    anchor = next((at for at in anchors if at), reading.now).replace(microsecond=0)
    seconds = int(every.total_seconds())
    text = f"every {seconds}s" if seconds % 60 else f"every {seconds // 60}m"
    return Interval(every, anchor), text


def _parse(text: str, zone: str, reading: ImportContext) -> Schedule:
    try:
        return parse(text, zone_of(text, zone), reading.now)
    except ScheduleError as error:
        raise _Problem(str(error)) from None


def _options(
    given: Mapping[str, Any], own: Mapping[str, Any], schedule: Schedule, reading: ImportContext
) -> JobOptions:
    try:
        options = convert(dict(own), JobOptions)
    except msgspec.ValidationError as error:
        raise _Problem(f"its options are not understood: {error}") from None
    script = _script(given, own, reading)
    times = _part_of(given, "repeat").get("times")
    if isinstance(given.get("repeat"), int):
        times = given["repeat"]
    counts = not isinstance(schedule, Once) and isinstance(times, int) and times > 0
    return replace(
        options,
        skills=tuple(dict.fromkeys([*_list_of(given, "skills"), *_list_of(given, "skill")])),
        model=_text_of(given, "model"),
        script=script,
        script_mode="only" if script and given.get("no_agent") is True else "",
        context_job_ids=tuple(dict.fromkeys(_list_of(given, "context_from"))),
        toolsets=tuple(_list_of(given, "enabled_toolsets")),
        workdir=_text_of(given, "workdir"),
        max_runs=times if counts else options.max_runs,
        deliver_to=options.deliver_to or _targets(given),
    )


def _script(given: Mapping[str, Any], own: Mapping[str, Any], reading: ImportContext) -> str:
    """Return the text of a job's script, which most homes keep as a file in `scripts`."""
    named = _text_of(given, "script")
    if not named.strip():
        if given.get("no_agent") is True:
            raise _Problem("it asks no agent and has no script")
        return ""
    path = _SCRIPT_FOLDERS.sub("", named.strip())
    if own.get("script_is_text") is not True and path in reading.scripts:
        return reading.scripts[path]
    if own.get("script_is_text") is True or re.search(r"\s", named.strip()) or "\n" in named:
        return named
    raise _Problem(f"its script {named} is not in the folder scripts of the home")


def _targets(given: Mapping[str, Any]) -> tuple[str, ...]:
    places: list[str] = []
    origin, named = _origin(given), _places(given)
    if named == [LOCAL] and origin is not None:
        return (LOCAL,)
    for target in named:
        if origin is not None and origin.platform == target:
            places.append(ORIGIN)
        elif target != LOCAL:
            places.append(target)
    return () if places == [ORIGIN] else tuple(dict.fromkeys(places))


def _places(given: Mapping[str, Any]) -> list[str]:
    found = given.get("deliver")
    parts = found.split(",") if isinstance(found, str) else _list_of(given, "deliver")
    return [part.strip() for part in parts if part.strip()]


def _origin(given: Mapping[str, Any]) -> Origin | None:
    origin = _part_of(given, "origin")
    platform, chat = _text_of(origin, "platform"), _text_of(origin, "chat_id")
    if not (platform and chat):
        return None
    return Origin(
        platform,
        chat,
        *(_text_of(origin, name) for name in ("thread_id", "user_id", "user_name", "chat_type")),
    )


def _last_run(given: Mapping[str, Any], zone: str) -> LastRun | None:
    at = _time_of(given, "last_run_at", zone)
    error, undelivered = _text_of(given, "last_error"), _text_of(given, "last_delivery_error")
    if at is None:
        return None
    good = not error and not undelivered and _text_of(given, "last_status").lower() != "error"
    return LastRun(at, RunState.SUCCEEDED if good else RunState.FAILED, error, undelivered)


def _id(given: Mapping[str, Any], profile: str, otherwise: str) -> str:
    named = _text_of(given, "id")
    return named if _ID.fullmatch(named) else stable_id(profile, named or otherwise)


def _read_own(own: Mapping[str, Any]) -> JobSpec:
    try:
        said = convert({name: own[name] for name in OWN if name in own}, JobSpec)
        if said.time_zone:
            check_zone(said.time_zone)
        return replace(said, denied_commands=denied_commands(said.denied_commands))
    except (ValueError, InvalidArgument) as error:
        raise _Problem(f"its options are not understood: {error}") from None


# ---- values: an unexpected type counts as missing


def _time_of(part: Mapping[str, Any], name: str, zone: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(_text_of(part, name))
        return (at if at.tzinfo else at.replace(tzinfo=ZoneInfo(zone))).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _part_of(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = given.get(name)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _text_of(part: Mapping[str, Any], name: str) -> str:
    found = part.get(name)
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)  # chat ids of some platforms are numbers
    return found.replace("\0", "") if isinstance(found, str) else ""


def _list_of(part: Mapping[str, Any], name: str) -> list[str]:
    """Return a list of texts, which may also be one text with commas."""
    found = part.get(name)
    if isinstance(found, str):
        return [each.strip() for each in found.split(",") if each.strip()]
    listed: Iterable[object] = cast("list[object]", found) if isinstance(found, list) else ()
    return [each for each in listed if isinstance(each, str) and each.strip()]
