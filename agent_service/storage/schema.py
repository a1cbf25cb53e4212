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
from agent_service.records.compaction import Compaction
from agent_service.records.events import Durable
from agent_service.records.model import ToolCall
from agent_service.records.requests import TurnRequest
from agent_service.records.usage import Usage
from services.database.leases import lease_columns
from services.database.sql import Encoded, UtcTime, partial_index, required

metadata = MetaData()

LIVE_STATES = ("RUNNING", "WAITING_TOOL", "WAITING_PERSON", "QUEUED_RESUME", "CANCELLING")
"""States of a turn that has begun and has not ended; a session has at most one such turn."""

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
    Column("compaction", Encoded(Compaction), nullable=False, server_default="{}"),
    Column("parent_session_id", String(128)),
    Column("is_named", Boolean, nullable=False, server_default="0"),
    Column("revision", BigInteger, nullable=False, server_default="0"),
    *required(UtcTime, "created_at", "updated_at"),
    Index("session_by_use", "profile", "updated_at"),
    Index("session_by_parent", "parent_session_id"),
)
"""`compaction` says how its messages are sent once it has become too long. `parent_session_id` is
what it was branched from, what has handed a subagent its task, or what a review looks back at; that
may be gone. `is_named` is true once a person has given it its title. `revision` grows whenever
messages were taken out, so that a conversation in memory is known to be old."""

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
)
"""`content` is the JSON of the message as it is sent, so that a replay is byte-identical."""

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
"""Also a question that is answered in words: one of the tool CLARIFY. `requester` is the platform's
id of whose words the turn works on; empty of a program."""

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
"""What was allowed for longer: one exact call each, never a whole tool; always, where the session
is empty."""

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
"""Sandboxes at executors that could not be reached, whose sessions have gone on elsewhere."""

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
"""`key` is the call's that asks for it, and the same when that is resumed."""

sealed_login = Table(
    "sealed_login",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
"""Logins at model providers, for replicas that share no disk. `id` is a digest of the key that
`data` is sealed with."""

transcript_import = Table(
    "transcript_import",
    metadata,
    Column("profile", String(64), primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("session_id", String(128), nullable=False),
    Column("problem", Text, nullable=False),
)
"""Files of the home's `sessions` that were taken once, or cannot be; a deleted one stays out."""

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
"""`session_id` is the review's own. It looks at the messages of the other one up to `through`, as
they were at its `revision`: where messages were taken out since, it has nothing to look at.
`is_told` says that nobody has to be told any more of what has come of it."""

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
)
"""Messages as they were. `undo_id` is what took them back, such as the id of the turn that says
their question again; their sequences may have been given to others since."""

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
"""Sums for a session, a model and a day (YYYY-MM-DD in the agent's time zone): a session has one
turn at a time, so that no two of them ever wait for the same row."""

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
"""`id` is the command's key. `notice` is what is being told, empty where nothing is; it is stored
together with the `progress` that it stands for, so that it is told once."""

budget_limit = Table(
    "budget_limit",
    metadata,
    Column("profile", String(64), primary_key=True),
    Column("scope", String(8), primary_key=True),
    Column("scope_id", String(128), primary_key=True),
    *required(BigInteger, "micro_usd", "tokens"),
)
"""`scope_id` is empty where every session, job or day of the profile has the limit; 0 is none."""

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
"""`name` tells calls that a turn makes side by side from each other; empty is the one that goes on
with the conversation. Counts while the turn's owner of that epoch holds its lease, so that nobody
has to release what a killed owner had reserved. A call outside of turns has an id of its own in
place of a turn's, and counts until `held_until`."""

budget_gate = Table(
    "budget_gate",
    metadata,
    Column("profile", String(64), primary_key=True),
    Column("passed", BigInteger, nullable=False),
)
"""The row that whoever reserves for a profile changes first, so that one does after the other."""


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
"""The files of a profile by their paths in its home. `modified_at_ns` grows with each change."""

profile_lock = Table(
    "profile_lock", metadata, Column("id", Text, primary_key=True), *lease_columns()
)
"""Who changes which file, `profile/path`, at the moment."""
