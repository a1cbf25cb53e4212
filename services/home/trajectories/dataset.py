"""Writes trajectories as a folder that `datasets.load_dataset` reads, with a dataset card."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import lru_cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Protocol

import msgspec
from msgspec import Struct

from services.errors import FailedPrecondition, InvalidArgument
from services.home.paths import replace_file
from services.home.trajectories.compressor import Compressor
from services.home.trajectories.formats import FORMATS, Format
from services.home.trajectories.selection import FILTERS, Duplicates
from services.home.trajectories.trajectory import Trajectory, redact_trajectory

TRAIN, FAILED = "train", "failed"
_ROWS = 1000
_REMEMBERED = 16
_CHUNK = 64
"""Trajectories whose tokens are counted together."""


class DatasetPlan(Struct, frozen=True):
    """What is written, and how."""

    folder: Path
    redact: Callable[[str], str]
    format: Format = "sharegpt"
    filters: Sequence[str] = ()
    """Names of FILTERS: what is left out."""
    compressor: Compressor | None = None
    deduplicates: bool = False
    parquet: bool = False


class _File(Protocol):
    def write(self, record: dict[str, Any]) -> None: ...
    def close(self) -> None: ...


class DatasetWriter:
    """Adds trajectories to a data set, which appears as a whole at the end of the block."""

    def __init__(self, plan: DatasetPlan) -> None:
        self.counts = Counter[str]()
        """Trajectories by split, and left out by reason."""
        self._plan = plan
        # The system prompt with its tools is the same in most trajectories.
        self._redact = lru_cache(_REMEMBERED)(plan.redact)
        self._models = set[str]()
        self._duplicates = Duplicates()
        self._data = plan.folder / "data"
        self._files: dict[str, _File] = {}
        self._stack = ExitStack()

    def __enter__(self) -> "DatasetWriter":
        try:
            self._data.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=self._data).close()
        except OSError as error:
            raise InvalidArgument(f"{self._data} cannot be written: {error.strerror}") from None
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._stack.close()
            if kind is None:
                self._publish()
        finally:
            for split in self._files:
                self._path(split, ".part").unlink(missing_ok=True)

    def _publish(self) -> None:
        for split in (TRAIN, FAILED):
            if split in self._files:
                self._path(split, ".part").replace(self._path(split))
            else:
                self._path(split).unlink(missing_ok=True)
        replace_file(self._plan.folder / "README.md", self._card(), 0o644)

    def add_all(self, trajectories: Iterable[Trajectory]) -> None:
        """Write trajectories, except those that are left out."""
        chosen = filter(self._chooses, trajectories)
        with ThreadPoolExecutor(1) as beside:  # counting tokens leaves the interpreter to others
            fitted = beside.submit(list[Trajectory | None])
            while chunk := [redact_trajectory(it, self._redact) for it in islice(chosen, _CHUNK)]:
                before, fitted = fitted, beside.submit(self._fit, chunk)
                self._write(before.result())
            self._write(fitted.result())

    def _fit(self, chunk: Sequence[Trajectory]) -> Sequence[Trajectory | None]:
        compressor = self._plan.compressor
        return list(compressor.fit_all(chunk)) if compressor else chunk

    def _write(self, fitted: Iterable[Trajectory | None]) -> None:
        for each in fitted:
            self._add(each)

    def _add(self, fitting: Trajectory | None) -> None:
        if fitting is None:
            self.counts["too long"] += 1
            return
        split = TRAIN if fitting.completed else FAILED
        self.counts[split] += 1
        self._models.add(fitting.model)
        if split not in self._files:
            self._files[split] = self._open(split)
        self._files[split].write(FORMATS[self._plan.format](fitting))

    def _chooses(self, trajectory: Trajectory) -> bool:
        plan = self._plan
        reason = next((name for name in plan.filters if FILTERS[name](trajectory)), "")
        if not reason and plan.deduplicates and self._duplicates.add(trajectory):
            reason = "duplicate"
        if reason:
            self.counts[reason] += 1
        return not reason

    def _path(self, split: str, suffix: str = "") -> Path:
        name = f"{split}-00000-of-00001.parquet" if self._plan.parquet else f"{split}.jsonl"
        return self._data / f"{name}{suffix}"

    def _open(self, split: str) -> _File:
        path = self._path(split, ".part")
        plan = self._plan
        file = _ParquetFile(path, plan.format) if plan.parquet else _JsonLines(path)
        self._stack.callback(file.close)
        return file

    def _card(self) -> str:
        splits = [split for split in (TRAIN, FAILED) if split in self._files]
        files = "".join(
            f"  - split: {split}\n    path: data/{self._path(split).name}\n" for split in splits
        )
        rows = "".join(f"| {name} | {count} |\n" for name, count in sorted(self.counts.items()))
        models = ", ".join(sorted(filter(None, self._models))) or "unknown"
        data_files = f"  data_files:\n{files}" if splits else "  data_files: []\n"
        return (
            f"---\npretty_name: {json.dumps(self._plan.folder.name)}\n"
            "tags:\n- agent\n- tool-use\n- trajectories\n"
            f"configs:\n- config_name: default\n{data_files}---\n\n"
            f"# {self._plan.folder.name}\n\n"
            f"Trajectories of Hermes in the format `{self._plan.format}`. Models: {models}. "
            "Secrets of known shapes are redacted.\n\n"
            f"| Split, or left out for | Trajectories |\n|---|---|\n{rows}"
        )


class _JsonLines:
    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("wb")

    def write(self, record: dict[str, Any]) -> None:
        self._file.write(msgspec.json.encode(record) + b"\n")

    def close(self) -> None:
        with self._file as file:
            file.flush()
            os.fsync(file.fileno())


class _ParquetFile:
    def __init__(self, path: Path, form: Format) -> None:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError:
            raise FailedPrecondition(
                'writing Parquet needs an extra: pip install "hermes-services[research]"'
            ) from None
        self._table: Any = pa.Table
        self._schema: Any = _schema(pa, form)
        self._writer: Any = pq.ParquetWriter(path, self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []

    def write(self, record: dict[str, Any]) -> None:
        if "tools" in record:  # each tool has a schema of its own, which no column has
            record["tools"] = json.dumps(record["tools"], ensure_ascii=False)
        self._rows.append(record)
        if len(self._rows) >= _ROWS:
            self._flush()

    def _flush(self) -> None:
        rows, self._rows = self._rows, []
        self._writer.write_table(self._table.from_pylist(rows, schema=self._schema))

    def close(self) -> None:
        if self._rows:
            self._flush()
        self._writer.close()


def _schema(pa: Any, form: Format) -> Any:
    text = pa.string()
    called = pa.struct([("name", text), ("arguments", text)])
    call = pa.struct([("id", text), ("type", text), ("function", called)])
    names = ("role", "content", "reasoning_content", "tool_call_id")
    token = pa.struct([("token", text), ("logprob", pa.float64()), ("id", pa.int64())])
    message = pa.struct(
        [
            *((name, text) for name in names),
            ("tool_calls", pa.list_(call)),
            ("logprobs", pa.struct([("content", pa.list_(token))])),
        ]
    )
    conversation = {
        "sharegpt": [("conversations", pa.list_(pa.struct([("from", text), ("value", text)])))],
        "openai": [("messages", pa.list_(message)), ("tools", text)],
    }[form]
    return pa.schema(
        [
            *conversation,
            *((name, text) for name in ("timestamp", "model", "id", "finish_reason")),
            ("completed", pa.bool_()),
            ("score", pa.float64()),
            ("tags", pa.list_(text)),
            ("toolsets", pa.list_(text)),
            ("seed", pa.int64()),
        ]
    )
