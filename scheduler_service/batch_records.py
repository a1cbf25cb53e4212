"""Records of batches and their items."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from services.database.leases import Lease

DEFAULT_WORKERS = 8


class BatchState(StrEnum):
    """The state of a batch."""

    UPLOADING = "UPLOADING"
    """Its items are being stored; not shown."""
    RUNNING = "RUNNING"
    WAITING = "WAITING"
    """Goes on by itself once the model's provider takes more calls."""
    STOPPED = "STOPPED"
    BUDGET_REACHED = "BUDGET_REACHED"
    COMPLETED = "COMPLETED"


class ItemState(StrEnum):
    """The state of an item; a pending one with a lease is being worked on."""

    PENDING = "PENDING"
    COMPLETED = "COMPLETED"
    LIMIT_REACHED = "LIMIT_REACHED"
    FAILED = "FAILED"


class BatchOptions(Struct, frozen=True, omit_defaults=True):
    """How the items of a batch are worked on."""

    worker_count: int = DEFAULT_WORKERS
    model: str = ""
    max_model_calls: int = 0
    budget_micro_usd: int = 0
    """0 is no limit."""
    sandbox_template: str = ""
    distribution: str = ""
    seed: int = 0


class PromptFile(Struct, frozen=True, omit_defaults=True):
    """A file that was uploaded to the agent."""

    kind: str = ""
    name: str = ""
    mime_type: str = ""
    length_bytes: int = 0
    sha256: bytes = b""


class BatchPrompt(Struct, frozen=True, omit_defaults=True):
    """What is asked in an item."""

    item_id: str = ""
    prompt: str = ""
    files: tuple[PromptFile, ...] = ()
    setup: str = ""
    check: str = ""
    tags: tuple[str, ...] = ()
    toolsets: tuple[str, ...] = ()
    setup_files: tuple[PromptFile, ...] = ()
    check_files: tuple[PromptFile, ...] = ()


class Usage(Struct, frozen=True, omit_defaults=True):
    """What model calls used."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost_micro_usd: int = 0
    call_count: int = 0
    cache_write_tokens: int = 0


class ToolUse(Struct, frozen=True):
    """What one tool did in an item."""

    name: str
    call_count: int = 0
    failure_count: int = 0
    duration_ms: int = 0


class ItemResult(Struct, frozen=True, omit_defaults=True):
    """What came of an item."""

    answer: str = ""
    error: str = ""
    finish_reason: str = ""
    score: float | None = None
    check_output: str = ""
    usage: Usage = Usage()
    tools: Sequence[ToolUse] = ()
    model: str = ""


class Batch(Struct, frozen=True):
    """A batch, with the sums over its items."""

    id: str
    profile: str
    name: str
    digest: str
    state: BatchState
    options: BatchOptions
    created_at: datetime
    item_count: int
    reason: str = ""
    finished_at: datetime | None = None
    resume_at: datetime | None = None
    running_count: int = 0
    done_count: int = 0
    failed_count: int = 0
    success_count: int = 0
    usage: Usage = Usage()


class BatchItem(Struct, frozen=True):
    """An item of a batch."""

    position: int
    batch_id: str
    prompt: BatchPrompt
    state: ItemState
    attempt: int = 1
    is_running: bool = False
    started_at: datetime | None = None
    finished_at: datetime | None = None
    result: ItemResult | None = None

    @property
    def turn_id(self) -> str:
        return turn_id_of(item_id_of(self.batch_id, self.position), self.attempt)


class ItemClaim(Struct, frozen=True):
    """An item that this scheduler works on."""

    batch: Batch
    lease: Lease
    prompt: BatchPrompt
    attempt: int

    @property
    def turn_id(self) -> str:
        return turn_id_of(self.lease.id, self.attempt)


def item_id_of(batch_id: str, position: int) -> str:
    """Return the id of an item's row, unique over all batches."""
    return f"{batch_id}.{position}"


def turn_id_of(row_id: str, attempt: int) -> str:
    """Return the id of an attempt's turn, and of its session."""
    return row_id if attempt == 1 else f"{row_id}.a{attempt}"
