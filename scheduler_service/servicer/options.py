"""What options a job may ask for."""

from collections.abc import Iterable, Iterator

from hermes.scheduler.v1 import job_options_pb2
from scheduler_service.options import LOCAL, ORIGIN
from services.messages import enum_word
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
    for field, value in message.ListFields():
        kind = field.enum_type
        if kind is not None and value not in kind.values_by_number:
            words = ", ".join(enum_word(kind, each.number).upper() for each in kind.values[1:])
            yield field.name, f"must be one of {words}, or be left out"


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
