"""The schema of the first release, which is written out here when that is made.

Until then it is the MetaData, from which new databases are made.
"""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Do nothing: no database is older."""
