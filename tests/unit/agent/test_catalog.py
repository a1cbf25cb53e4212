"""The model catalogue: spellings, what is stronger, prices, and listings of OpenRouter's kind."""

import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_service.models.catalog import DEFAULT_WINDOW, Catalog, ModelInfo, Override
from agent_service.models.costs import Price, count_usage
from agent_service.models.discovery import listed_models
from agent_service.records.model import ModelMessage
from agent_service.records.usage import Usage

PRICE = Price(input=3_000_000, output=15_000_000, cache_read=300_000, cache_write=3_750_000)
ANSWER = ModelMessage("Hi.", "", (), None, "stop", "", "custom")


Overrides = dict[str, Override]


async def opened(folder: Path, overrides: Overrides | None = None, *listed: ModelInfo) -> Catalog:
    async def fetch() -> tuple[ModelInfo, ...]:
        return listed

    catalog = Catalog(folder / "models.json", fetch, overrides)
    await catalog.open()
    return catalog


@pytest.mark.parametrize(
    "spelling",
    [
        "anthropic/claude-sonnet-4.5",
        "claude-sonnet-4.5",
        "claude-sonnet-4-5-20250929",
        "anthropic/claude-4.5-sonnet-20250929",
        "anthropic/claude-sonnet-4.5:beta",
    ],
)
async def test_a_model_is_known_by_every_spelling(tmp_path: Path, spelling: str) -> None:
    found = (await opened(tmp_path)).find(spelling)
    assert (found.id, found.window, found.price) == (spelling, 200_000, PRICE)


@pytest.mark.parametrize("name", ["qwen3-coder:30b", "kimi-k3", "scripted", ""])
async def test_an_unknown_model_is_accepted(tmp_path: Path, name: str) -> None:
    catalog = await opened(tmp_path)
    assert catalog.find(name) == ModelInfo(name)
    assert catalog.window_of(name) == DEFAULT_WINDOW
    assert catalog.cost_of(name, Usage(prompt_tokens=10)) is None


async def test_every_packaged_model_has_a_window_and_a_price(tmp_path: Path) -> None:
    models = (await opened(tmp_path)).search("")
    assert len(models) > 40
    assert [m.id for m in models if not (m.price and m.price.output and m.max_output)] == []
    assert all(m.max_output <= m.window for m in models)


async def test_a_free_variant_costs_nothing(tmp_path: Path) -> None:
    catalog = await opened(tmp_path)
    usage = Usage(prompt_tokens=1_000, completion_tokens=1_000)
    assert catalog.cost_of("deepseek/deepseek-v3.2:free", usage) == 0


async def test_speech_and_pictures_have_prices_and_are_no_models_to_talk_to(tmp_path: Path) -> None:
    dearer = Price(1, 2, 1, 1)
    catalog = await opened(tmp_path, {"gpt-image-2": Override(price=dearer)})
    assert catalog.cost_of("whisper-1", Usage(prompt_tokens=600)) == 6_000, "a minute"
    assert catalog.cost_of("fal-ai/nano-banana", Usage(completion_tokens=1_000)) == 39_000
    assert catalog.cost_of("piper", Usage(prompt_tokens=100)) == 0
    assert catalog.find("gpt-image-2").price == dearer
    assert [model.id for model in catalog.search("whisper")] == []


async def test_the_config_overrides_the_refresh_and_that_what_is_packaged(tmp_path: Path) -> None:
    overrides = {"gpt-5.4": Override(window=50_000)}
    cheap = Price(1, 2, 1, 1)
    listed = (ModelInfo("openai/gpt-5.4", 7_000, 70, cheap), ModelInfo("new/one", 9))
    catalog = await opened(tmp_path, overrides, *listed)
    assert await catalog.refresh() == 2
    again = await opened(tmp_path, overrides)
    for each in (catalog, again):
        found = each.find("openai/gpt-5.4")
        assert (found.window, found.max_output, found.price) == (50_000, 70, cheap)
        assert (each.window_of("new/one"), each.window_of("gpt-5.4-mini")) == (9, 400_000)


