"""Measures the executor: `python -m tests.bench.executor`, or `make bench-executor`.

    python -m tests.bench.executor --json figures.json
    python -m tests.bench.executor --only output_mb_s

docs/benchmarks.md explains the figures.
"""

import sys

from tests.bench.executor import commands, pools
from tests.bench.figures import Figure
from tests.bench.running import Bench, Group

FIGURES = (
    Figure("acquire_warm_ms", "a sandbox that was ready", 8, slow_bar=20),
    Figure("acquire_cold_ms", "one that was not, and a command in it"),
    Figure("engine_cold_ms", "beside it: a container and a command by the bare engine"),
    Figure("cold_to_engine", "the first as a share of the second", 1),
    Figure("acquire_drained_ms", "a sandbox when many come at once"),
    Figure("exec_docker_ms", "a command in a docker sandbox", 3, slow_bar=10),
    Figure("engine_exec_ms", "beside it: a command by the bare engine"),
    Figure("exec_docker_times", "how many times as fast", 6, at_least=True),
    Figure("exec_bubblewrap_ms", "a command in a bubblewrap sandbox"),
    Figure("exec_ssh_ms", "a command of another account, by SSH", 5),
    Figure("exec_singularity_ms", "a command in a sandbox of Apptainer", 5),
    Figure("exec_kubernetes_ms", "a command in a pod of the stand-in cluster", 5),
    Figure("commands_per_s_32", "commands of 32 sessions in docker", 150, at_least=True),
    Figure("output_mb_s", "output of a docker sandbox, read by a client", 200, at_least=True),
    Figure("idle_rss_mb", "memory (PSS) of an idle executor", 120),
    Figure("sandbox_rss_mb", "memory that each idle sandbox costs it", 0.5),
    Figure("streams_500_rss_mb", "its memory with 500 attached streams", 400),
)
_GROUPS = (
    Group(
        ("acquire_warm_ms", "acquire_cold_ms", "engine_cold_ms", "cold_to_engine"),
        pools.acquisitions,
    ),
    Group(("acquire_drained_ms",), pools.drained),
    Group(("exec_docker_ms", "engine_exec_ms", "exec_docker_times"), commands.docker),
    Group(("exec_bubblewrap_ms",), commands.bubblewrap),
    Group(("exec_ssh_ms",), commands.ssh),
    Group(("exec_singularity_ms",), commands.singularity),
    Group(("exec_kubernetes_ms",), commands.kubernetes),
    Group(("commands_per_s_32",), commands.per_second),
    Group(("output_mb_s",), commands.output),
    Group(("idle_rss_mb", "sandbox_rss_mb", "streams_500_rss_mb"), pools.memory),
)
BENCH = Bench(
    "python -m tests.bench.executor", "Measures the executor against its bars.", FIGURES, _GROUPS
)

if __name__ == "__main__":
    sys.exit(BENCH.main())
