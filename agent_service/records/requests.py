"""What a caller asks of the agent, and what it is told of a turn."""

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


COMPRESS = "compress"
"""The kind of a turn that condenses its session's conversation, and adds nothing to it."""


JOB = "job"
"""A run of a scheduled job."""
JOBS = "cron_"
"""What begins the sessions of jobs, which run without anybody."""

SUBAGENT = "subagent"
"""The kind of a turn that does what another one has handed over, and its platform."""

PARENT_SESSION = "parent_session_id"
"""What its origin has as the session of that other one."""
PARENT_TURN = "parent_turn_id"
"""Likewise as its turn."""

NOTICE = "notice"
"""The kind of a turn by which the model is told of what happened, and nobody has said."""

REVIEW = "review"
"""The kind of a turn in which the model looks back at another session, and its platform."""
REVIEW_KIND = "review_kind"
"""What its origin has as what it may change: memory, skills or both."""

UNATTENDED_KINDS = frozenset({JOB, SUBAGENT, NOTICE, REVIEW})
"""Kinds of turns that nobody sits before."""


class Unattended(StrEnum):
    """What becomes of a call that a person would have to allow, where nobody can be asked."""

    DENY = "deny"
    """It is not run, and the model is told so."""
    WAIT = "wait"
    """It waits for a decision from elsewhere."""
    HALT = "halt"
    """It is not run, and the turn ends there."""


class ScriptMode(StrEnum):
    """What a script is for."""

    GATE = "gate"
    """It decides whether the model is asked, and shows it something."""
    ONLY = "only"
    """It is the whole turn."""


class Script(Struct, frozen=True):
    """What runs in a turn's sandbox before anything else."""

    text: str
    mode: ScriptMode = ScriptMode.GATE


class Quote(Struct, frozen=True, omit_defaults=True):
    """Words of somebody else that come with a message."""

    text: str
    author: str
    """A name that may say anything; empty where it is not known."""
    is_forwarded: bool
    """Whoever speaks has passed them on; else the message answers them."""
    is_output: bool = False
    """The author is a job, which has come to them."""


class BusyMode(StrEnum):
    """What happens when the session already has a live turn."""

    INTERRUPT = "interrupt"
    QUEUE = "queue"
    STEER = "steer"


class Switched(Struct, frozen=True):
    """Another model answers for the rest of the turn; what the running call has said is void."""

    route: str
    model: str


class TurnOptions(Struct, frozen=True, omit_defaults=True):
    """How a turn works. Empty means as configured.

    An option stands here and where it is used: requests, rows and running turns carry it, and
    turns that come of a turn inherit it.
    """

    model: str = ""
    toolsets: tuple[str, ...] = ()
    """Those that the turn may use at most; empty means all."""
    max_model_calls: Annotated[int, Meta(ge=0, le=1000)] = 0
    unattended: Unattended | None = None
    """Read in turns of UNATTENDED_KINDS."""
    denied_commands: tuple[str, ...] = ()
    """Slash commands that the sender may not use. While the turn runs, those of everybody whose
    words it works on."""

    def or_else(self, defaults: "TurnOptions") -> "TurnOptions":
        """The same options, with defaults in place of those that are empty."""
        own = zip(astuple(self), astuple(defaults), strict=True)
        return TurnOptions(*(value or default for value, default in own))


class PrefillMessage(Struct, frozen=True):
    """A message that precedes those of a session and was never sent in it."""

    role: Literal["user", "assistant"]
    text: Annotated[str, Meta(pattern=r"\S")]


class RequestOverlays(Struct, frozen=True, omit_defaults=True):
    """What a session's requests have besides its prompt and its messages."""

    ephemeral_system_prompt: Annotated[str, Meta(max_length=100_000)] = ""
    prefill_messages: Annotated[tuple[PrefillMessage, ...], Meta(max_length=50)] = ()
    """Empty means the configured ones."""


class SessionOptions(Struct, frozen=True, omit_defaults=True):
    """How a session begins; read only by the turn that creates it, and not stored with turns."""

    system_message: str = ""
    workdir: str = ""
    sandbox_template: str = ""
    """What its sandboxes are made from; empty means the configured template."""
    skip_context_files: bool = False
    """Leave out SOUL.md and the context files of its folders."""
    overlays: RequestOverlays = RequestOverlays()
    context_file: NotesAbove | None = None
    """What a folder above its folder says to agents."""


