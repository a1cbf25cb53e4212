"""What `hermes doctor` says of the model."""

from pathlib import Path

import pytest

from agent_service.assembly.checks import checks
from services.config.settings import load_settings
from services.runtime.checks import Verdict
from tests.fakes.model import answers, fake_model


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
