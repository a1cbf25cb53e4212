"""The options with which a data set is written."""

import argparse
from collections.abc import Callable
from pathlib import Path

from services.amounts import plural
from services.cli.arguments import INT32, up_to
from services.cli.command import JSON_OBJECT, Context, arg, flag
from services.cli.console import complain
from services.errors import InvalidArgument
from services.home.trajectories.converter import FAILED, TRAIN, Conversion
from services.home.trajectories.dataset import DatasetWriter
from services.home.trajectories.formats import FORMATS
from services.home.trajectories.selection import FILTERS
from services.home.trajectories.tokenizer import locate

OPTIONS = (
    arg("--out FOLDER", "write the data set into this folder", Path, required=True),
    arg(
        "--format",
        "sharegpt (default), or openai messages",
        choices=tuple(FORMATS),
        default="sharegpt",
    ),
    arg(
        "--filter",
        "leave these out; repeatable",
        field="filters",
        action="append",
        choices=tuple(FILTERS),
        default=[],
    ),
    arg("--max-tokens N", "shorten to N tokens; needs --tokenizer", up_to(INT32, 1)),
    arg("--tokenizer NAME", "a tokenizer.json, a folder, or a Python package that has one"),
    flag("--deduplicate", "leave out duplicate conversations"),
    flag("--parquet", "write Parquet instead of JSON lines"),
    JSON_OBJECT,
)


def dataset_writer(
    context: Context, refuse: Callable[[str], None] = complain, *, redacts: bool = True
) -> DatasetWriter:
    """Return what the options ask for; raises InvalidArgument and FailedPrecondition."""
    given: argparse.Namespace = context.given
    if (given.max_tokens is None) != (given.tokenizer is None):
        raise InvalidArgument("--max-tokens and --tokenizer must be used together")
    conversion = Conversion(
        format=given.format,
        filters=tuple(given.filters),
        tokenizer=given.tokenizer or "",
        max_tokens=given.max_tokens or 0,
        deduplicates=given.deduplicate,
        redacts=redacts,
    )
    if conversion.tokenizer:
        locate(conversion.tokenizer)  # before anything is read
    return DatasetWriter(given.out, conversion, refuse, parquet=given.parquet)


def print_counts(context: Context, writer: DatasetWriter) -> None:
    """Say what was written, and what was left out."""
    counts = {TRAIN: 0, FAILED: 0, **writer.counts}
    done = counts[TRAIN] + counts[FAILED]
    lines = [f"wrote {plural(done, 'trajectory', 'trajectories')} to {context.given.out}"]
    lines += [f"{count:,} {reason}" for reason, count in counts.items()]
    context.print_value(counts, "\n".join(lines))
