"""Writes trajectories as a folder that `datasets.load_dataset` reads, with a dataset card."""

import json
import os
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from itertools import islice
from multiprocessing import cpu_count, get_context
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Protocol

from services.errors import FailedPrecondition, InvalidArgument
from services.home.paths import replace_file
from services.home.trajectories.converter import FAILED, TRAIN, Conversion, Line, Outcome, convert
from services.home.trajectories.formats import Format
from services.home.trajectories.trajectory import Trajectory

_ROWS = 1000
_MOST_PROCESSES = 8
_CHUNK = 128
"""Trajectories that are converted together."""
_CHUNKS = 16
"""Chunks that are converted while others are read."""


class _File(Protocol):
    def write(self, record: bytes) -> None: ...
    def close(self) -> None: ...


class DatasetWriter:
    """Adds trajectories to a data set, which appears as a whole at the end of the block."""

    def __init__(
        self,
        folder: Path,
        conversion: Conversion,
        refuse: Callable[[str], None] = print,
        *,
        parquet: bool = False,
    ) -> None:
        """`refuse` hears what is wrong with lines."""
        self.counts = Counter[str]()
        """Trajectories by split, and left out by reason."""
        self._folder, self._data = folder, folder / "data"
        self._conversion = conversion
        self._refuse = refuse
        self._is_parquet = parquet
        self._has_begun = False
        # Not forked: threads of this process may hold locks.
        self._pool = ProcessPoolExecutor(
            min(cpu_count(), _MOST_PROCESSES),
            get_context("spawn"),
            signal.signal,
            (signal.SIGINT, signal.SIG_IGN),
        )
        self._converting = deque[Future[Sequence[Outcome]]]()
        self._models = set[str]()
        self._known = set[bytes]()
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
            with self._stack, self._pool:
                while kind is None and self._converting:
                    self._write(self._converting.popleft().result())
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
        replace_file(self._folder / "README.md", self._card(), 0o644)

    def add_all(self, sources: Iterable[Line | Trajectory]) -> None:
        """Write trajectories, except those that are left out."""
        rest = iter(sources)
        while chunk := list(islice(rest, _CHUNK)):
            self._converting.append(self._convert(chunk))
            if len(self._converting) > _CHUNKS:
                self._write(self._converting.popleft().result())

    def _convert(self, chunk: Sequence[Line | Trajectory]) -> Future[Sequence[Outcome]]:
        if not self._has_begun:  # a few are converted sooner than processes start
            self._has_begun = True
            done = Future[Sequence[Outcome]]()
            done.set_result(convert(self._conversion, chunk))
            return done
        return self._pool.submit(convert, self._conversion, chunk)

    def _write(self, outcomes: Iterable[Outcome]) -> None:
        for each in outcomes:
            if each.problem:
                self._refuse(each.problem)
                continue
            is_known = each.fingerprint in self._known
            if each.fingerprint:
                self._known.add(each.fingerprint)
            self.counts["duplicate" if is_known else each.left_out or each.split] += 1
            if each.record and not is_known:
                self._models.add(each.model)
                self._file(each.split).write(each.record)

    def _file(self, split: str) -> _File:
        if split not in self._files:
            self._files[split] = self._open(split)
        return self._files[split]

    def _path(self, split: str, suffix: str = "") -> Path:
        name = f"{split}-00000-of-00001.parquet" if self._is_parquet else f"{split}.jsonl"
        return self._data / f"{name}{suffix}"

    def _open(self, split: str) -> _File:
        path = self._path(split, ".part")
        file = _ParquetFile(path, self._conversion.format) if self._is_parquet else _JsonLines(path)
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
            f"---\npretty_name: {json.dumps(self._folder.name)}\n"
            "tags:\n- agent\n- tool-use\n- trajectories\n"
            f"configs:\n- config_name: default\n{data_files}---\n\n"
            f"# {self._folder.name}\n\n"
            f"Trajectories of Hermes in the format `{self._conversion.format}`. Models: {models}. "
            "Secrets of known shapes are redacted.\n\n"
            f"| Split, or left out for | Trajectories |\n|---|---|\n{rows}"
        )


class _JsonLines:
    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("wb")

    def write(self, record: bytes) -> None:
        self._file.write(record + b"\n")

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

    def write(self, record: bytes) -> None:
        row: dict[str, Any] = json.loads(record)
        if "tools" in row:  # each tool has a schema of its own, which no column has
            row["tools"] = json.dumps(row["tools"], ensure_ascii=False)
        self._rows.append(row)
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
