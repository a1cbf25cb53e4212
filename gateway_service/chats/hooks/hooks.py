"""Hooks: the owner's own programs in the home, called when something happens in a chat.

`hooks/<name>/HOOK.yaml` says which events a hook is for, and `handler.py` beside it has
`handle(event_type, context)`. A hook that fails or hangs is logged and changes nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

from msgspec import Struct, ValidationError

from gateway_service.chats.hooks.process import HookFailed, HookProcess
from gateway_service.config import GatewayConfig
from gateway_service.messages import CLI, Source, TurnRequest
from services.config.settings import ConfigError, Settings, is_secret_name
from services.config.sources import parse_yaml, plain
from services.home.texts import decode_text
from services.lifecycle import Workers
from services.validation import convert, object_of

_log = logging.getLogger(__name__)

COMMAND = "command:"
EVENTS = (
    "gateway:startup",
    "session:start",
    "session:end",
    "session:reset",
    "agent:start",
    "agent:step",
    "agent:end",
)
"""The events besides `command:<name>`."""
MAX_CHARS = 500
"""The most characters of a text in a context."""
MAX_WAITING = 1000
"""The most events that wait for a hook; further ones are dropped."""
LAST_S = 2.0
"""How long waiting events are worked on when the gateway stops."""
DENIED = "A hook of this Hermes does not allow this command."


class Hook(Struct, frozen=True):
    """A hook of the home."""

    name: str
    folder: Path
    description: str = ""
    events: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    """Variables that it gets although their names say that they are secret."""
    problem: str = ""
    """Why it is not used; empty if it is."""

    def takes(self, event: str) -> bool:
        return not self.problem and any(_matches(each, event) for each in self.events)


class _Manifest(Struct, frozen=True):
    name: str = ""
    description: str = ""
    events: str | tuple[str, ...] = ()
    environment: tuple[str, ...] = ()


def read_hooks(folder: Path) -> Sequence[Hook]:
    """Return the hooks in a folder, also those that cannot be used."""
    found = sorted(folder.glob("[!.]*/HOOK.yaml"))
    return [_read_hook(path) for path in found]


def _read_hook(path: Path) -> Hook:
    folder = path.parent
    try:
        said = convert(plain(parse_yaml(decode_text(path.read_bytes()), path)), _Manifest)
    except (OSError, UnicodeDecodeError, ConfigError, ValidationError) as error:
        return Hook(folder.name, folder, problem=f"HOOK.yaml cannot be read: {error}")
    events = (said.events,) if isinstance(said.events, str) else said.events
    unknown = [each for each in events if not _is_known(each)]
    problem = ""
    if not (folder / "handler.py").is_file():
        problem = "it has no handler.py"
    elif unknown or not events:
        problem = f"there is no event {unknown[0]}" if unknown else "HOOK.yaml names no events"
    name = said.name or folder.name
    return Hook(name, folder, said.description, events, said.environment, problem)


def _is_known(pattern: str) -> bool:
    return pattern.startswith(COMMAND) or any(_matches(pattern, event) for event in EVENTS)


def _matches(pattern: str, event: str) -> bool:
    return pattern == event or (pattern.endswith(":*") and event.startswith(pattern[:-1]))


class HookPolicy(Struct, frozen=True):
    """How hooks are run."""

    settings: Settings
    timeout_s: float

    async def prepare(self, hook: Hook, on_output: Callable[[str], None]) -> HookProcess:
        """Return a hook's process, which has not started yet."""
        environ = await asyncio.to_thread(self._environ, hook)  # secrets may be in files
        return HookProcess(hook.folder, environ, self.timeout_s, on_output)

    def _environ(self, hook: Hook) -> dict[str, str]:
        """Return the gateway's environment without secrets but those that the hook asks for."""
        redactor, environ = self.settings.redactor(), self.settings.environ
        kept = {
            name: value
            for name, value in environ.items()
            if not is_secret_name(name) and redactor.redact(value) == value
        }
        asked = {name: self.settings.variable(name) for name in hook.environment}
        kept |= {name: str(found.value) for name, found in asked.items() if found is not None}
        return {**kept, "HERMES_HOME": str(self.settings.home.root)}


