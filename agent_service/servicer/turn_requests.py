"""Turns on the wire."""

import re
from collections.abc import Sequence

from msgspec import ValidationError
from msgspec.structs import replace

from agent_service.records.requests import (
    COMPRESS,
    JOB,
    REVIEW,
    SUBAGENT,
    BusyMode,
    FileKind,
    MessageFile,
    Quote,
    Script,
    SessionOptions,
    TurnInfo,
    TurnOptions,
    TurnRequest,
)
from agent_service.servicer.fields import profile_of
from hermes.agent.v1 import turn_pb2
from hermes.common.v1 import content_pb2, origin_pb2
from services.errors import InvalidArgument
from services.home.project_notes import MAX_BYTES, NotesAbove, clean_notes, is_path_above
from services.rpc.messages import enum_word, message_of, record_of
from services.rpc.uploads import wrong_contents
from services.validation import check_id, denied_commands

MAX_TURN_ID_CHARS = 100
MAX_TEXT_BYTES = 1024 * 1024
MAX_SCRIPT_BYTES = 64 * 1024
MAX_FILES = 20
MAX_NAME_CHARS = 255

_KINDS = frozenset({"user", JOB, SUBAGENT, COMPRESS, REVIEW})
_MIME_TYPE = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}")
_TRUST = {origin_pb2.TRUST_OWNER: "owner", origin_pb2.TRUST_SERVICE: "service"}


def turn_request(request: turn_pb2.StartTurnRequest) -> TurnRequest:
    """Return a StartTurn request as a record; InvalidArgument if it is not valid."""
    check_id("turn_id", request.turn_id, MAX_TURN_ID_CHARS)
    check_id("session_id", request.session_id)
    # Sorted, so that the same request has the same digest.
    sets = {
        "toolsets": sorted(request.toolsets),
        "denied_commands": denied_commands(request.denied_commands),
    }
    parts = [part.file for part in request.parts if part.HasField("file")]
    try:
        asked = record_of(
            request,
            TurnRequest,
            profile=profile_of(request.profile),
            kind=enum_word(turn_pb2.TurnKind.DESCRIPTOR, request.kind) or "user",
            text="\n\n".join(part.text for part in request.parts if part.HasField("text")),
            quotes=() if request.retries else _quotes(request),
            files=() if request.retries else _files(parts),
            script=_script(request),
            speaker=_speaker(request.origin),
            origin=_origin(request.origin),
            skills=list(dict.fromkeys(request.skills)),
            options=record_of(request, TurnOptions, **sets),
            new_session=record_of(request, SessionOptions),
        )
    except ValidationError as error:
        raise _refusal(error) from None
    _check_words(asked)
    _check_kind(asked)
    if asked.files and asked.steers:
        asked = replace(asked, busy_mode=BusyMode.QUEUE)
    if asked.script is not None:
        _check_script(asked)
    if asked.new_session.context_file is None:
        return asked
    notes = _notes_above(asked.new_session)
    return replace(asked, new_session=replace(asked.new_session, context_file=notes))


def _refusal(error: ValidationError) -> InvalidArgument:
    what, _, where = str(error).partition(" - at ")
    field = ".".join(re.findall(r"\w*[A-Za-z_]\w*", where))
    return InvalidArgument(f"{field or 'the request'} is not valid: {what}", fields={field: what})


def _check_words(asked: TurnRequest) -> None:
    is_said = bool(asked.text.strip() or asked.quotes or asked.files) or asked.kind == REVIEW
    if not is_said and not asked.is_script_only:
        raise InvalidArgument("the message is empty", fields={"parts": "at least one with text"})
    texts = (asked.text, *(quote.text for quote in asked.quotes))
    if sum(len(text.encode()) for text in texts) > MAX_TEXT_BYTES:
        raise InvalidArgument("the message is too long", fields={"parts": "at most 1 MiB"})


