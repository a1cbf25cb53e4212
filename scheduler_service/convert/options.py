"""Options of jobs on the wire."""

from collections.abc import Iterable, Iterator

from google.protobuf.duration_pb2 import Duration

from hermes.scheduler.v1 import job_options_pb2
from scheduler_service.options import (
    DEFAULT_BACKOFF_S,
    DEFAULT_MAX_MISSED,
    LOCAL,
    ORIGIN,
    JobOptions,
    Missed,
    Overlap,
    Target,
)
from services.validation import MAX_ID_CHARS

_MAX_SCRIPT_BYTES = 64 * 1024
_DAY_S = 86_400
_MOST = {"skills": 20, "context_job_ids": 10, "toolsets": 50, "deliver_to": 10}
_CHARS = {
    "skills": 128,
    "context_job_ids": MAX_ID_CHARS,
    "toolsets": 128,
    "model": 200,
    "workdir": 4096,
}
_NUMBERS = {
    "max_runs": 1_000_000,
    "max_missed_runs": 100,
    "max_retries": 10,
    "budget_micro_usd": 10**15,
    "budget_tokens": 10**15,
}
_DURATIONS_S = {
    "missed_run_grace": (0, 366 * _DAY_S),
    "jitter": (0, _DAY_S),
    "timeout": (1, 7 * _DAY_S),
    "retry_backoff": (1, _DAY_S),
}
_MISSED = {
    job_options_pb2.MISSED_RUN_POLICY_UNSPECIFIED: Missed.ONCE,
    job_options_pb2.MISSED_RUN_POLICY_ONCE: Missed.ONCE,
    job_options_pb2.MISSED_RUN_POLICY_SKIP: Missed.SKIP,
    job_options_pb2.MISSED_RUN_POLICY_ALL: Missed.ALL,
}
_OVERLAP = {
    job_options_pb2.OVERLAP_POLICY_UNSPECIFIED: Overlap.FORBID,
    job_options_pb2.OVERLAP_POLICY_FORBID: Overlap.FORBID,
    job_options_pb2.OVERLAP_POLICY_ALLOW: Overlap.ALLOW,
    job_options_pb2.OVERLAP_POLICY_REPLACE: Overlap.REPLACE,
}
_MODES = (
    job_options_pb2.SCRIPT_MODE_UNSPECIFIED,
    job_options_pb2.SCRIPT_MODE_GATE,
    job_options_pb2.SCRIPT_MODE_ONLY,
)
_MISSED_ON_WIRE = {policy: number for number, policy in _MISSED.items()}
_OVERLAP_ON_WIRE = {policy: number for number, policy in _OVERLAP.items()}


def options_of(message: job_options_pb2.JobOptions) -> JobOptions:
    """Read options that were checked."""
    has_grace = message.HasField("missed_run_grace")
    return JobOptions(
        skills=tuple(message.skills),
        model=message.model,
        script=message.script,
        script_only=is_script_only(message),
        context_job_ids=tuple(message.context_job_ids),
        toolsets=tuple(message.toolsets),
        workdir=message.workdir,
        deliver_to=tuple(
            Target(each.platform, each.chat_id, each.thread_id) for each in message.deliver_to
        ),
        max_runs=message.max_runs,
        missed=_MISSED[message.missed_run_policy],
        max_missed_runs=message.max_missed_runs or DEFAULT_MAX_MISSED,
        missed_grace_s=message.missed_run_grace.seconds if has_grace else None,
        overlap=_OVERLAP[message.overlap_policy],
        jitter_s=message.jitter.seconds,
        timeout_s=message.timeout.seconds,
        max_retries=message.max_retries,
        retry_backoff_s=message.retry_backoff.seconds or DEFAULT_BACKOFF_S,
        budget_micro_usd=message.budget_micro_usd,
        budget_tokens=message.budget_tokens,
    )