class Hooks:
    """The hooks of the gateway's home, each with a process that stays for further events."""

    def __init__(self, policy: HookPolicy | None = None) -> None:
        """Without a policy there are none."""
        self._policy = policy
        self._running: Sequence[_RunningHook] = ()
        self._workers = Workers()

    async def __aenter__(self) -> Self:
        if self._policy is None:
            return self
        policy = self._policy
        hooks = await asyncio.to_thread(read_hooks, policy.settings.home.hooks)
        for hook in hooks:
            if hook.problem:
                _log.warning("the hook %s is not used: %s", hook.name, hook.problem)
        used = [hook for hook in hooks if not hook.problem]
        self._running = [
            _RunningHook(each, await policy.prepare(each, _log_of(each))) for each in used
        ]
        for each in self._running:
            self._workers.start(f"hook {each.hook.name}", each.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_S):
                for each in self._running:
                    await each.waiting.join()
        async with self._workers:
            pass
        for each in self._running:
            await each.process.close()

    @property
    def are_used(self) -> bool:
        """Return whether there is any hook."""
        return bool(self._running)

    def notify(self, event: str, context: Mapping[str, object]) -> None:
        """Tell hooks of an event, without waiting for them."""
        for each in self._running:
            if each.hook.takes(event):
                each.add(event, context)

    def notify_chat(self, event: str, source: Source, session_id: str, **more: object) -> None:
        """Tell hooks of an event in a chat; there are none for terminals."""
        if source.platform != CLI:
            self.notify(event, chat_context(source, session_id, **more))

    def notify_turn(self, event: str, turn: TurnRequest, **more: object) -> None:
        """Tell hooks of an event of a turn."""
        about = {"turn_id": turn.turn_id, "message": turn.text, **more}
        self.notify_chat(event, turn.source, turn.session_id, **about)

    def notify_reset(self, source: Source, key: str, old: str, new: str, reason: str) -> None:
        """Tell hooks that a chat continues in a new session."""
        about = {"session_key": key, "reason": reason}
        self.notify_chat("session:end", source, old, **about)
        self.notify_chat("session:reset", source, new, previous_session_id=old, **about)
        self.notify_chat("session:start", source, new, **about)

    async def veto(self, name: str, arguments: str, source: Source, session_id: str) -> str:
        """Ask the hooks about a command; return why it is denied, empty if it is not."""
        event = f"{COMMAND}{name}"
        asked = [each for each in self._running if each.hook.takes(event)]
        if source.platform == CLI or not asked:
            return ""
        more = {"command": name, "args": arguments, "message": f"/{name} {arguments}".rstrip()}
        context = chat_context(source, session_id, **more)
        answers = await asyncio.gather(*(each.ask(event, context) for each in asked))
        for hook, answer in zip(asked, map(object_of, answers), strict=True):
            if answer.get("decision") in ("deny", "handled"):
                _log.info("the hook %s answers /%s", hook.hook.name, name)
                return str(answer.get("message") or DENIED)
        return ""


def _log_of(hook: Hook) -> Callable[[str], None]:
    return partial(_log.info, "the hook %s: %s", hook.name)


class _RunningHook:
    def __init__(self, hook: Hook, process: HookProcess) -> None:
        self.hook = hook
        self.process = process
        self.waiting = asyncio.Queue[tuple[str, Mapping[str, object]]](MAX_WAITING)

    async def run(self) -> None:
        while True:
            event, context = await self.waiting.get()
            await self.ask(event, context)
            self.waiting.task_done()

    def add(self, event: str, context: Mapping[str, object]) -> None:
        try:
            self.waiting.put_nowait((event, context))
        except asyncio.QueueFull:
            _log.warning("the hook %s is too slow; it misses %s", self.hook.name, event)

    async def ask(self, event: str, context: Mapping[str, object]) -> object:
        """Return what the hook says; None if it failed."""
        try:
            return await self.process.call(event, context)
        except HookFailed as error:
            _log.warning("the hook %s failed at %s: %s", self.hook.name, event, error)
            return None


def chat_context(source: Source, session_id: str, **more: object) -> dict[str, object]:
    """Return the context of an event in a chat, with long texts cut."""
    texts = {name: text[:MAX_CHARS] for name, text in more.items() if isinstance(text, str)}
    return {
        "platform": source.platform,
        "user_id": source.user_id,
        "user_name": source.user_name,
        "chat_id": source.chat_id,
        "thread_id": source.thread_id,
        "chat_type": source.chat_type,
        "session_id": session_id,
        **more,
        **texts,
    }


class HookTrial(Struct, frozen=True):
    """How a hook took a test event."""

    name: str
    result: object
    error: str
    output: Sequence[str]
    """What its handler printed."""


async def try_hooks(
    settings: Settings, event: str, context: Mapping[str, object]
) -> Sequence[HookTrial]:
    """Call each hook that takes an event, in a new process, with a sample context and this one."""
    policy = HookPolicy(settings, settings.load(GatewayConfig).hook_timeout_s)
    hooks = await asyncio.to_thread(read_hooks, settings.home.hooks)
    fields = {"message": "Hello", "response": "Hello, Ada"}
    if event.startswith(COMMAND):
        fields = {"command": event.removeprefix(COMMAND), "args": ""}
    chat = Source("telegram", chat_id="1", user_id="1", user_name="Ada")
    sample = {**chat_context(chat, "20260101_000000_abcdef", **fields), **context}
    return [await _try(hook, policy, event, sample) for hook in hooks if hook.takes(event)]


async def _try(
    hook: Hook, policy: HookPolicy, event: str, context: Mapping[str, object]
) -> HookTrial:
    output = list[str]()
    process = await policy.prepare(hook, output.append)
    result, error = None, ""
    try:
        result = await process.call(event, context)
    except HookFailed as failed:
        error = failed.message
    await process.close()
    return HookTrial(hook.name, result, error, output)
