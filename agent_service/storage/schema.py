"""The agent's tables."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    text,
)

from agent_service.records.background import Progress, WatchedCommand
from agent_service.records.compression import Compression
from agent_service.records.events import Durable
from agent_service.records.mcp import ServerCatalog
from agent_service.records.model import ToolCall
from agent_service.records.requests import TurnRequest
from agent_service.records.usage import Usage
from services.database.leases import lease_columns
from services.database.sql import Encoded, UtcTime, partial_index, required

metadata = MetaData()

LIVE_STATES = ("RUNNING", "WAITING_TOOL", "WAITING_PERSON", "QUEUED_RESUME", "CANCELLING")
"""States of a turn that has begun and not ended; a session has at most one such turn."""

CLAIMABLE_STATES = ("RUNNING", "WAITING_TOOL", "QUEUED_RESUME", "CANCELLING")
"""States in which a turn without a living owner is taken over."""

_live = text("state IN ({})".format(", ".join(f"'{state}'" for state in LIVE_STATES)))

session = Table(
    "session",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("profile", String(64), nullable=False),
    Column("platform", String(32), nullable=False),
    *required(Text, "title", "system_prompt", "workdir"),
    Column("sandbox_template", String(64), nullable=False, server_default=""),
    Column("message_count", BigInteger, nullable=False),
    Column("usage", Encoded(Usage), nullable=False),
    Column("compression", Encoded(Compression), nullable=False, server_default="{}"),
    Column("parent_session_id", String(128)),
    Column("is_named", Boolean, nullable=False, server_default="0"),
    Column("revision", BigInteger, nullable=False, server_default="0"),
    *required(UtcTime, "created_at", "updated_at"),
    Index("session_by_use", "profile", "updated_at"),
    Index("session_by_parent", "parent_session_id"),
)
"""`compression` says how messages of a long session are sent. `parent_session_id` is the origin of
a branch, the delegating session of a subagent, or the reviewed session; it may be gone. `is_named`
is true if a person gave the title. `revision` grows when messages are removed, which invalidates
conversations in memory."""

turn = Table(
    "turn",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("profile", String(64), nullable=False),
    Column("session_id", String(128), ForeignKey("session.id"), nullable=False),
    *required(String(16), "kind", "state"),
    *lease_columns(),
    Column("owner_endpoint", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("stuck_at", BigInteger, nullable=False),
    Column("stuck_count", Integer, nullable=False),
    Column("cancel_requested", Boolean, nullable=False),
    Column("request_digest", String(64), nullable=False),
    Column("request", Encoded(TurnRequest), nullable=False),
    Column("usage", Encoded(Usage), nullable=False),
    Column("last_sequence", BigInteger, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("finished_at", UtcTime),
    partial_index("turn_live", "session_id", where=_live, unique=True),
    Index("turn_by_state", "state", "lease_until"),
    Index("turn_by_session", "session_id", "created_at"),
)

step = Table(
    "step",
    metadata,
    Column("turn_id", String(128), ForeignKey("turn.id"), primary_key=True),
    Column("sequence", Integer, primary_key=True),
    Column("kind", String(8), nullable=False),
    Column("key", String(160), nullable=False, unique=True),
    Column("state", String(12), nullable=False),
    Column("call", Encoded(ToolCall)),
    Column("message_sequence", BigInteger, nullable=False),
)

message = Table(
    "message",
    metadata,
    Column("session_id", String(128), ForeignKey("session.id"), primary_key=True),
    Column("sequence", BigInteger, primary_key=True),
    Column("turn_id", String(128), nullable=False),
    Column("role", String(12), nullable=False),
    *required(Text, "content", "reasoning"),
    Column("created_at", UtcTime, nullable=False),
    Column("logprobs", Text, nullable=False, server_default=""),
)
"""`content` is the message's JSON as it is sent, so that replays are byte-identical. `logprobs` is
a JSON list of an answer's tokens, or empty."""

