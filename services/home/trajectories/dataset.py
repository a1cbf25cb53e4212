"""Writes trajectories as a folder that `datasets.load_dataset` reads, with a dataset card."""

import json
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Protocol

import msgspec

from services.errors import FailedPrecondition, InvalidArgument
from services.home.paths import replace_file
from services.home.trajectories.converter import FAILED, TRAIN, Conversion, Line, Outcome, convert
from services.home.trajectories.converter_pool import ConverterPool
from services.home.trajectories.formats import Format
from services.home.trajectories.trajectory import Trajectory

_ROWS = 1000
_CHUNK, _CHUNK_BYTES = 128, 2_000_000
"""Trajectories that are converted together, and when they are fewer because they are long."""
_MAX_PROCESSES = 8


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
        """`refuse` is called with each line's error."""
        self.counts = Counter[str]()
        """Trajectories by split, and left out by reason."""
        self._folder, self._data = folder, folder / "data"
        self._conversion = conversion
        self._refuse = refuse
        self._is_parquet = parquet
        self._process_count = min(len(os.sched_getaffinity(0)), _MAX_PROCESSES)
        self._pool: ConverterPool | None = None
        self._first: Sequence[Line | Trajectory] = ()
        self._pending = deque[Future[Sequence[Outcome]]]()
        self._models = set[str]()
        self._fingerprints = set[bytes]()
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
            with self._stack:
                if kind is None:
                    self.drain()
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
        """Convert trajectories; they are written when others are added, or drained."""
        for chunk in _chunks(sources):
            if self._pool is None and not self._first:
                self._first = chunk
                continue
            if self._pool is None:
                pool = ConverterPool(self._conversion, self._process_count)
                self._pool = self._stack.enter_context(pool)
                self._pending.append(self._pool.submit(self._first))
            self._pending.append(self._pool.submit(chunk))
            if len(self._pending) > self._process_count + 2:
                self._write(self._pending.popleft().result())

    def drain(self) -> None:
        """Write what is being converted."""
        if self._pool is None:  # starting processes takes longer than converting one chunk
            self._write(convert(self._conversion, self._first))
            self._first = ()
        while self._pending:
            self._write(self._pending.popleft().result())

    def _write(self, outcomes: Iterable[Outcome]) -> None:
        for each in outcomes:
            if each.problem:
                self._refuse(each.problem)
                continue
            is_known = each.fingerprint in self._fingerprints
            if each.fingerprint:
                self._fingerprints.add(each.fingerprint)
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


def _chunks(sources: Iterable[Line | Trajectory]) -> Iterator[Sequence[Line | Trajectory]]:
    chunk, length_bytes = list[Line | Trajectory](), 0
    for source in sources:
        chunk.append(source)
        length_bytes += len(source.text) if isinstance(source, Line) else 0
        if len(chunk) == _CHUNK or length_bytes > _CHUNK_BYTES:
            yield chunk
            chunk, length_bytes = [], 0
    if chunk:
        yield chunk


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
        row: dict[str, Any] = msgspec.json.decode(record)
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
