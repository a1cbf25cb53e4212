"""What is measured, in which order it is shown, and the bar that each figure has to reach."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import TypeAlias


class BenchError(Exception):
    """Something that is measured did not do what it should; the message says what."""


class NotReady(BenchError):
    """Hermes ended instead of being ready; the message has what it said."""


class Missing(Exception):
    """This machine lacks what a figure needs; the message says what."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle and the slow end of many samples."""

    p50: float
    p95: float

    @staticmethod
    def of(samples: Sequence[float]) -> "Spread":
        """Return the spread of samples in milliseconds."""
        slow = quantiles(samples, n=20, method="inclusive")[-1] if len(samples) > 1 else samples[0]
        return Spread(round(median(samples), 3), round(slow, 3))


Value: TypeAlias = Spread | float


@dataclass(frozen=True, slots=True)
class Reading:
    """A figure as it was measured; without a value the note says why."""

    key: str
    value: Value | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured, and where the homes are."""

    folder: Path
    samples: int = 200
    """Of each figure in milliseconds."""

    @property
    def repeats(self) -> int:
        """How often what takes about a second is repeated."""
        return max(1, self.samples // 20)


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table."""

    key: str
    meaning: str
    bar: float | None = None
    """For a spread it is the bar of the middle."""
    at_least: bool = False
    """Whether more is better."""
    slow_bar: float | None = None
    """For a spread the bar of the slow end, if it has one too."""

    def met(self, value: Value | None) -> bool | None:
        """Whether the bar is reached; None where there is nothing to compare."""
        if self.bar is None or value is None:
            return None
        middle = value.p50 if isinstance(value, Spread) else value
        if isinstance(value, Spread) and self.slow_bar is not None and value.p95 > self.slow_bar:
            return False
        return middle >= self.bar if self.at_least else middle <= self.bar


FIGURES = (
    Figure("turn_plain_ms", "a turn whose model answers at once", 8),
    Figure("turn_terminal_ms", "a turn with one command in its warm sandbox", 18),
    Figure("first_token_added_ms", "first text, beyond the direct call's", 10),
    Figure("exec_docker_ms", "a command in a docker sandbox", 5),
    Figure("exec_bubblewrap_ms", "a command in a bubblewrap sandbox", 5),
    Figure("mcp_call_ms", "a call of a warm MCP server in a bubblewrap sandbox", 8),
    Figure("acquire_warm_ms", "a sandbox that was ready", 20),
    Figure("acquire_cold_ms", "one that was not, and a command in it"),
    Figure("model_direct_ms", "beside the turn: the model called directly"),
    Figure("four_sleeps_s", "four `sleep 0.5` of one message", 0.7),
    Figure("oneshot_s", "`hermes chat -q hi` from exec to exit", 0.9),
    Figure("version_s", "`hermes --version`", 0.2),
    Figure("ready_s", "`hermes up` until it is ready", 3),
    Figure("batch_resume_s", "`hermes batch resume` until an item is done", 3),
    Figure("batch_items_per_s", "items of one command, a model of 50 ms", 25, at_least=True),
    Figure("idle_rss_mb", "memory (PSS) of an idle `hermes up`", 110),
    Figure("turns_per_s_64", "64 conversations, a model of 200 ms", 170, at_least=True),
    Figure("command_turns_per_s_64", "the same with a command in each turn", 80, at_least=True),
    Figure("http_requests_per_s_64", "64 connections to the HTTP API", 120, at_least=True),
    Figure("http_first_token_added_ms", "first text over HTTP, beyond the direct call's", 10),
    Figure("gateway_added_ms", "a chat's message, beyond the agent's turn", 10, slow_bar=50),
    Figure("gateway_messages_per_s", "500 chats, a message each at once"),
    Figure("gateway_first_text_ms", "first text of a turn until a chat shows it", 150),
    Figure("compression_added_ms", "2,000 messages compressed, beside the model", 50),
    Figure("trajectories_per_s", "trajectories fitted into 900 tokens", 2000, at_least=True),
    Figure("search_newest_sqlite_ms", "20 newest of 100,000 messages", 10, slow_bar=10),
    Figure("search_relevance_sqlite_ms", "20 best of the 2,000 newest matches", 50, slow_bar=50),
    Figure("append_ms_p99_sqlite", "99 of 100 messages stored within", 5),
    Figure("append_ms_longest_sqlite", "the longest wait for one", 50),
    Figure("search_newest_postgresql_ms", "the same on PostgreSQL", 10, slow_bar=10),
    Figure("search_relevance_postgresql_ms", "the same on PostgreSQL", 50, slow_bar=50),
    Figure("append_ms_p99_postgresql", "the same on PostgreSQL", 5),
    Figure("append_ms_longest_postgresql", "the same on PostgreSQL", 50),
)