event = Table(
    "event",
    metadata,
    Column("turn_id", String(128), ForeignKey("turn.id"), primary_key=True),
    Column("sequence", BigInteger, primary_key=True),
    Column("event", Encoded(Durable), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("created_at", UtcTime, nullable=False),
)

approval = Table(
    "approval",
    metadata,
    Column("id", String(160), primary_key=True),
    Column("profile", String(64), nullable=False),
    Column("session_id", String(128), nullable=False),
    Column("turn_id", String(128), ForeignKey("turn.id"), nullable=False),
    Column("call_id", String(160), nullable=False),
    Column("tool", String(64), nullable=False),
    Column("subject", Text, nullable=False),
    Column("binding", String(64), nullable=False, server_default=""),
    Column("decision", String(8)),
    Column("decided_by", Text, nullable=False),
    Column("answer", Text, nullable=False, server_default=""),
    Column("answer_id", String(200), nullable=False, server_default=""),
    *required(UtcTime, "created_at", "expires_at"),
    Column("requester", String(200), nullable=False, server_default=""),
    Column("platform", String(32), nullable=False, server_default=""),
    Index("approval_by_turn", "turn_id"),
    Index("approval_open", "decision", "expires_at"),
)
"""Questions of the tool CLARIFY are approvals too. `requester` is the platform's id of the person
whose words the turn works on; empty for a program."""

approval_grant = Table(
    "approval_grant",
    metadata,
    Column("profile", String(64), primary_key=True),
    Column("session_id", String(128), primary_key=True),
    Column("tool", String(64), primary_key=True),
    Column("binding", String(64), primary_key=True),
    Column("decided_by", Text, nullable=False),
    Column("created_at", UtcTime, nullable=False),
)
"""Lasting permissions, each for one exact call; an empty session means always."""

sandbox_binding = Table(
    "sandbox_binding",
    metadata,
    Column("session_id", String(128), ForeignKey("session.id"), primary_key=True),
    Column("sandbox_id", String(64), nullable=False),
    Column("endpoint", Text, nullable=False),
    Column("workspace_id", String(64), nullable=False, server_default=""),
)

left_sandbox = Table(
    "left_sandbox",
    metadata,
    Column("sandbox_id", String(64), primary_key=True),
    Column("session_id", String(128), nullable=False),
    Column("profile", String(64), nullable=False),
    Column("endpoint", Text, nullable=False),
    Column("left_at", UtcTime, nullable=False),
)
"""Sandboxes of unreachable executors, whose sessions continued elsewhere."""

session_state = Table(
    "session_state",
    metadata,
    Column("session_id", String(128), ForeignKey("session.id"), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("value", JSON, nullable=False),
)

memory_change = Table(
    "memory_change",
    metadata,
    Column("key", String(160), primary_key=True),
    Column("profile", String(64), nullable=False),
    Column("target", String(16), nullable=False),
    Column("turn_id", String(128), nullable=False),
    *required(Text, "by", "before", "after"),
    Column("made", Boolean, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Index("memory_change_by_time", "profile", "created_at", "key"),
)
"""`key` is that of the call, which is the same when it is resumed."""

upload = Table(
    "upload",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("data", LargeBinary, nullable=False),
    Column("length_bytes", BigInteger, nullable=False),
    Column("uploaded_at", UtcTime, nullable=False),
    Index("upload_by_age", "uploaded_at"),
)
"""Files of messages, kept while a session has them."""

session_file = Table(
    "session_file",
    metadata,
    Column("session_id", String(128), ForeignKey("session.id"), primary_key=True),
    Column("path", String(160), primary_key=True),
    Column("sha256", String(64), nullable=False),
    Column("workspace_id", String(64), nullable=False, server_default=""),
    Index("session_file_by_digest", "sha256"),
)
"""Files of a session's messages, by their paths in the workspace. `workspace_id` is the workspace
that has the file, or its sandbox if that has no workspace of its own."""

sealed_login = Table(
    "sealed_login",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
"""Logins at model providers for replicas without a shared disk. `id` is a digest of the key that
seals `data`."""

mcp_server = Table(
    "mcp_server",
    metadata,
    Column("profile", String(64), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("catalog", Encoded(ServerCatalog), nullable=False),
)
"""What servers offered when a person last agreed to it."""

transcript_import = Table(
    "transcript_import",
    metadata,
    Column("profile", String(64), primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("session_id", String(128), nullable=False),
    Column("problem", Text, nullable=False),
)
"""Files in the home's `sessions` that were imported or are invalid; deleted sessions stay deleted.
"""

review = Table(
    "review",
    metadata,
    Column(
        "session_id", String(128), ForeignKey("session.id", ondelete="CASCADE"), primary_key=True
    ),
    Column("turn_id", String(128), nullable=False, unique=True),
    *required(String(128), "parent_session_id", "parent_turn_id"),
    *required(BigInteger, "through", "revision"),
    Column("is_told", Boolean, nullable=False),
    Index("review_untold", "is_told"),
)
"""`session_id` is the review's own. It reviews the other session's messages up to `through` at its
`revision`; if messages were removed since, there is nothing to review. `is_told` means that its
result need not be reported any more."""

UNDO_ID_CHARS = 160

undone_message = Table(
    "undone_message",
    metadata,
    Column("session_id", String(128), ForeignKey("session.id"), primary_key=True),
    Column("undo_id", String(UNDO_ID_CHARS), primary_key=True),
    Column("sequence", BigInteger, primary_key=True),
    Column("turn_id", String(128), nullable=False),
    Column("role", String(12), nullable=False),
    *required(Text, "content", "reasoning"),
    *required(UtcTime, "created_at", "undone_at"),
    Column("logprobs", Text, nullable=False, server_default=""),
)
"""Removed messages. `undo_id` is what removed them, such as the id of a turn that retries their
question; their sequences may be in use again."""

MODEL_CHARS = 200

model_usage = Table(
    "model_usage",
    metadata,
    Column("session_id", String(128), primary_key=True),
    Column("model", String(MODEL_CHARS), primary_key=True),
    Column("day", String(10), primary_key=True),
    Column("profile", String(64), nullable=False),
    Column("job_id", String(128), nullable=False),
    *required(
        *(BigInteger, "prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens"),
        *("reasoning_tokens", "cost_micro_usd", "call_count"),
    ),
    Index("model_usage_by_day", "profile", "day"),
    partial_index("model_usage_by_job", "profile", "job_id", where=text("job_id <> ''")),
)
"""Sums by session, model and day (YYYY-MM-DD in the agent's time zone); a session has one turn at a
time, so no two turns wait for the same row."""

watched_command = Table(
    "watched_command",
    metadata,
    Column("id", String(160), primary_key=True),
    Column("session_id", String(128), ForeignKey("session.id", ondelete="CASCADE"), nullable=False),
    Column("watched", Encoded(WatchedCommand), nullable=False),
    Column("progress", Encoded(Progress), nullable=False),
    Column("notice", Text, nullable=False),
    *lease_columns(),
    Column("created_at", UtcTime, nullable=False),
    Index("watched_command_by_session", "session_id"),
)
"""`id` is the command's key. `notice` is the pending report, or empty; it is stored together with
its `progress`, so that it is sent once."""

budget_limit = Table(
    "budget_limit",
    metadata,
    Column("profile", String(64), primary_key=True),
    Column("scope", String(8), primary_key=True),
    Column("scope_id", String(128), primary_key=True),
    *required(BigInteger, "micro_usd", "tokens"),
)
"""An empty `scope_id` means every session, job or day of the profile; 0 means unlimited."""

budget_reservation = Table(
    "budget_reservation",
    metadata,
    Column("turn_id", String(128), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("profile", String(64), nullable=False),
    *required(String(128), "session_id", "job_id"),
    Column("day", String(10), nullable=False),
    *required(BigInteger, "micro_usd", "tokens"),
    Column("held_until", UtcTime),
    Index("budget_reservation_by_profile", "profile"),
)
"""`name` distinguishes parallel calls of a turn; empty for the conversation's own call. A row
counts while the turn's owner of that epoch holds its lease, so a killed owner's rows need no
cleanup. A call outside of turns has an id of its own and counts until `held_until`."""

budget_gate = Table(
    "budget_gate",
    metadata,
    Column("profile", String(64), primary_key=True),
    Column("passed", BigInteger, nullable=False),
)
"""Every reservation for a profile first updates this row, which serializes reservations."""

profile_file = Table(
    "profile_file",
    metadata,
    Column("profile", String(64), primary_key=True),
    Column("path", Text, primary_key=True),
    Column("data", LargeBinary, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("mode", Integer, nullable=False),
    Column("modified_at_ns", BigInteger, nullable=False),
)
"""Files of a profile by path in its home. `modified_at_ns` grows with each change."""

profile_lock = Table(
    "profile_lock", metadata, Column("id", Text, primary_key=True), *lease_columns()
)
"""Current writers of files; ids are `profile/path`."""
