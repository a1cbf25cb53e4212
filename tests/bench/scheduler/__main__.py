"""Measures the scheduler: `python -m tests.bench.scheduler`, or `make bench-scheduler`.

    python -m tests.bench.scheduler --json figures.json
    python -m tests.bench.scheduler --samples 1000    # a tenth of the jobs

docs/developers/testing.md explains the figures.
"""

import sys

from tests.bench.figures import Figure
from tests.bench.running import Bench, Group
from tests.bench.scheduler import killing

FIGURES = (
    Figure("jobs", "that were due, each once"),
    Figure("missing", "jobs whose run, turn or answer is not there", 0),
    Figure("duplicate", "jobs that have one of them twice", 0),
    Figure("lateness_p50_s", "from the due time to the commit of the run"),
    Figure("lateness_p99_s", "99 of 100", 2),
    Figure("lateness_max_s", "the latest", 10),
    Figure("start_lateness_p99_s", "from the due time to the commit of the turn"),
    Figure("kills", "kill -9 of a scheduler"),
    Figure("takeover_max_s", "from a kill until another has taken all its runs over", 6.5),
)
_GROUPS = (Group(tuple(each.key for each in FIGURES), killing.killed),)
BENCH = Bench(
    "python -m tests.bench.scheduler",
    "Measures the scheduler against its bars.",
    FIGURES,
    _GROUPS,
    samples=killing.FULL,
    sampled="jobs",
)

if __name__ == "__main__":
    sys.exit(BENCH.main())
