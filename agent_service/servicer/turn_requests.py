"""Turns on the wire."""

from msgspec import ValidationError

from agent_service.records.requests import (
    COMPRESS,
    JOB,
    REVIEW,
    SUBAGENT,
    Quote,
    Script,
    ScriptMode,
    TurnInfo,
    TurnRequest,
)
from agent_service.servicer.fields import profile_of
from hermes.agent.v1 import turn_pb2
from hermes.common.v1 import content_pb2, origin_pb2
from services.errors import InvalidArgument
from services.home.project_notes import MAX_BYTES, NotesAbove, is_path_above, said
from services.rpc.messages import enum_word, message_of, record_of
from services.validation import check_id, denied_commands

MAX_TURN_ID_CHARS = 100
MAX_TEXT_BYTES = 1024 * 1024
MAX_MODEL_CALLS = 1000
MAX_EPHEMERAL_CHARS = 100_000
MAX_PREFILL = 50
MAX_SCRIPT_BYTES = 64 * 1024
MAX_SKILLS = 20
MAX_SKILL_CHARS = 128

_KINDS = frozenset({"user", JOB, SUBAGENT, COMPRESS, REVIEW})
"""Those that somebody may ask for."""
_TRUST = {origin_pb2.TRUST_OWNER: "owner", origin_pb2.TRUST_SERVICE: "service"}


def turn_request(request: turn_pb2.StartTurnRequest) -> TurnRequest:
    """A checked StartTurn; InvalidArgument names what is wrong."""
    check_id("turn_id", request.turn_id, MAX_TURN_ID_CHARS)
    check_id("session_id", request.session_id)
    text = "\n\n".join(part.text for part in request.parts if part.HasField("text"))
    quoted = [part.quotation for part in request.parts if part.HasField("quotation")]
    quotes = () if request.retries else tuple(map(_quote, quoted))
    script = _script(request) if request.HasField("script") else None
    is_said = bool(text.strip() or quotes) or request.kind == turn_pb2.TURN_KIND_REVIEW
    if not is_said and (script is None or script.mode is not ScriptMode.ONLY):
        raise InvalidArgument("the message is empty", fields={"parts": "at least one with text"})
    if sum(len(said.encode()) for said in (text, *(q.text for q in quotes))) > MAX_TEXT_BYTES:
        raise InvalidArgument("the message is too long", fields={"parts": "at most 1 MiB"})
    kind = enum_word(turn_pb2.TurnKind.DESCRIPTOR, request.kind) or "user"
    if kind not in _KINDS:
        raise InvalidArgument("not to be asked for", fields={"kind": ", ".join(sorted(_KINDS))})
    if not request.origin.platform:
        raise InvalidArgument("no platform", fields={"origin.platform": "must not be empty"})
    if request.retries:
        _check_retry(request)
    if not 0 <= request.max_model_calls <= MAX_MODEL_CALLS:
        raise InvalidArgument("limit out of range", fields={"max_model_calls": "0 to 1000"})
    try:
        return record_of(
            request,
            TurnRequest,
            profile=profile_of(request.profile),
            text=text,
            origin=_origin(request.origin),
            kind=kind,
            toolsets=sorted(request.toolsets),
            ephemeral_system_prompt=_ephemeral(request.overlays),
            prefill=_prefill(request.overlays),
            quotes=quotes,
            speaker=_speaker(request.origin),
            notes_above=_notes_above(request) if request.HasField("context_file") else None,
            script=script,
            skills=_skills(request),
            denied=denied_commands(request.denied_commands),
        )
    except ValidationError as error:
        raise InvalidArgument(f"the request has a value that means nothing: {error}") from None


def _script(request: turn_pb2.StartTurnRequest) -> Script:
    given = request.script
    if request.kind != turn_pb2.TURN_KIND_JOB or request.retries:
        raise InvalidArgument("only jobs have scripts", fields={"script": "only with kind JOB"})
    if request.busy_mode == turn_pb2.BUSY_MODE_STEER:
        raise InvalidArgument("it would not be run", fields={"script": "not with STEER"})
    if not given.text.strip() or "\0" in given.text:
        raise InvalidArgument(
            "the script is empty or has NUL characters", fields={"script.text": "what bash runs"}
        )
    if len(given.text.encode()) > MAX_SCRIPT_BYTES:
        raise InvalidArgument("the script is too long", fields={"script.text": "at most 64 KiB"})
    only = given.mode == turn_pb2.SCRIPT_MODE_ONLY
    return Script(given.text, ScriptMode.ONLY if only else ScriptMode.GATE)