def options_to_wire(options: JobOptions) -> job_options_pb2.JobOptions:
    """Return the message of options."""
    only = options.script_only
    mode = job_options_pb2.SCRIPT_MODE_ONLY if only else job_options_pb2.SCRIPT_MODE_GATE
    return job_options_pb2.JobOptions(
        skills=options.skills,
        model=options.model,
        script=options.script,
        script_mode=mode if options.script else job_options_pb2.SCRIPT_MODE_UNSPECIFIED,
        context_job_ids=options.context_job_ids,
        toolsets=options.toolsets,
        workdir=options.workdir,
        deliver_to=[
            job_options_pb2.DeliveryTarget(
                platform=target.platform, chat_id=target.chat_id, thread_id=target.thread_id
            )
            for target in options.deliver_to
        ],
        max_runs=options.max_runs,
        missed_run_policy=_MISSED_ON_WIRE[options.missed],
        max_missed_runs=options.max_missed_runs,
        missed_run_grace=_duration(options.missed_grace_s),
        overlap_policy=_OVERLAP_ON_WIRE[options.overlap],
        jitter=_duration(options.jitter_s or None),
        timeout=_duration(options.timeout_s or None),
        max_retries=options.max_retries,
        retry_backoff=_duration(options.retry_backoff_s),
        budget_micro_usd=options.budget_micro_usd,
        budget_tokens=options.budget_tokens,
    )


def is_script_only(message: job_options_pb2.JobOptions) -> bool:
    """Whether a script is all that runs."""
    return bool(message.script.strip()) and message.script_mode == job_options_pb2.SCRIPT_MODE_ONLY


def wrong_options(message: job_options_pb2.JobOptions) -> dict[str, str]:
    """What is wrong with options, by field."""
    return {f"options.{field}": problem for field, problem in _problems(message)}


def _problems(message: job_options_pb2.JobOptions) -> Iterator[tuple[str, str]]:
    yield from _numbers(message)
    yield from _durations(message)
    yield from _choices(message)
    for name, most in _MOST.items():
        if len(getattr(message, name)) > most:
            yield name, f"must have at most {most}"
    for name, most in _CHARS.items():
        given = getattr(message, name)
        names: Iterable[str] = [given] if isinstance(given, str) else given
        if any(len(each) > most or (names is given and not each.strip()) for each in names):
            yield name, f"must have at most {most} characters"
    if len(message.script.encode()) > _MAX_SCRIPT_BYTES:
        yield "script", f"must have at most {_MAX_SCRIPT_BYTES} bytes"
    if message.script_mode and not message.script.strip():
        yield "script", "must say what to run, where it is said what it is for"
    if message.workdir[:1] not in ("", "/"):
        yield "workdir", "must be an absolute path"
    if problem := _wrong_targets(message.deliver_to):
        yield "deliver_to", problem
    if any("\0" in text for text in _texts(message)):
        yield "script", "and all other texts must have no NUL character"


def _choices(message: job_options_pb2.JobOptions) -> Iterator[tuple[str, str]]:
    if message.script_mode not in _MODES:
        yield "script_mode", "must be GATE or ONLY, or be left out"
    if message.missed_run_policy not in _MISSED:
        yield "missed_run_policy", "must be ONCE, SKIP or ALL, or be left out"
    if message.overlap_policy not in _OVERLAP:
        yield "overlap_policy", "must be FORBID, ALLOW or REPLACE, or be left out"


def _texts(message: job_options_pb2.JobOptions) -> Iterator[str]:
    yield from (message.script, message.model, message.workdir)
    yield from (*message.skills, *message.toolsets, *message.context_job_ids)
    for target in message.deliver_to:
        yield from (target.platform, target.chat_id, target.thread_id)


def _numbers(message: job_options_pb2.JobOptions) -> Iterator[tuple[str, str]]:
    for name, most in _NUMBERS.items():
        if not 0 <= getattr(message, name) <= most:
            yield name, f"must be 0 to {most}"


def _durations(message: job_options_pb2.JobOptions) -> Iterator[tuple[str, str]]:
    for field, given in message.ListFields():
        least, most = _DURATIONS_S.get(field.name, (0, 0))
        if most and (given.nanos or not least <= given.seconds <= most):
            yield field.name, f"must be {least} to {most} seconds, whole ones"


def _wrong_targets(targets: Iterable[job_options_pb2.DeliveryTarget]) -> str:
    given = list(targets)
    for target in given:
        is_word = target.platform in (ORIGIN, LOCAL)
        is_lost = target.thread_id and not target.chat_id
        if not target.platform or (is_word and target.chat_id) or is_lost:
            return (
                'must each be "origin", "local", or a platform with a chat, or with a home channel'
            )
    if len(given) > 1 and any(target.platform == LOCAL for target in given):
        return 'must have nothing else beside "local"'
    return ""


def _duration(seconds: int | None) -> Duration | None:
    return None if seconds is None else Duration(seconds=seconds)
