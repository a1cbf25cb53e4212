"""Requests of the agent's callers, and what they are told of a turn."""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta, Struct, field, json
from msgspec.structs import asdict, astuple, replace

from agent_service.records.usage import Usage
from services.home.project_notes import NotesAbove

_MAX_NAME_CHARS = 60

FORWARDED = "a forwarded message"
ANSWERED = "a message of somebody else"
OUTPUT = "what another job came to"
FROM_FILE = "a file that came with a message"

COMPRESS = "compress"
"""The kind of turn that compresses its session's conversation and adds nothing to it."""

JOB = "job"
BATCH = "batch"
"""The platform of the sessions of batches' items."""
JOBS = "cron_"
"""The id prefix of the sessions of jobs."""

SUBAGENT = "subagent"
"""The kind, and platform, of a turn that does what another turn delegated."""

PARENT_SESSION = "parent_session_id"
"""The key in its origin for the delegating session."""
PARENT_TURN = "parent_turn_id"
"""The key in its origin for the delegating turn."""

NOTICE = "notice"
"""The kind of turn that tells the model of an event rather than a person's message."""

REVIEW = "review"
"""The kind, and platform, of a turn that reviews another session."""
REVIEW_KIND = "review_kind"
"""The key in its origin for what it may change: memory, skills or both."""

UNATTENDED_KINDS = frozenset({JOB, SUBAGENT, NOTICE, REVIEW})


class Unattended(StrEnum):
    """What happens to a call that needs permission when nobody can be asked."""

    DENY = "deny"
    """It is not run, and the model is told so."""
    WAIT = "wait"
    """It waits for a decision from elsewhere."""
    HALT = "halt"
    """It is not run, and the turn ends."""


class ScriptMode(StrEnum):
    """What a script is for."""

    GATE = "gate"
    """It decides whether the model is called, and adds to its prompt."""
    ONLY = "only"
    """It is the whole turn."""


class Quote(Struct, frozen=True, omit_defaults=True):
    """Words of another author in a message."""

    text: str
    author: str
    """The name, which may be any text; empty if unknown."""
    is_forwarded: bool
    """The sender forwarded it; else the message replies to it."""
    is_output: bool = False
    """The author is a job, whose output was delivered to the chat."""


class FileKind(StrEnum):
    """What a file is, which decides how it is read."""

    IMAGE = "image"
    VOICE = "voice"
    """The sender's own words."""
    AUDIO = "audio"
    VIDEO = "video"
    DOCUMENT = "document"


class MessageFile(Struct, frozen=True, omit_defaults=True):
    """An uploaded file of a message."""

    sha256: str
    length_bytes: int
    kind: FileKind = FileKind.DOCUMENT
    name: str = ""
    """The sender's name for it, which may be any text."""
    mime_type: str = ""
    is_forwarded: bool = False
    path: str = ""
    """Its path in the workspace; set when its turn is stored."""

    @property
    def is_own_voice(self) -> bool:
        return self.kind is FileKind.VOICE and not self.is_forwarded


class Script(Struct, frozen=True, omit_defaults=True):
    """A script that runs in a turn's sandbox before anything else."""

    text: str
    mode: ScriptMode = ScriptMode.GATE
    files: tuple[MessageFile, ...] = ()
    """They are in the sandbox when it runs, and the model is not told of them."""


class BusyMode(StrEnum):
    """What happens if the session already has a live turn."""

    INTERRUPT = "interrupt"
    QUEUE = "queue"
    STEER = "steer"


class Switched(Struct, frozen=True):
    """Another model answers the rest of the turn; the running call's text is void."""

    route: str
    model: str


class TurnOptions(Struct, frozen=True, omit_defaults=True):
    """How a turn works; empty fields mean the configured value.

    Requests, rows and running turns carry these options, and turns that a turn starts inherit them.
    """

    model: str = ""
    toolsets: tuple[str, ...] = ()
    """The only toolsets that the turn may use; empty means all."""
    max_model_calls: Annotated[int, Meta(ge=0, le=1000)] = 0
    unattended: Unattended | None = None
    """Applies to turns of UNATTENDED_KINDS."""
    denied_commands: tuple[str, ...] = ()
    """Slash commands that the sender, or anybody else whose words join the turn, may not use."""

    def or_else(self, defaults: "TurnOptions") -> "TurnOptions":
        """Return the options with empty fields filled from `defaults`."""
        own = zip(astuple(self), astuple(defaults), strict=True)
        return TurnOptions(*(value or default for value, default in own))


class PrefillMessage(Struct, frozen=True):
    """A message that precedes a session's messages and was never sent in it."""

    role: Literal["user", "assistant"]
    text: Annotated[str, Meta(pattern=r"\S")]


class RequestOverlays(Struct, frozen=True, omit_defaults=True):
    """What a session's requests contain besides its prompt and messages."""

    ephemeral_system_prompt: Annotated[str, Meta(max_length=100_000)] = ""
    prefill_messages: Annotated[tuple[PrefillMessage, ...], Meta(max_length=50)] = ()
    """Empty means the configured ones."""


class SessionOptions(Struct, frozen=True, omit_defaults=True):
    """How a session begins; read only by the turn that creates it, and not stored with turns."""

    system_message: str = ""
    workdir: str = ""
    sandbox_template: str = ""
    """Empty means the configured template."""
    skip_context_files: bool = False
    """Leave out SOUL.md and the context files of its folders."""
    overlays: RequestOverlays = RequestOverlays()
    context_file: NotesAbove | None = None


