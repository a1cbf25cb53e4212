"""What is due, and what nobody holds, by index alone: which jobs wait for a run is in their row."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_job = sa.table("job", sa.column("id"), sa.column("may_overlap"), sa.column("waits"))
_run = sa.table("run", sa.column("job_id"), sa.column("state"))


def upgrade() -> None:
    """Add the column, fill it, and leave those that wait out of the index."""
    op.add_column("job", sa.Column("waits", sa.Boolean, nullable=False, server_default=sa.false()))
    is_open = sa.exists().where(
        _run.c.job_id == _job.c.id, _run.c.state.in_(("CLAIMED", "RUNNING", "DELIVERING"))
    )
    waiting = sa.update(_job).where(_job.c.may_overlap.is_(sa.false()), is_open)
    op.execute(waiting.values(waits=sa.true()))
    op.drop_index("job_by_next_run", "job")
    due = sa.text("NOT waits")
    op.create_index(
        "job_by_next_run", "job", ["next_run_at"], sqlite_where=due, postgresql_where=due
    )
    unheld = sa.text("state IN ('CLAIMED', 'RUNNING', 'DELIVERING') AND owner IS NULL")
    op.create_index(
        "run_unheld", "run", ["scheduled_for"], sqlite_where=unheld, postgresql_where=unheld
    )
