"""How much may be remembered, by the model's window."""

import pytest

from agent_service.profiles.memory.entries import Limits, Target
from agent_service.records.errors import ModelNotConfigured

USUAL = {Target.MEMORY: 2200, Target.USER: 1375}


@pytest.mark.parametrize(
    ("window", "memory", "user"),
    [(8_000, 2200, 1375), (128_000, 2200, 1375), (256_000, 4400, 2750), (2_000_000, 8800, 5500)],
)
async def test_they_grow_with_the_window_and_never_shrink(
    window: int, memory: int, user: int
) -> None:
    async def tokens() -> int:
        return window

    assert await Limits(USUAL, tokens).now() == {Target.MEMORY: memory, Target.USER: user}
    assert await Limits(USUAL).now() == USUAL


async def test_without_a_model_they_are_the_usual_ones() -> None:
    async def tokens() -> int:
        raise ModelNotConfigured("none")

    assert await Limits(USUAL, tokens).now() == USUAL
