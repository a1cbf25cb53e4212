"""A curator that is killed at its step of a number: HOME NUMBER [BACKUP].

It goes back to the backup, or makes the run where none is named.
"""

import asyncio
import sys
from pathlib import Path

from agent_service.profiles.curation.curation import Order
from tests.support.curation import curation, plan
from tests.support.dying import Steps

ORDER = Order(
    "killed",
    plan=plan(
        *("git-log -> git-history", "git-rebase -> git-history", "mail-send -> mail-read"),
        prunings=("oddity",),
    ),
    epoch=1,
)


def main() -> None:
    home, left, *backups = sys.argv[1:]
    Steps(int(left)).count_what_is_halfway()
    curating = curation(Path(home))
    asyncio.run(curating.restore("undone", backups[0]) if backups else curating.apply(ORDER))
