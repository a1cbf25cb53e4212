"""Measures Hermes, and shows which bars it reaches: `python -m tests.bench`, or `make bench`.

    python -m tests.bench                          all of it, in about ten minutes
    python -m tests.bench --json figures.json      writes the figures as well
    python -m tests.bench --only turn_plain_ms --samples 20

The exit status is 0 also where a bar is missed, which the table says; it is 1 where something could
not be measured that this machine has the parts for. docs/benchmarks.md explains the figures.
"""

import sys

from tests.bench import (
    commands,
    deciding,
    execution,
    long_sessions,
    model_call,
    reviews,
    scraping,
    search,
    startup,
    throughput,
    turns,
)
from tests.bench.figures import FIGURES
from tests.bench.running import Bench, Group

_GROUPS = (
    Group(("version_s",), commands.version),
    Group(("oneshot_s",), commands.one_shot),
    Group(("ready_s",), startup.ready),
    Group(("ready_10000_s",), startup.ready_with_sessions),
    Group(("idle_rss_mb",), startup.idle),
    Group(("session_rss_mb",), long_sessions.memory),
    Group(("model_call_cpu_ms_20", "model_call_cpu_ms_1000"), model_call.processor_time),
    Group(("turn_plain_ms", "first_token_added_ms", "model_direct_ms"), turns.plain),
    Group(("review_added_ms",), reviews.beside),
    Group(("turn_terminal_ms", "four_sleeps_s"), turns.with_commands),
    Group(("classify_cpu_ms_p99",), deciding.command_classes),
    Group(("compression_added_ms",), long_sessions.compression),
    Group(("turns_per_s_64",), throughput.plain),
    Group(("command_turns_per_s_64",), throughput.with_commands),
    Group(("scrape_ms_10000", "scrape_series_10000"), scraping.after_turns),
    Group(("exec_docker_ms", "engine_exec_ms"), execution.docker_commands),
    Group(("exec_bubblewrap_ms",), execution.bubblewrap_commands),
    Group(search.keys_of("sqlite"), search.sqlite),
    Group(search.keys_of("postgresql"), search.postgresql),
    Group(("acquire_warm_ms", "acquire_cold_ms", "engine_cold_ms"), execution.acquisitions),
)

BENCH = Bench("python -m tests.bench", "Measures Hermes against its bars.", FIGURES, _GROUPS)

if __name__ == "__main__":
    sys.exit(BENCH.main())
