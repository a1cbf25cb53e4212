"""What `hermes doctor` says of the model."""

import asyncio
from pathlib import Path

import pytest

from agent_service.assembly.checks import checks
from services.config.settings import load_settings
from services.runtime.checks import Verdict
from tests.fakes.model import answers, fake_model

UNPRICED = {
    "OPENROUTER_BASE_URL": "http://127.0.0.1:9/v1",
    "OPENROUTER_API_KEY": "sk-or-v1-test",
    "HERMES_MODEL": "unheard-of",
}


@pytest.mark.parametrize(
    ("window", "verdict", "told"),
    [
        (4_096, Verdict.NOTE, "4,096 tokens of context: sessions get the lean tools"),
        (32_768, Verdict.OK, "32,768 tokens of context"),
        (0, Verdict.OK, "scripted at http://127.0.0.1"),
    ],
)
async def test_a_local_model_with_little_context_is_remarked_on(
    tmp_path: Path, window: int, verdict: Verdict, told: str
) -> None:
    async with fake_model({**answers({"text": "Hi."}), "window": window}) as model:
        environ = {"HERMES_BASE_URL": model.url}
        found = await checks(load_settings({"home": str(tmp_path)}, environ))
    (check,) = [one for one in found if one.name == "model"]
    assert check.verdict is verdict
    assert told in check.message


@pytest.mark.parametrize(
    ("config", "is_told"),
    [
        ("budget: {day: {usd: 5}}", True),
        ("budget: {day: {tokens: 5}}", False),
        ("budget: {day: {usd: 5}, unpriced: free}", False),
        ("budget: {day: {usd: 5}}\nmodels: {unheard-of: {price: {input: 1, output: 2}}}", False),
    ],
)
async def test_a_budget_in_dollars_that_stops_the_model_is_remarked_on(
    tmp_path: Path, config: str, *, is_told: bool
) -> None:
    await asyncio.to_thread((tmp_path / "config.yaml").write_text, config)
    settings = await asyncio.to_thread(load_settings, {"home": str(tmp_path)}, UNPRICED)
    found = await checks(settings)
    told = [one for one in found if one.name == "budget"]
    assert [one.verdict for one in told] == [Verdict.NOTE] * is_told
    assert all("the price of unheard-of is not known" in one.message for one in told)