class TurnRequest(Struct, frozen=True, omit_defaults=True):
    """A turn to start; stored with the turn."""

    turn_id: str
    profile: str
    session_id: str
    text: str
    origin: Mapping[str, str]
    """Platform, chat, thread and user; `platform` is always there."""
    kind: str
    busy_mode: BusyMode = BusyMode.INTERRUPT
    options: TurnOptions = TurnOptions()
    new_session: SessionOptions = SessionOptions()
    retries: bool = False
    """It repeats its session's last turn, which is taken back."""
    quotes: tuple[Quote, ...] = ()
    speaker: str = ""
    """The sender's name, where several people share the session."""
    script: Script | None = None
    """Runs before the model is asked, and decides whether it is."""
    skills: Annotated[
        tuple[Annotated[str, Meta(max_length=128, pattern=r"\S")], ...], Meta(max_length=20)
    ] = ()
    """Names of skills whose texts join the message."""
    # What follows is added by the agent.
    allowed: tuple[str, ...] = ()
    """The toolsets that the configuration leaves of those in the options; empty means all."""
    screened: tuple[str, ...] = ()
    """The quotes as the model gets them."""
    loaded: tuple[str, ...] = ()
    """The skills' texts as the model gets them."""
    notices: tuple[str, ...] = ()
    """What a person is told with the first answer."""
    untrusted: tuple[str, ...] = ()
    """Sources of data of others that the text may be made of."""
    traceparent: str = ""
    """Of the call that started it; empty without tracing."""
    asked: str = ""
    """The digest of the original request, where secrets were taken out of this one."""
    switched: Switched | None = None
    """The model that has taken over."""

    @property
    def is_script_only(self) -> bool:
        """Whether no model is ever asked."""
        return self.script is not None and self.script.mode is ScriptMode.ONLY

    @property
    def platform(self) -> str:
        """The platform that the message came from."""
        return self.origin["platform"]

    @property
    def parent_session_id(self) -> str:
        """The session that has handed it over; empty where none has."""
        return self.origin.get(PARENT_SESSION, "")

    @property
    def granted(self) -> tuple[str, ...]:
        """The toolsets that it gets; empty means all."""
        return self.allowed or self.options.toolsets

    def inherited(self) -> TurnOptions:
        """The options of turns that come of this one."""
        return replace(self.options, toolsets=self.granted)

    def deny(self, commands: Iterable[str]) -> "TurnRequest":
        """The same request, with more slash commands denied to it."""
        denied = frozenset(self.options.denied_commands).union(commands)
        if denied == frozenset(self.options.denied_commands):
            return self
        options = replace(self.options, denied_commands=tuple(sorted(denied)))
        return replace(self, options=options)

    def digest(self) -> str:
        """The same for the same request, whatever the agent has added to it."""
        if self.asked:
            return self.asked
        asked = {name: value for name, value in asdict(self).items() if name not in _ADDED}
        return hashlib.sha256(json.encode(asked, order="deterministic")).hexdigest()

    @property
    def words(self) -> str:
        """What its sender says, or where that is nothing, what the sender passes on."""
        return self.text if self.text.strip() or not self.quotes else self.quotes[0].text

    @property
    def steers(self) -> bool:
        """Whether it joins the work in progress."""
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
    """Whether this very request has stored it."""

    @property
    def is_finished(self) -> bool:
        """Whether it has ended."""
        return self.finished_at is not None


def stored(request: TurnRequest, defaults: TurnOptions) -> TurnRequest:
    """What is stored of a request: its message as the model gets it, and its effective options."""
    name = quoted_name(request.speaker)
    own = f"[{name} writes:]\n{request.text}".rstrip() if name else request.text
    return replace(
        request,
        text="\n\n".join(filter(None, (own, *request.loaded, *request.screened))),
        untrusted=tuple(sorted({*request.untrusted, *map(source_of, request.quotes)})),
        options=request.options.or_else(defaults),
        new_session=SessionOptions(),
        quotes=(),
        screened=(),
        loaded=(),
    )


def source_of(quote: Quote) -> str:
    """What a quote is to the model."""
    if quote.is_output:
        return OUTPUT
    return FORWARDED if quote.is_forwarded else ANSWERED


def quoted_name(name: str) -> str:
    """A name that somebody chose as text that can be nothing but a name."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return json.encode(plain[:_MAX_NAME_CHARS]).decode() if plain else ""
