"""Makes records of trajectories."""

from collections.abc import Sequence
from functools import cache, lru_cache

import msgspec
from msgspec import Struct

from services.errors import InvalidArgument
from services.home.trajectories.compressor import Compressor
from services.home.trajectories.formats import FORMATS, Format, parse_trajectory
from services.home.trajectories.selection import FILTERS, fingerprint
from services.home.trajectories.tokenizer import load_counter
from services.home.trajectories.trajectory import Trajectory, redact_trajectory
from services.redaction.redactor import Redactor

TRAIN, FAILED = "train", "failed"
_CACHE_SIZE = 16


class Line(Struct, frozen=True):
    """A line of a file, and where it is."""

    location: str
    text: bytes


class Conversion(Struct, frozen=True):
    """What becomes of each trajectory."""

    format: Format = "sharegpt"
    filters: tuple[str, ...] = ()
    """Names of FILTERS: what is left out."""
    tokenizer: str = ""
    max_tokens: int = 0
    """Only with a tokenizer."""
    deduplicates: bool = False
    redacts: bool = True


class Outcome(Struct, frozen=True):
    """A record, or why there is none."""

    left_out: str = ""
    problem: str = ""
    fingerprint: bytes = b""
    """Of the conversation, if duplicates are left out."""
    split: str = ""
    model: str = ""
    record: bytes = b""
    """JSON."""


class Converter:
    """Reads, filters, redacts and shortens trajectories."""

    def __init__(self, conversion: Conversion) -> None:
        """Raises InvalidArgument or FailedPrecondition without the tokenizer."""
        self.conversion = conversion
        # The system prompt with its tools is the same in most trajectories.
        redact = Redactor().redact if conversion.redacts else str
        self._redact = lru_cache(_CACHE_SIZE)(redact)
        self._compressor = None
        if conversion.tokenizer:
            counter = load_counter(conversion.tokenizer)
            self._compressor = Compressor(counter, conversion.max_tokens)

    def convert(self, sources: Sequence[Line | Trajectory]) -> Sequence[Outcome]:
        """Return what becomes of each; many together are faster."""
        read = list(map(self._read, sources))
        chosen = [each for each in read if isinstance(each, Trajectory)]
        fitted = iter(self._compressor.fit_all(chosen) if self._compressor else chosen)
        return [
            each if isinstance(each, Outcome) else self._outcome(each, next(fitted))
            for each in read
        ]

    def _read(self, source: Line | Trajectory) -> Trajectory | Outcome:
        if isinstance(source, Line):
            try:
                source = parse_trajectory(source.text)
            except (InvalidArgument, msgspec.MsgspecError, UnicodeDecodeError) as error:
                return Outcome(problem=f"{source.location}: {error}")
        for name in self.conversion.filters:
            if FILTERS[name](source):
                return Outcome(left_out=name)
        return redact_trajectory(source, self._redact)

    def _outcome(self, trajectory: Trajectory, fitted: Trajectory | None) -> Outcome:
        digest = fingerprint(trajectory) if self.conversion.deduplicates else b""
        if fitted is None:
            return Outcome("too long", fingerprint=digest)
        return Outcome(
            fingerprint=digest,
            split=TRAIN if fitted.completed else FAILED,
            model=fitted.model,
            record=msgspec.json.encode(FORMATS[self.conversion.format](fitted)),
        )


@cache
def _converter(conversion: Conversion) -> Converter:
    return Converter(conversion)


def convert(conversion: Conversion, sources: Sequence[Line | Trajectory]) -> Sequence[Outcome]:
    """Convert with the process's converter; raises like Converter."""
    return _converter(conversion).convert(sources)
