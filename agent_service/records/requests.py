"""What a caller asks of the agent, and what it is told of a turn."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from msgspec import Struct, field, json
from msgspec.structs import asdict, replace

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


_OWN = frozenset(
    {*("allowed", "screened", "notices", "loaded", "traceparent", "untrusted", "asked"), "switched"}
)
"""What the agent makes of a request, and nobody asks for."""


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
    mode: ScriptMode


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
    """Another model answers for the rest of the turn."""

    route: str
    model: str


class TurnRequest(Struct, frozen=True, omit_defaults=True):
    """A turn to start, and what is kept of that with the turn."""

    turn_id: str
    profile: str
    session_id: str
    text: str
    origin: Mapping[str, str]
    """Platform, chat, thread and user; `platform` is always there."""
    kind: str
    busy_mode: BusyMode = BusyMode.INTERRUPT
    max_model_calls: int = 0
    """0 is the configured number."""
    toolsets: tuple[str, ...] = ()
    """Empty means all."""
    model: str = ""
    """Empty is the configured one."""
    system_message: str = ""
    workdir: str = ""
    sandbox_template: str = ""
    """What the session's sandboxes are made from; empty is what is configured."""
    retries: bool = False
    """It says again what its session's last turn said, which is taken back."""
    skip_context_files: bool = False
    """Its session is told neither who the agent is to be nor what its folder says."""
    unattended: Unattended | None = None
    """Read of the kinds that are; None is what is configured."""
    ephemeral_system_prompt: str = ""
    """What its session's requests have behind the prompt."""
    prefill: tuple[tuple[str, str], ...] = ()
    """Roles and texts of what they have before its messages; empty is what is configured."""
    allowed: tuple[str, ...] = ()
    """Toolsets that it gets of those it asks for; empty means all of them."""
    quotes: tuple[Quote, ...] = ()
    screened: tuple[str, ...] = ()
    """Its quotes as the model gets them."""
    notices: tuple[str, ...] = ()
    """What a person is to hear of them."""
    speaker: str = ""
    """The name of whoever says it, where several people share the session."""
    notes_above: NotesAbove | None = None
    """What a folder above its folder says to agents."""
    script: Script | None = None
    """What runs before the model is asked, and says whether it is."""
    skills: tuple[str, ...] = ()
    """Names of skills that the message comes with."""
    loaded: tuple[str, ...] = ()
    """Their texts as the model gets them."""
    denied: tuple[str, ...] = ()
    """Slash commands that whoever says it may not say; once it runs, those of all whose
    words the turn works on by now."""
    untrusted: tuple[str, ...] = ()
    """Where data of others came from that its text may be made of."""
    traceparent: str = ""
    """Of the call that it came with; empty where nobody traces."""
    asked: str = ""
    """The digest of what was asked for, where some of that is a secret and left out."""
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
        return self.allowed or self.toolsets

    def digest(self) -> str:
        """The same for the same request."""
        if self.asked:
            return self.asked
        # Asked again, it is the same turn, also where other toolsets are off by now.
        asked = {name: value for name, value in asdict(self).items() if name not in _OWN}
        return hashlib.sha256(json.encode(asked, order="deterministic")).hexdigest()

    @property
    def words(self) -> str:
        """What its sender says, or where that is nothing, what the sender passes on."""
        return self.text if self.text.strip() or not self.quotes else self.quotes[0].text

    @property
    def steers(self) -> bool:
        """Whether it joins the work in progress."""
        return self.busy_mode is BusyMode.STEER


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


def stored(request: TurnRequest, default_model: str) -> TurnRequest:
    """What is kept of a request with its turn.

    That is the message as the model gets it, always the same, with the skills that it comes with
    and the words of others as screened; and nothing that only the beginning of a session needs.
    """
    name = quoted_name(request.speaker)
    own = f"[{name} writes:]\n{request.text}".rstrip() if name else request.text
    return replace(
        request,
        text="\n\n".join(filter(None, (own, *request.loaded, *request.screened))),
        untrusted=tuple(sorted({*request.untrusted, *map(source_of, request.quotes)})),
        model=request.model or default_model,
        system_message="",
        ephemeral_system_prompt="",
        prefill=(),
        quotes=(),
        screened=(),
        loaded=(),
        notes_above=None,
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
