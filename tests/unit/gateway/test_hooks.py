"""Hooks: how they are read, and what becomes of those that fail, hang or print."""

import asyncio
import logging
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway_service.accounts.checks import checks
from gateway_service.chats.hooks.hooks import HookPolicy, Hooks, read_hooks, try_hooks
from gateway_service.messages import CLI, Source
from tests.support.markdown import ROOT, page
from tests.unit.services.settings import settings

CHAT = Source("telegram", "5", user_id="7")
DENIES = "def handle(event, context): return {'decision': 'deny', 'message': 'Not today.'}"


def write_hook(home: Path, name: str, events: str, handler: str, more: str = "") -> Path:
    """Write a hook into a home."""
    folder = home / "hooks" / name
    folder.mkdir(parents=True)
    (folder / "HOOK.yaml").write_text(f"name: {name}\nevents: {events}\n{more}")
    (folder / "handler.py").write_text(handler)
    return folder


async def add_hook(home: Path, name: str, events: str, handler: str, more: str = "") -> Path:
    return await asyncio.to_thread(write_hook, home, name, events, handler, more)


async def policy(home: Path, timeout_s: float = 10.0, **environ: str) -> HookPolicy:
    found = await asyncio.to_thread(settings, home, environ={"PATH": os.defpath, **environ})
    return HookPolicy(found, timeout_s)


async def result(home: Path, event: str, **environ: str) -> Any:
    """What the only hook of an event returns."""
    [trial] = await try_hooks(
        (await policy(home, 10.0, **environ)).settings, event, {"message": "hi"}
    )
    assert not trial.error, trial.error
    return trial.result


def test_hooks_are_read_leniently_and_broken_ones_say_why(tmp_path: Path) -> None:
    write_hook(tmp_path, "a", "[command:*, 'agent:end']", DENIES, "author: me\n")
    write_hook(tmp_path, "b", "session:start", DENIES)
    write_hook(tmp_path, "c", "[agent:begin]", DENIES)
    write_hook(tmp_path, "d", "{", DENIES)
    (write_hook(tmp_path, "e", "[agent:*]", "") / "handler.py").unlink()
    write_hook(tmp_path, ".f", "[agent:*]", DENIES)
    a, b, *broken = read_hooks(tmp_path / "hooks")
    assert a.takes("command:new")
    assert a.takes("agent:end")
    assert not a.takes("agent:start")
    assert b.events == ("session:start",)
    problems = [hook.problem for hook in broken]
    assert problems[0] == "there is no event agent:begin"
    assert "not valid YAML" in problems[1]
    assert problems[2:] == ["it has no handler.py"]
    assert read_hooks(tmp_path / "nowhere") == []


@pytest.mark.parametrize("word", ["def", "async def"])
async def test_a_handler_is_called_with_the_event(tmp_path: Path, word: str) -> None:
    handler = f"{word} handle(event_type, context): return [event_type, context['message']]"
    await add_hook(tmp_path, "a", "[agent:*]", handler)
    assert await result(tmp_path, "agent:end") == ["agent:end", "hi"]


async def test_what_a_handler_prints_or_reads_does_not_disturb_it(tmp_path: Path) -> None:
    handler = (
        "import os, subprocess, sys\n"
        "def handle(event, context):\n"
        "    print('{\"result\": 1}')\n"
        "    subprocess.run(['echo', 'from a program'], check=True)\n"
        "    os.write(1, b'raw')\n"
        "    return sys.stdin.read() + 'fine'\n"
    )
    await add_hook(tmp_path, "a", "[agent:end]", handler)
    [trial] = await try_hooks((await policy(tmp_path)).settings, "agent:end", {})
    assert (trial.result, trial.error) == ("fine", "")
    assert trial.output == ['{"result": 1}', "from a program", "raw"]


