"""Measures the executor: `python -m tests.bench.executor`, or `make bench-executor`.

    python -m tests.bench.executor --json figures.json
    python -m tests.bench.executor --only exec_ssh_ms

docs/developers/testing.md explains the figures.
"""

import sys

from tests.bench.executor import commands, pools
from tests.bench.figures import Figure
from tests.bench.running import Bench, Group

FIGURES = (
    Figure("acquire_warm_ms", "a sandbox that was ready", 8, slow_bar=20),
    Figure("acquire_cold_ms", "one that was not, and a command in it"),
    Figure("exec_docker_ms", "a command in a docker sandbox", 3, slow_bar=10),
    Figure("exec_bubblewrap_ms", "a command in a bubblewrap sandbox"),
    Figure("exec_ssh_ms", "a command of another account, by SSH", 5),
    Figure("exec_singularity_ms", "a command in a sandbox of Apptainer", 5),
    Figure("exec_kubernetes_ms", "a command in a pod of the stand-in cluster", 5),
)
_GROUPS = (
    Group(("acquire_warm_ms", "acquire_cold_ms"), pools.acquisitions),
    Group(("exec_docker_ms",), commands.docker),
    Group(("exec_bubblewrap_ms",), commands.bubblewrap),
    Group(("exec_ssh_ms",), commands.ssh),
    Group(("exec_singularity_ms",), commands.singularity),
    Group(("exec_kubernetes_ms",), commands.kubernetes),
)
BENCH = Bench(
    "python -m tests.bench.executor", "Measures the executor against its bars.", FIGURES, _GROUPS
)

if __name__ == "__main__":
    sys.exit(BENCH.main())