class TurnRequest(Struct, frozen=True, omit_defaults=True):
    """A turn to start; stored with the turn."""

    turn_id: str
    profile: str
    session_id: str
    text: str
    origin: Mapping[str, str]
    """Platform, chat, thread and user; `platform` is always present."""
    kind: str
    busy_mode: BusyMode = BusyMode.INTERRUPT
    options: TurnOptions = TurnOptions()
    new_session: SessionOptions = SessionOptions()
    retries: bool = False
    """It replaces the session's last turn."""
    quotes: tuple[Quote, ...] = ()
    speaker: str = ""
    """The sender's name, if several people share the session."""
    script: Script | None = None
    skills: Annotated[
        tuple[Annotated[str, Meta(max_length=128, pattern=r"\S")], ...], Meta(max_length=20)
    ] = ()
    """Names of skills whose texts join the message."""
    files: tuple[MessageFile, ...] = ()
    """They are read before the message is stored."""
    is_command: bool = False
    """Its text is a command of the sender for the sandbox; no model is called."""
    # The agent sets the fields below.
    allowed: tuple[str, ...] = ()
    """The toolsets of the options that the configuration permits; empty means all."""
    screened: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    """Notices for the person, shown with the first answer."""
    untrusted: tuple[str, ...] = ()
    """Sources of untrusted data that the text may contain."""
    traceparent: str = ""
    """From the call that started it; empty without tracing."""
    asked: str = ""
    """The digest of the original request, if secrets were removed from this one."""
    switched: Switched | None = None

    @property
    def is_script_only(self) -> bool:
        return self.script is not None and self.script.mode is ScriptMode.ONLY

    @property
    def all_files(self) -> tuple[MessageFile, ...]:
        """Return the files of the message and of the script."""
        return self.files if self.script is None else (*self.files, *self.script.files)

    @property
    def is_of_one_person(self) -> bool:
        """Return whether it answers a person in a chat that nobody else reads."""
        return self.kind == "user" and self.is_private

    @property
    def is_private(self) -> bool:
        """Return whether nobody else reads the chat."""
        return not self.speaker and self.origin.get("chat_type", "dm") == "dm"

    @property
    def platform(self) -> str:
        return self.origin["platform"]

    @property
    def model(self) -> str:
        """Return the model that answers."""
        return self.options.model if self.switched is None else self.switched.model

    @property
    def parent_session_id(self) -> str:
        """Return the delegating session; empty if there is none."""
        return self.origin.get(PARENT_SESSION, "")

    @property
    def granted(self) -> tuple[str, ...]:
        """Return the toolsets that it may use; empty means all."""
        return self.allowed or self.options.toolsets

    def inherited(self) -> TurnOptions:
        return replace(self.options, toolsets=self.granted)

    def deny(self, commands: Iterable[str]) -> "TurnRequest":
        denied = frozenset(self.options.denied_commands).union(commands)
        if denied == frozenset(self.options.denied_commands):
            return self
        options = replace(self.options, denied_commands=tuple(sorted(denied)))
        return replace(self, options=options)

    def digest(self) -> str:
        """Return a digest that ignores what the agent has added to the request."""
        if self.asked:
            return self.asked
        asked = {name: value for name, value in asdict(self).items() if name not in _ADDED}
        return hashlib.sha256(json.encode(asked, order="deterministic")).hexdigest()

    @property
    def words(self) -> str:
        """Return the sender's words, or if there are none, what the sender forwarded."""
        return self.text if self.text.strip() or not self.quotes else self.quotes[0].text

    @property
    def steers(self) -> bool:
        return self.busy_mode is BusyMode.STEER


_ADDED = frozenset(TurnRequest.__struct_fields__[TurnRequest.__struct_fields__.index("allowed") :])


class TurnInfo(Struct, frozen=True):
    """A turn as its callers see it."""

    id: str
    session_id: str
    kind: str
    state: str
    created_at: datetime
    finished_at: datetime | None
    attempt: int
    last_sequence: int
    owner: str | None = None
    owner_endpoint: str = ""
    usage: Usage = field(default_factory=Usage)
    is_new: bool = False

    @property
    def is_finished(self) -> bool:
        return self.finished_at is not None


def stored(request: TurnRequest, defaults: TurnOptions) -> TurnRequest:
    """Return a request as stored: with screened texts and effective options."""
    name = quoted_name(request.speaker)
    own = f"[{name} writes:]\n{request.text}".rstrip() if name else request.text
    return replace(
        request,
        text="\n\n".join(filter(None, (own, *request.loaded, *request.screened))),
        untrusted=tuple(sorted({*request.untrusted, *_sources(request)})),
        options=request.options.or_else(defaults),
        new_session=SessionOptions(),
        quotes=(),
        screened=(),
        loaded=(),
    )


def _sources(request: TurnRequest) -> set[str]:
    from_files = {FROM_FILE for file in request.files if not file.is_own_voice}
    return {*map(source_of, request.quotes), *from_files}


def source_of(quote: Quote) -> str:
    """Return a quote's description for the model."""
    if quote.is_output:
        return OUTPUT
    return FORWARDED if quote.is_forwarded else ANSWERED


def quoted_name(name: str) -> str:
    """Return a name that anybody may have chosen as text that is safe in a prompt."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return json.encode(plain[:_MAX_NAME_CHARS]).decode() if plain else ""
