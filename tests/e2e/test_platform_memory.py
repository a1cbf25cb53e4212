"""How much memory connected platforms take."""

import asyncio
import re
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.e2e.backends import sandboxed
from tests.e2e.deployment import Deployment, one_process, running
from tests.fakes import slack, telegram, whatsapp
from tests.fakes.discord import fake_discord
from tests.fakes.slack import fake_slack
from tests.fakes.telegram import fake_telegram
from tests.fakes.whatsapp import fake_whatsapp
from tests.support.ports import free_port

MOST_MIB, WITHIN_S = 60, 60.0
NO_MODEL = "http://127.0.0.1:9/v1"


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_four_platforms_take_little(tmp_path: Path) -> None:
    async with (
        fake_discord() as discord,
        fake_slack() as workspace,
        fake_telegram() as bots,
        fake_whatsapp() as number,
    ):
        variables = {
            "API_SERVER_PORT": f"{free_port()}",
            "DISCORD_BOT_TOKEN": discord.token,
            "DISCORD_BASE_URL": discord.url,
            "SLACK_BOT_TOKEN": slack.TOKEN,
            "SLACK_APP_TOKEN": slack.APP_TOKEN,
            "SLACK_BASE_URL": workspace.url,
            "TELEGRAM_BOT_TOKEN": telegram.TOKEN,
            "TELEGRAM_BASE_URL": bots.url,
            "WHATSAPP_TOKEN": whatsapp.TOKEN,
            "WHATSAPP_PHONE_NUMBER_ID": whatsapp.NUMBER,
            "WHATSAPP_APP_SECRET": whatsapp.SECRET,
            "WHATSAPP_VERIFY_TOKEN": whatsapp.VERIFY,
            "WHATSAPP_BASE_URL": number.url,
        }
        none = await asyncio.to_thread(_measure_mib, tmp_path / "none", {}, 0)
        four = await asyncio.to_thread(_measure_mib, tmp_path / "four", variables, 4)
    assert none < four < none + MOST_MIB


def _measure_mib(folder: Path, variables: Mapping[str, str], count: int) -> float:
    """Return the memory of its own that `hermes up` has once so many platforms are connected."""
    made = one_process(folder, NO_MODEL, sandboxed("bubblewrap"), **variables)
    # What is forked shares what it has imported.
    made.servers["up"].home = replace(made.servers["up"].home, forks=False)
    with running(made) as deployment:
        end = time.monotonic() + WITHIN_S
        while _count_connected(deployment) < count:
            assert time.monotonic() < end, deployment.servers["up"].said()
        rollup = Path(f"/proc/{deployment.servers['up'].pid}/smaps_rollup").read_text("ascii")
    return sum(map(int, re.findall(r"Private_\w+: +(\d+)", rollup))) / 1024


def _count_connected(deployment: Deployment) -> int:
    listed = deployment.client.run("gateway", "status", "--json").json
    return sum(each["state"] == "connected" for each in listed)