async def test_a_broken_file_of_a_refresh_is_as_none(tmp_path: Path) -> None:
    for text in ("", "[1]", '{"models": [3, {"id": 4}, {"id": "a/b", "window": "x"}]}', "{"):
        await asyncio.to_thread((tmp_path / "models.json").write_text, text, "utf-8")
        assert (await opened(tmp_path)).window_of("gpt-5.4") == 1_050_000


async def test_a_dated_version_in_a_listing_is_not_the_model_itself(tmp_path: Path) -> None:
    dated = ModelInfo("openai/gpt-4o-2024-05-13", 5)
    catalog = await opened(tmp_path, None, dated, ModelInfo("openai/gpt-4o:extended", 6))
    await catalog.refresh()
    assert catalog.window_of("gpt-4o") == 128_000
    assert catalog.window_of("openai/gpt-4o-2024-05-13") == 5


def test_cached_tokens_are_charged_as_such_and_fractions_are_rounded_up() -> None:
    usage = Usage(
        prompt_tokens=1_000, completion_tokens=10, cached_tokens=700, cache_write_tokens=200
    )
    # 100 x 3 + 700 x 0.3 + 200 x 3.75 + 10 x 15 micro-USD
    assert PRICE.cost(usage) == 300 + 210 + 750 + 150
    assert PRICE.cost(Usage(cached_tokens=1, prompt_tokens=1)) == 1
    assert PRICE.cost(replace(usage, reasoning_tokens=10)) == PRICE.cost(usage)
    assert PRICE.most(1_000, 10) == 3_750 + 150


async def test_what_the_provider_says_wins(tmp_path: Path) -> None:
    catalog = await opened(tmp_path)
    usage = Usage(prompt_tokens=1_000_000, cost_micro_usd=42)
    assert catalog.cost_of("gpt-5.4", usage) == 42
    assert catalog.cost_of("gpt-5.4", replace(usage, cost_micro_usd=None)) == 2_500_000


@pytest.mark.parametrize(
    ("asked", "said", "counts"),
    [
        ("gpt-5.4", "gpt-5.4-2026-03-05", "gpt-5.4"),
        ("gpt-5.4", "", "gpt-5.4"),
        ("gpt-5.4", "/models/some.gguf", "gpt-5.4"),
        ("gpt-5.4", "anthropic/claude-haiku-4.5", "anthropic/claude-haiku-4.5"),
    ],
)
async def test_an_answer_counts_for_who_gave_it(
    tmp_path: Path, asked: str, said: str, counts: str
) -> None:
    catalog = await opened(tmp_path)
    assert catalog.answered(asked, replace(ANSWER, model=said)) == counts


def test_usage_is_estimated_only_where_nobody_counted() -> None:
    assert count_usage(ANSWER, [b"x" * 400]).usage == Usage(prompt_tokens=100, completion_tokens=0)
    told = replace(ANSWER, usage=Usage(prompt_tokens=7))
    assert count_usage(told, [b"x" * 400]) is told


def test_a_listing_is_read_as_far_as_it_makes_sense() -> None:
    entry = {
        "id": "a/b",
        "context_length": 200_000,
        "pricing": {"prompt": "0.000003", "completion": 0.000015, "input_cache_read": "3e-7"},
        "top_provider": {"context_length": 100_000, "max_completion_tokens": 8_192},
    }
    router = {"id": "auto", "context_length": 1, "pricing": {"prompt": "-1", "completion": "-1"}}
    odd = [3, {"id": 7}, {"id": ""}, {"id": "c", "pricing": {"prompt": "NaN", "completion": "1"}}]
    found = listed_models(json.dumps({"data": [entry, router, *odd]}).encode())
    price = Price(3_000_000, 15_000_000, 300_000, 3_000_000)
    assert found[0] == ModelInfo("a/b", 100_000, 8_192, price, "refreshed")
    assert [(m.id, m.price) for m in found[1:]] == [("auto", None), ("c", None)]
    for text in (b"", b"[]", b'{"data": {}}', b"[" * 100_000):
        assert listed_models(text) == []
