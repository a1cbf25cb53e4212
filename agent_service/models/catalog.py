"""The known models, with their windows, limits and prices.

Later sources win: the packaged list, the last refresh in the home, and `models` of config.yaml.
Other ids work too, but nothing is known about them.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agent_service.models.costs import Price
from agent_service.models.media.prices import PRICES
from agent_service.records.model import ModelMessage
from agent_service.records.usage import Usage
from services.home.paths import replace_file
from services.validation import decode

DEFAULT_WINDOW = 128_000
"""Assumed tokens of an unknown model; `models.<id>.window` overrides it."""

SMALL_WINDOW = 16_000
"""Models with fewer tokens get the lean tools, and answers of a quarter of them."""
ANSWER_SHARE = 4

PACKAGED, REFRESHED, CONFIGURED = "packaged", "refreshed", "config"
ENDPOINT = "endpoint"

_NAMED_BARE = frozenset({"anthropic", "openai", "google", "x-ai"})
"""Vendors whose endpoints omit the vendor from ids; names on local servers look alike."""

_FREE = ":free"
_REMEMBERED = 64
_DATE = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|\d{3}|latest)$")
_CLAUDE = re.compile(r"claude-(\d+(?:-\d+)?)-([a-z]+)")


class ModelInfo(Struct, frozen=True):
    """What is known of a model; 0 and None mean unknown."""

    id: str
    window: int = 0
    """Tokens of one request, including the answer."""
    max_output: int = 0
    price: Price | None = None
    source: str = ""
    """The strongest source that knows the model; empty if none does."""
    sees: bool | None = None


class Override(Struct, frozen=True):
    """The overrides of config.yaml for a model; None keeps other values."""

    window: int | None = None
    max_output: int | None = None
    price: Price | None = None
    sees: bool | None = None


Fetch = Callable[[], Awaitable[Sequence[ModelInfo]]]


class Catalog:
    """Models by id, in any spelling that endpoints use."""

    def __init__(
        self, file: Path, fetch: Fetch, overrides: Mapping[str, Override] | None = None
    ) -> None:
        """Take the file of the last refresh, which may be missing, and the source of a new one."""
        self._file = file
        self._fetch = fetch
        self._overrides = dict(overrides or {})
        self._override_keys = {key: name for name in self._overrides for key in _keys(name)}
        self._known: dict[str, ModelInfo] = {}
        self._by_key: dict[str, ModelInfo] = {}
        self._served: dict[str, int] = {}
        self.find = lru_cache(_REMEMBERED)(self._find)
        """Returns what is known of a model by its id, in any spelling."""

    async def open(self) -> None:
        """Read the packaged list and the last refresh, without fetching."""
        packaged, refreshed = await asyncio.to_thread(_read, self._file)
        self._take((*packaged, *refreshed))

    async def refresh(self) -> int:
        models = await self._fetch()
        await asyncio.to_thread(_write, self._file, models)
        await self.open()
        return len(models)

    def _find(self, model: str) -> ModelInfo:
        found = self._known.get(model) or self._by_key.get(_key(model))
        keys = (key for key in _keys(model) if key in self._override_keys)
        named = model if model in self._overrides else self._override_keys.get(next(keys, ""))
        info = ModelInfo(model) if found is None else replace(found, id=model)
        info = replace(info, window=self._served.get(model, info.window))
        if model.endswith(_FREE) and model not in self._known:
            info = replace(info, price=Price(0, 0, 0, 0))
        if info.price is None:
            info = replace(info, price=PRICES.get(model))
        return info if named is None else _overridden(info, self._overrides[named])

    def learn_window(self, model: str, tokens: int) -> None:
        """Take what a server says about a model's context; 0 is nothing."""
        if tokens:
            self._served[model] = tokens
            self.find.cache_clear()

    def window_of(self, model: str) -> int:
        """Tokens of a request of the model, including the answer."""
        return self.find(model).window or DEFAULT_WINDOW

    def longest_answer(self, model: str, asked: int) -> int:
        """Tokens that an answer of the model may have if `asked` are requested."""
        info = self.find(model)
        room = info.window // ANSWER_SHARE if info.window < SMALL_WINDOW else 0
        return min(asked, info.max_output or asked, room or asked)

    def cost_of(self, model: str, usage: Usage) -> int | None:
        """A call's cost in micro-USD: the provider's figure, else by price, else None."""
        if usage.cost_micro_usd is not None:
            return usage.cost_micro_usd
        price = self.find(model).price
        return None if price is None else price.cost(usage)

    def answered(self, asked: str, message: ModelMessage) -> str:
        """The model name to record: the requested one unless another answered."""
        said = message.model
        if not said or _key(said) == _key(asked) or not self.find(said).source:
            return asked
        return said

    def search(self, query: str, own: Sequence[ModelInfo] = ()) -> list[ModelInfo]:
        """The models whose ids contain every word of the query: an endpoint's own, then others."""
        words = query.lower().split()
        names = {*self._known, *(n for n in self._overrides if _key(n) not in self._by_key)}
        names -= {info.id for info in own}
        found = [*map(self._completed, own), *map(self.find, sorted(names))]
        return [info for info in found if all(word in info.id.lower() for word in words)]

    def _completed(self, listed: ModelInfo) -> ModelInfo:
        known = self.find(listed.id)
        return replace(
            listed,
            window=known.window or listed.window,
            max_output=known.max_output or listed.max_output,
            price=listed.price if known.price is None else known.price,
            sees=listed.sees if known.sees is None else known.sees,
        )

    def _take(self, models: Iterable[ModelInfo]) -> None:
        known: dict[str, ModelInfo] = {}
        by_key: dict[str, ModelInfo] = {}
        for info in models:
            known[info.id] = info
        # An unlisted spelling means the model itself, not a dated or special version.
        for info in sorted(known.values(), key=lambda one: _is_plain(one.id)):
            for key in _keys(info.id):
                by_key[key] = info
        self._known, self._by_key = known, by_key
        self.find.cache_clear()