def _check_kind(asked: TurnRequest) -> None:
    if asked.kind not in _KINDS:
        raise InvalidArgument("not to be asked for", fields={"kind": ", ".join(sorted(_KINDS))})
    if not asked.platform:
        raise InvalidArgument("no platform", fields={"origin.platform": "must not be empty"})
    if asked.files and (asked.kind in (COMPRESS, REVIEW) or asked.is_script_only):
        raise InvalidArgument("nobody reads it", fields={"parts.file": "only in messages"})
    if asked.is_command and (asked.kind != "user" or asked.files or asked.retries):
        raise InvalidArgument("it is no command", fields={"is_command": "only with a USER's text"})
    if asked.retries and asked.kind == COMPRESS:
        raise InvalidArgument("it says nothing", fields={"retries": "not with COMPRESS"})
    if asked.retries and asked.steers:
        raise InvalidArgument("it would join what it repeats", fields={"retries": "not with STEER"})


def _check_script(asked: TurnRequest) -> None:
    assert asked.script is not None
    text = asked.script.text
    if asked.kind != JOB or asked.retries:
        raise InvalidArgument("only jobs have scripts", fields={"script": "only with kind JOB"})
    if asked.steers:
        raise InvalidArgument("it would not be run", fields={"script": "not with STEER"})
    if not text.strip() or "\0" in text:
        raise InvalidArgument(
            "the script is empty or has NUL characters", fields={"script.text": "what bash runs"}
        )
    if len(text.encode()) > MAX_SCRIPT_BYTES:
        raise InvalidArgument("the script is too long", fields={"script.text": "at most 64 KiB"})


def _quotes(request: turn_pb2.StartTurnRequest) -> list[Quote]:
    return [_quote(part.quotation) for part in request.parts if part.HasField("quotation")]


def _quote(quotation: content_pb2.Quotation) -> Quote:
    if not quotation.text.strip():
        raise InvalidArgument("nothing is quoted", fields={"parts.quotation.text": "is empty"})
    if quotation.kind == content_pb2.QUOTATION_KIND_OUTPUT:
        return Quote(quotation.text, quotation.author, is_forwarded=False, is_output=True)
    is_forwarded = quotation.kind != content_pb2.QUOTATION_KIND_ANSWERED
    return Quote(quotation.text, quotation.author, is_forwarded)


def _script(request: turn_pb2.StartTurnRequest) -> Script | None:
    if not request.HasField("script"):
        return None
    return record_of(request.script, Script, files=_files(request.script.files))


def _files(files: Sequence[content_pb2.MessageFile]) -> list[MessageFile]:
    if len(files) > MAX_FILES:
        raise InvalidArgument("too many files", fields={"parts": f"at most {MAX_FILES} files"})
    return list(map(_file, files))


def _file(file: content_pb2.MessageFile) -> MessageFile:
    if wrong := wrong_contents(file.length_bytes, file.sha256):
        fields = {f"parts.file.{field}": problem for field, problem in wrong.items()}
        raise InvalidArgument("the file is not valid", fields=fields)
    kind = enum_word(content_pb2.FileKind.DESCRIPTOR, file.kind)
    mime_type = file.mime_type.partition(";")[0].strip()
    return MessageFile(
        sha256=file.sha256.hex(),
        length_bytes=file.length_bytes,
        kind=FileKind(kind) if kind in list(FileKind) else FileKind.DOCUMENT,
        name=file.name[:MAX_NAME_CHARS],
        mime_type=mime_type if _MIME_TYPE.fullmatch(mime_type) else "",
        is_forwarded=file.is_forwarded,
    )


def _notes_above(begun: SessionOptions) -> NotesAbove:
    given = begun.context_file
    assert given is not None
    data = given.text.encode()
    if not begun.workdir:
        raise InvalidArgument("above which folder?", fields={"context_file": "goes with workdir"})
    if not is_path_above(given.path):
        raise InvalidArgument(
            "no notes lie there", fields={"context_file.path": "../.hermes.md or the like"}
        )
    if len(data) > MAX_BYTES:
        raise InvalidArgument(
            "the notes are too long", fields={"context_file.text": "at most 1 MiB"}
        )
    return NotesAbove(given.path, clean_notes(data, has_frontmatter=False))


def _speaker(origin: origin_pb2.Origin) -> str:
    return (origin.user_name or origin.user_id) if origin.is_shared else ""


def turn(info: TurnInfo) -> turn_pb2.Turn:
    """Return a turn on the wire."""
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
