"""The gateway's tables."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
)

from services.database.leases import lease_columns
from services.database.sql import UtcTime, required

metadata = MetaData()

# SQLite only increments columns of type INTEGER.
_Sequence = BigInteger().with_variant(Integer(), "sqlite")

inbox = Table(
    "inbox",
    metadata,
    Column("sequence", _Sequence, primary_key=True, autoincrement=True),
    Column("platform", String(32), nullable=False),
    Column("account_id", String(255), nullable=False),
    Column("event_id", String(512), nullable=False),
    Column("message_id", String(255)),
    Column("profile", String(64), nullable=False),
    Column("session_key", String(1024), nullable=False),
    Column("payload", JSON, nullable=False),
    Column("state", String(16), nullable=False),
    Column("session_id", String(128)),
    Column("turn_id", String(100), unique=True),
    Column("received_at", UtcTime, nullable=False),
    Column("closed_at", UtcTime),
    UniqueConstraint("platform", "event_id"),
    Index("inbox_open", "state", "platform", "account_id"),
    Index("inbox_by_session", "session_id", "state"),
    Index("inbox_by_chat", "session_key", "sequence"),
    Index("inbox_closed", "closed_at"),
)
"""Events, unique by the platform's id: RECEIVED, ACCEPTED with a turn, CLOSED when answered, or
IGNORED if the sender may not talk to Hermes. `message_id` is the platform's id of the message that
an event is; of new versions, only those have one that were taken as messages."""

outbox = Table(
    "outbox",
    metadata,
    Column("sequence", _Sequence, primary_key=True, autoincrement=True),
    Column("delivery_id", String(128), nullable=False),
    Column("part", Integer, nullable=False),
    Column("profile", String(64), nullable=False),
    Column("platform", String(32), nullable=False),
    Column("account_id", String(255), nullable=False),
    Column("chat_id", String(255), nullable=False),
    Column("thread_id", String(255), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("payload", JSON, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("version", Integer, nullable=False),
    Column("state", String(20), nullable=False),
    Column("uncertain", Boolean, nullable=False),
    Column("attempts", Integer, nullable=False),
    *required(UtcTime, "due_since", "next_attempt_at"),
    Column("platform_message_id", String(255)),
    Column("last_error", Text, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("sent_at", UtcTime),
    Column("traceparent", String(55)),
    UniqueConstraint("delivery_id", "part"),
    Index("outbox_due", "platform", "account_id", "state", "next_attempt_at"),
    Index("outbox_done", "state", "sent_at"),
)
"""Messages to send, one row each. Without a `platform_message_id` the message must be created, with
one it is edited. `version` counts contents, `uncertain` means that it may exist without our knowing
its id, and `traceparent` names the span that it is sent below."""

attachment = Table(
    "attachment",
    metadata,
    Column("delivery_id", String(128), primary_key=True),
    Column("profile", String(64), primary_key=True),
    Column("sha256", String(64), primary_key=True),
    Column("length_bytes", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Index("attachment_by_age", "created_at"),
)
"""Files of deliveries, stored before their deliveries."""

account = Table(
    "account",
    metadata,
    Column("id", String(320), primary_key=True),
    *lease_columns(),
    Column("cursor", Text, nullable=False, server_default=""),
    Column("connected_at", UtcTime),
    Column("rate_limited_until", UtcTime),
    Column("problem", Text),
)
"""Who serves an account of a platform, where the platform continues to send events, and how it is
connected."""

chat_session = Table(
    "chat_session",
    metadata,
    Column("profile", String(64), primary_key=True),
    Column("session_key", String(1024), primary_key=True),
    Column("session_id", String(128), nullable=False),
    *required(UtcTime, "created_at", "updated_at"),
    Column("last_used_at", UtcTime),
    Column("busy_mode", String(16)),
    Column("ended_session_id", String(128)),
    Column("ended_why", String(8)),
    Column("is_review_asked", Boolean, nullable=False, server_default=false()),
    Index("chat_session_by_session", "session_id"),
    Index("chat_session_by_use", "profile", "last_used_at"),
)
"""The session that a chat's messages go to; a terminal's chat is its first session. `last_used_at`
is unset if there is nothing that could end. `busy_mode` is unset for the configured mode. After a
reset, the row holds the ended session and the reason until the person is told, and whether the
agent was asked for a review."""

pairing = Table(
    "pairing",
    metadata,
    Column("profile", String(64), primary_key=True),
    Column("platform", String(32), primary_key=True),
    Column("user_id", String(255), primary_key=True),
    *required(String(255), "user_name", "account_id", "chat_id", "approved_by"),
    *required(LargeBinary, "salt", "code_digest"),
    Column("requested_at", UtcTime),
    Column("expires_at", UtcTime),
    Column("approved_at", UtcTime),
    Column("is_admin", Boolean, nullable=False),
)
"""People who are not on a platform's allow list. With `approved_at` they may talk to Hermes; the
others have a code, of which the salted digest is stored."""

pairing_lock = Table(
    "pairing_lock",
    metadata,
    Column("profile", String(64), primary_key=True),
    Column("wrong_count", Integer, nullable=False),
    Column("tried_at", UtcTime),
)
"""How many wrong codes were tried in a row, and when last."""

channel = Table(
    "channel",
    metadata,
    Column("profile", String(64), primary_key=True),
    Column("platform", String(32), primary_key=True),
    Column("chat_id", String(255), primary_key=True),
    Column("thread_id", String(255), primary_key=True),
    Column("name", String(100), nullable=False),
    Column("chat_type", String(16), nullable=False),
    Column("seen_at", UtcTime, nullable=False),
)
"""Chats in which people who may talk to Hermes wrote to it, or that came with an older home."""

home_channel = Table(
    "home_channel",
    metadata,
    Column("profile", String(64), primary_key=True),
    Column("platform", String(32), primary_key=True),
    *required(String(255), "chat_id", "thread_id"),
    Column("chosen_at", UtcTime, nullable=False),
)
"""The home channel of a platform, chosen with /sethome; it overrides the settings."""

home_import = Table(
    "home_import",
    metadata,
    Column("profile", String(64), primary_key=True),
    Column("imported_at", UtcTime, nullable=False),
)
"""Profiles whose pairings and channels were imported from an older home."""
