"""The table of reviews: which part of which session each looks back at."""

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, String, Table

from agent_service.storage.schema import metadata

review = Table(
    "review",
    metadata,
    Column(
        "session_id",
        String(128),
        ForeignKey("session.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("turn_id", String(128), nullable=False, unique=True),
    Column("parent_session_id", String(128), nullable=False),
    Column("parent_turn_id", String(128), nullable=False),
    Column("through", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("is_told", Boolean, nullable=False),
    Index("review_untold", "is_told"),
)
"""`session_id` is the review's own. It looks at the messages of the other one up to `through`, as
they were at its `revision`: where messages were taken out since, it has nothing to look at.
`is_told` says that nobody has to be told any more of what has come of it."""