def _overridden(info: ModelInfo, override: Override) -> ModelInfo:
    return replace(
        info,
        window=info.window if override.window is None else override.window,
        max_output=info.max_output if override.max_output is None else override.max_output,
        price=info.price if override.price is None else override.price,
        sees=info.sees if override.sees is None else override.sees,
        source=CONFIGURED,
    )


def _key(model: str) -> str:
    """A normalized id: spellings differ in dots, dates, variants and order."""
    return _CLAUDE.sub(r"claude-\2-\1", _DATE.sub("", _spelled(model.partition(":")[0])))


def _spelled(model: str) -> str:
    return model.lower().replace(".", "-")


def _is_plain(model: str) -> bool:
    return _DATE.sub("", _spelled(model)) == _spelled(model) and ":" not in model


def _keys(model: str) -> tuple[str, ...]:
    key = _key(model)
    vendor, _, bare = key.partition("/")
    return (key, bare) if vendor in _NAMED_BARE else (key,)


class _File(Struct):
    models: Sequence[ModelInfo]


def _read(file: Path) -> tuple[Sequence[ModelInfo], Sequence[ModelInfo]]:
    packaged = _models((files("agent_service.models") / "catalog.json").read_bytes(), PACKAGED)
    try:
        return packaged, _models(file.read_bytes(), REFRESHED)
    except (OSError, msgspec.MsgspecError):
        return packaged, ()  # missing or outdated; a refresh replaces it


def _models(catalogue: bytes, source: str) -> Sequence[ModelInfo]:
    told = decode(catalogue, _File)
    return [replace(info, source=source) for info in told.models]


def _write(file: Path, models: Sequence[ModelInfo]) -> None:
    text = msgspec.json.format(msgspec.json.encode(_File(models)), indent=1)
    replace_file(file, text.decode() + "\n", 0o600)
