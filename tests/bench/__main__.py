"""Measures Hermes, and shows which bars it reaches: `python -m tests.bench`, or `make bench`.

    python -m tests.bench                          all of it, in about ten minutes
    python -m tests.bench --json figures.json      writes the figures as well
    python -m tests.bench --only turn_plain_ms --samples 20

The exit status is 0 also where a bar is missed, which the table says; it is 1 where something could
not be measured that this machine has the parts for. The figures are explained in
docs/developers/testing.md.
"""

import sys

from tests.bench import (
    batches,
    commands,
    compression,
    gateway,
    http_api,
    mcp,
    search,
    startup,
    throughput,
    trajectories,
    turns,
)
from tests.bench.executor import commands as in_sandboxes
from tests.bench.executor import pools
from tests.bench.figures import FIGURES
from tests.bench.running import Bench, Group

_GROUPS = (
    Group(("version_s",), commands.version),
    Group(("oneshot_s",), commands.one_shot),
    Group(("ready_s",), startup.ready),
    Group(("batch_resume_s",), batches.resumed),
    Group(("batch_items_per_s",), batches.items),
    Group(("idle_rss_mb",), startup.idle),
    Group(("turn_plain_ms", "first_token_added_ms", "model_direct_ms"), turns.plain),
    Group(("turn_terminal_ms", "four_sleeps_s"), turns.with_commands),
    Group(("http_requests_per_s_64",), http_api.requests),
    Group(("http_first_token_added_ms",), http_api.first_token),
    Group(("gateway_added_ms", "gateway_messages_per_s"), gateway.added),
    Group(("gateway_first_text_ms",), gateway.first_text),
    Group(("compression_added_ms",), compression.compression),
    Group(("turns_per_s_64",), throughput.plain),
    Group(("command_turns_per_s_64",), throughput.with_commands),
    Group(("exec_docker_ms",), in_sandboxes.docker),
    Group(("exec_bubblewrap_ms",), in_sandboxes.bubblewrap),
    Group(("mcp_call_ms",), mcp.calls),
    Group(("trajectories_per_s",), trajectories.convert),
    Group(search.keys_of("sqlite"), search.sqlite),
    Group(search.keys_of("postgresql"), search.postgresql),
    Group(("acquire_warm_ms", "acquire_cold_ms"), pools.acquisitions),
)

BENCH = Bench("python -m tests.bench", "Measures Hermes against its bars.", FIGURES, _GROUPS)

if __name__ == "__main__":
    sys.exit(BENCH.main())
