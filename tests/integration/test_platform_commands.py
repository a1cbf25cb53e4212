"""`hermes send`, `hermes pairing` and `hermes gateway directory` beside a gateway with a bot."""

import asyncio
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from services.cli.command import Command, Context
from services.cli.main import parser_of
from services.errors import FailedPrecondition, InvalidArgument
from tests.fakes.telegram import fake_telegram
from tests.integration.gateway_parts import Hermes
from tests.integration.test_gateway_directory import bot
from tests.integration.test_gateway_pairing import BOB, code_of


async def run(running: Hermes, name: str, *arguments: str) -> None:
    """Do what `hermes NAME` does with these arguments."""
    parsed = await asyncio.to_thread(lambda: parser_of(name).parse_args(arguments))
    command: Command = import_module(f"services.cli.platforms.{name}").COMMAND
    actions = {action.name: action.function for action in command.actions}
    function: Any = actions[arguments[0]] if actions else command.function
    await function(Context(parsed, running.operator))


async def test_a_script_sends_a_text_and_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.pdf"
    await asyncio.to_thread(report.write_bytes, b"%PDF")
    async with fake_telegram() as telegram, bot(tmp_path, telegram) as (_, running):
        await run(running, "send", "telegram:7", "The **report**.", "--file", str(report))
        await telegram.until(lambda: telegram.texts(7) == ["The report."])
        assert capsys.readouterr().out == "sent to telegram:7\n"
        await run(running, "send", "telegram:7", "more", "--json")
        assert json.loads(capsys.readouterr().out)["state"] == "sent"
        assert telegram.texts(7)[-1] == "more"
        telegram.faults.planned["sendMessage"] = ["forbidden"]
        with pytest.raises(FailedPrecondition, match="blocked"):
            await run(running, "send", "telegram:8", "hello")
        with pytest.raises(InvalidArgument, match="nothing to send"):
            await run(running, "send", "telegram:8", " ")
        with pytest.raises(InvalidArgument, match="cannot be read"):
            await run(running, "send", "telegram:8", "--file", str(tmp_path / "none"))
        await run(running, "send", "cli", "hello")
        assert capsys.readouterr().out == "to be sent to cli:terminal\n"


async def test_an_owner_lets_a_person_in_and_sees_their_chat(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"GATEWAY_UNAUTHORIZED_DM_BEHAVIOR": "pair"}
    async with fake_telegram() as telegram, bot(tmp_path, telegram, **given) as (_, running):
        code = await code_of(telegram, BOB)
        await run(running, "pairing", "list")
        shown = capsys.readouterr().out
        assert "waiting" in shown
        assert code not in shown
        await run(running, "pairing", "approve", code, "--admin")
        assert "Ada (8) may talk to Hermes on telegram, with the commands of admins" in (
            capsys.readouterr().out
        )
        await run(running, "pairing", "approve", code)
        assert "this code was used before; Ada (8) may talk" in capsys.readouterr().out
        await telegram.say(BOB, "hello", user_id=BOB)
        await telegram.until(lambda: "re: hello" in telegram.texts(BOB))
        await run(running, "gateway", "directory", "telegram", "--json")
        [chat] = json.loads(capsys.readouterr().out)
        assert (chat["target"], chat["name"], chat["is_home"]) == ("telegram:8", "Ada", False)
        with pytest.raises(grpc.aio.AioRpcError, match="slack is not connected here; there is cli"):
            await run(running, "gateway", "directory", "slack")
        await run(running, "pairing", "revoke", "telegram", "8", "--json")
        revoked = json.loads(capsys.readouterr().out)
        assert (revoked["platform"], revoked["user_id"]) == ("telegram", "8")
        await run(running, "pairing", "list", "--json")
        assert json.loads(capsys.readouterr().out) == []
        await run(running, "gateway", "directory")
        assert "No chat is known yet" in capsys.readouterr().out