@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        ("def handle(event, context): return 1 / 0", "ZeroDivisionError"),
        ("import sys\ndef handle(event, context): sys.exit()", "SystemExit"),
        ("def handle(event, context): return {1, 2}", "not JSON serializable"),
        ("import nowhere", "No module named 'nowhere'"),
        ("x = 1", "has no attribute 'handle'"),
        ("import os\ndef handle(event, context): os._exit(3)", "its process ended"),
        ("import time\ndef handle(event, context): time.sleep(60)", "longer than 2.5 s"),
        ("def handle(event, context): return 'x' * 100_000", "longer than 65,536 bytes"),
    ],
)
async def test_a_broken_hook_denies_nothing(
    tmp_path: Path, handler: str, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    await add_hook(tmp_path, "broken", "[command:*]", handler)
    async with Hooks(await policy(tmp_path, timeout_s=2.5)) as hooks:
        assert await hooks.veto("new", "", CHAT, "s") == ""
    assert problem in caplog.text


async def test_a_process_stays_and_is_replaced_when_it_died(tmp_path: Path) -> None:
    handler = (
        "import os\n"
        "calls = 0\n"
        "def handle(event, context):\n"
        "    global calls\n"
        "    calls += 1\n"
        "    if context['args'] == 'die': os._exit(1)\n"
        "    return {'decision': 'deny', 'message': f'call {calls} of {os.getpid()}'}\n"
    )
    await add_hook(tmp_path, "a", "[command:*]", handler)
    async with Hooks(await policy(tmp_path)) as hooks:
        first, second = [await hooks.veto("new", "", CHAT, "s") for _ in range(2)]
        assert await hooks.veto("new", "die", CHAT, "s") == ""
        third = await hooks.veto("new", "", CHAT, "s")
        os.kill(int(third.split()[-1]), signal.SIGKILL)
        await asyncio.sleep(0.2)
        fourth = await hooks.veto("new", "", CHAT, "s")
        pid = int(fourth.split()[-1])
    assert first.startswith("call 1 of ")
    assert second == first.replace("call 1", "call 2")
    assert third.startswith("call 1 of ")
    assert fourth.startswith("call 1 of ")
    assert len({first, third, fourth}) == 3
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_an_edited_handler_is_loaded_again(tmp_path: Path) -> None:
    folder = await add_hook(tmp_path, "a", "[command:*]", DENIES)
    async with Hooks(await policy(tmp_path)) as hooks:
        assert await hooks.veto("new", "", CHAT, "s") == "Not today."
        changed = DENIES.replace("Not today", "Tomorrow")
        await asyncio.to_thread((folder / "handler.py").write_text, changed)
        assert await hooks.veto("new", "", CHAT, "s") == "Tomorrow."


async def test_events_reach_a_hook_in_order_and_nobody_waits_for_it(tmp_path: Path) -> None:
    handler = (
        "def handle(event, context):\n"
        "    with open('seen', 'a') as file: print(event, context['message'], file=file)\n"
    )
    folder = await add_hook(tmp_path, "a", "[agent:start, agent:end]", handler)
    async with Hooks(await policy(tmp_path)) as hooks:
        for event in ("agent:start", "agent:step", "agent:end"):
            hooks.notify_chat(event, CHAT, "s", message="x" * 600)
        hooks.notify_chat("agent:end", Source(CLI, "s"), "s", message="typed in a terminal")
        assert await hooks.veto("new", "", CHAT, "s") == ""
    seen = await asyncio.to_thread((folder / "seen").read_text)
    assert seen == "".join(f"{event} {'x' * 500}\n" for event in ("agent:start", "agent:end"))


async def test_secrets_of_the_gateway_stay_out_of_the_environment(tmp_path: Path) -> None:
    handler = "import os\ndef handle(event, context): return dict(os.environ)"
    asked = "environment: [NTFY_TOKEN, NOTED_KEY, MISSING]\n"
    await add_hook(tmp_path, "a", "[gateway:startup]", handler, asked)
    kept = "NOTED_KEY=in-the-file\nTELEGRAM_BOT_TOKEN=1:abc\n"
    await asyncio.to_thread((tmp_path / ".env").write_text, kept)
    given = {
        "OPENAI_API_KEY": "sk-1234567890",
        "HERMES_DATABASE_URL": "postgresql://u:a-long-password@db/x",
        "NTFY_TOKEN": "asked-for",
        "LANG": "C",
        "ANOTHER_TOKEN_FILE": str(tmp_path / ".env"),
    }
    found: Mapping[str, str] = await result(tmp_path, "gateway:startup", **given)
    wanted = {"NTFY_TOKEN": "asked-for", "NOTED_KEY": "in-the-file", "LANG": "C"}
    assert wanted.items() <= found.items()
    assert found["HERMES_HOME"] == str(tmp_path)
    async with Hooks(await policy(tmp_path, 10.0, **given)):
        pass
    assert not {"OPENAI_API_KEY", "HERMES_DATABASE_URL", "TELEGRAM_BOT_TOKEN"} & found.keys()


async def test_a_broken_hook_is_named_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await add_hook(tmp_path, "odd", "[agent:begin]", DENIES)
    with caplog.at_level(logging.WARNING):
        async with Hooks(await policy(tmp_path)):
            pass
    assert "the hook odd is not used: there is no event agent:begin" in caplog.text


async def test_doctor_names_hooks_that_are_not_used(tmp_path: Path) -> None:
    await add_hook(tmp_path, "odd", "[agent:begin]", DENIES)
    await add_hook(tmp_path, "well", "[agent:end]", DENIES)
    yaml = "platforms: {webhook: {extra: {secret: 0123456789abcdef0123, routes: {a: {}}}}}"
    webhook, hook = await checks(await asyncio.to_thread(settings, tmp_path, yaml))
    assert (webhook.name, webhook.verdict, webhook.message) == ("webhook", "ok", "1 route: a")
    assert hook.message == "odd is not used: there is no event agent:begin"


async def test_the_documented_hook_works(tmp_path: Path) -> None:
    document = await asyncio.to_thread(page, ROOT / "docs/hooks.md")
    manifest, handler = (next(document.blocks(name)).text for name in ("yaml", "python"))
    folder = await add_hook(tmp_path, "guard", "[agent:end]", handler)
    await asyncio.to_thread((folder / "HOOK.yaml").write_text, manifest)
    assert await result(tmp_path, "agent:end") is None
    assert await asyncio.to_thread((folder / "answers.log").read_text) == "1 Hello, Ada\n"
    denied = await result(tmp_path, "command:new")
    assert denied is None or "between 8 and 18" in denied["message"]
