"""How a job's runs are made: everything about a job that has a default."""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct


class Missed(StrEnum):
    """What becomes of due times that have passed."""

    ONCE = "once"
    """The latest gets the run that makes up for all, unless it is too long ago."""
    SKIP = "skip"
    """None is made up for."""
    ALL = "all"
    """Each gets its run, up to a number."""


class Overlap(StrEnum):
    """What happens to a job that is due while a run of it is under way."""

    FORBID = "forbid"
    """It waits."""
    ALLOW = "allow"
    """It runs beside it."""
    REPLACE = "replace"
    """It takes its place."""


ORIGIN, LOCAL = "origin", "local"
"""Targets that are no platform's."""
HOME_VARIABLES: Mapping[str, str] = {"telegram": "TELEGRAM_HOME_CHANNEL"}
"""What says which chat of a platform is meant where none is named."""
_WHOLE_CHATS = ("!", "@", "#")


class Target(Struct, frozen=True):
    """A place that output goes to."""

    platform: str
    chat_id: str = ""
    thread_id: str = ""

    @classmethod
    def parse(cls, text: str) -> "Target":
        """A target as people write it, such as `telegram:12345:17`."""
        platform, _, chat = text.partition(":")
        if chat.startswith(_WHOLE_CHATS):
            return cls(platform, chat)
        chat, _, thread = chat.partition(":")
        return cls(platform, chat, thread)

    def __str__(self) -> str:
        """As people write it."""
        return ":".join(filter(None, (self.platform, self.chat_id, self.thread_id)))

    @property
    def is_bare(self) -> bool:
        """Whether it is a platform, and no chat of it."""
        return not self.chat_id and self.platform not in (ORIGIN, LOCAL)

    def at_home(self, channels: Mapping[str, str]) -> "Target":
        """The home channel of its platform, where it names no chat and there is one."""
        channel = channels.get(self.platform, "")
        return Target.parse(f"{self.platform}:{channel}") if channel and self.is_bare else self


_Name = Annotated[str, Meta(max_length=128, pattern=r"\A[^\0]*[^\0\s][^\0]*\Z")]
_Limit = Annotated[int, Meta(ge=0, le=10**15)]


class JobOptions(Struct, frozen=True, omit_defaults=True):
    """What a job may ask for its runs, as its message has it; empty is the default."""

    skills: Annotated[tuple[_Name, ...], Meta(max_length=20)] = ()
    model: Annotated[str, Meta(max_length=200)] = ""
    script: str = ""
    script_mode: Literal["", "gate", "only"] = ""
    context_job_ids: Annotated[tuple[_Name, ...], Meta(max_length=10)] = ()
    toolsets: Annotated[tuple[_Name, ...], Meta(max_length=50)] = ()
    workdir: Annotated[str, Meta(max_length=4096)] = ""
    deliver_to: Annotated[tuple[Target, ...], Meta(max_length=10)] = ()
    max_runs: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    missed_run_policy: Missed = Missed.ONCE
    max_missed_runs: Annotated[int, Meta(ge=0, le=100)] = 10
    missed_run_grace: timedelta | None = None
    """None is what is configured."""
    overlap_policy: Overlap = Overlap.FORBID
    jitter: timedelta | None = None
    timeout: timedelta | None = None
    max_retries: Annotated[int, Meta(ge=0, le=10)] = 0
    retry_backoff: timedelta = timedelta(seconds=30)
    budget_micro_usd: _Limit = 0
    budget_tokens: _Limit = 0

    @property
    def script_only(self) -> bool:
        """Whether the script is the whole run, and not what decides whether the agent is asked."""
        return bool(self.script.strip()) and self.script_mode == "only"

    @property
    def unplaced(self) -> str:
        """What to do about a platform that no chat is known of; empty where there is none."""
        bare = next((target.platform for target in self.deliver_to if target.is_bare), "")
        variable = HOME_VARIABLES.get(bare)
        home = f"set {variable} in .env and start Hermes again, or " if variable else ""
        said = f"no chat of {bare} is named, and it has no home channel: {home}say {bare}:CHAT"
        return said if bare else ""

    def at_home(self, channels: Mapping[str, str]) -> "JobOptions":
        """The same with home channels for the platforms that no chat is named of."""
        places = tuple(target.at_home(channels) for target in self.deliver_to)
        return msgspec.structs.replace(self, deliver_to=places)

    @property
    def budget(self) -> tuple[int, int]:
        """Micro-dollars and tokens that its runs may cost and use; 0 is without a limit."""
        return self.budget_micro_usd, self.budget_tokens


_LONGEST_WAIT = timedelta(days=1)


def first_start(job_id: str, scheduled_for: datetime, options: JobOptions) -> datetime | None:
    """Before which the first turn does not start; None is at once."""
    if not options.jitter:
        return None
    # The same whoever asks, and spread evenly over jobs that are due together.
    digest = hashlib.sha256(f"{job_id} {scheduled_for.isoformat()}".encode()).digest()
    return scheduled_for + options.jitter * (int.from_bytes(digest[:8]) / 2**64)


def retry_at(attempt: int, now: datetime, options: JobOptions) -> datetime | None:
    """When a turn is tried again of which so many attempts have failed; None is never."""
    if attempt > options.max_retries:
        return None
    return now + min(options.retry_backoff * 2 ** (attempt - 1), _LONGEST_WAIT)