def _skills(request: turn_pb2.StartTurnRequest) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(request.skills))
    fits = all(name.strip() and len(name) <= MAX_SKILL_CHARS for name in names)
    if not fits or len(names) > MAX_SKILLS:
        wanted = f"at most {MAX_SKILLS}, each 1 to {MAX_SKILL_CHARS} characters"
        raise InvalidArgument("these are no skills", fields={"skills": wanted})
    return names


def _quote(quotation: content_pb2.Quotation) -> Quote:
    if not quotation.text.strip():
        raise InvalidArgument("nothing is quoted", fields={"parts.quotation.text": "is empty"})
    if quotation.kind == content_pb2.QUOTATION_KIND_OUTPUT:
        return Quote(quotation.text, quotation.author, is_forwarded=False, is_output=True)
    is_forwarded = quotation.kind != content_pb2.QUOTATION_KIND_ANSWERED
    return Quote(quotation.text, quotation.author, is_forwarded)


def _notes_above(request: turn_pb2.StartTurnRequest) -> NotesAbove:
    given, data = request.context_file, request.context_file.text.encode()
    if not request.workdir:
        raise InvalidArgument("above which folder?", fields={"context_file": "goes with workdir"})
    if not is_path_above(given.path):
        raise InvalidArgument(
            "no notes lie there", fields={"context_file.path": "../.hermes.md or the like"}
        )
    if len(data) > MAX_BYTES:
        raise InvalidArgument(
            "the notes are too long", fields={"context_file.text": "at most 1 MiB"}
        )
    return NotesAbove(given.path, said(data, has_frontmatter=False))


def _speaker(origin: origin_pb2.Origin) -> str:
    return (origin.user_name or origin.user_id) if origin.is_shared else ""


def _ephemeral(overlays: turn_pb2.Overlays) -> str:
    text = overlays.ephemeral_system_prompt
    if len(text) > MAX_EPHEMERAL_CHARS:
        raise InvalidArgument(
            "the instructions are too long",
            fields={"overlays.ephemeral_system_prompt": "at most 100,000 characters"},
        )
    return text


def _prefill(overlays: turn_pb2.Overlays) -> tuple[tuple[str, str], ...]:
    given = overlays.prefill_messages
    fits = all(said.role in {"user", "assistant"} and said.text.strip() for said in given)
    if not fits or len(given) > MAX_PREFILL:
        raise InvalidArgument(
            "these messages cannot be sent first",
            fields={"overlays.prefill_messages": f"at most {MAX_PREFILL}, of user or assistant"},
        )
    return tuple((said.role, said.text) for said in given)


def _check_retry(request: turn_pb2.StartTurnRequest) -> None:
    if request.kind == turn_pb2.TURN_KIND_COMPRESS:
        raise InvalidArgument("it says nothing", fields={"retries": "not with COMPRESS"})
    if request.busy_mode == turn_pb2.BUSY_MODE_STEER:
        raise InvalidArgument("it would join what it repeats", fields={"retries": "not with STEER"})


def turn(info: TurnInfo) -> turn_pb2.Turn:
    """A turn on the wire."""
    return message_of(
        info,
        turn_pb2.Turn,
        turn_id=info.id,
        create_time=info.created_at,
        finish_time=info.finished_at,
    )


def _origin(origin: origin_pb2.Origin) -> dict[str, str]:
    return {
        "platform": origin.platform,
        "chat_id": origin.chat_id,
        "thread_id": origin.thread_id,
        "user_id": origin.user_id,
        "user_name": origin.user_name,
        "chat_type": origin.chat_type or "dm",
        "trust": _TRUST.get(origin.trust, "untrusted"),
    }
