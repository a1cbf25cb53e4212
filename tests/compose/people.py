"""People who write to a stack by Telegram, twenty messages a second, whatever happens to it."""

import asyncio
from collections import Counter, deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from anyio.from_thread import BlockingPortal, start_blocking_portal

from tests.fakes.telegram import TOKEN, FakeTelegram, fake_telegram
from tests.support.docker_engine import machine_address

MESSAGES_PER_S = 20
ANSWERED_WITHIN_S = 120.0
PLACEHOLDER = "…"
FEWEST_CHATS = 40
"""Nobody says the next thing in a chat before the last one is answered: others do then."""


def answer(text: str) -> str:
    """What a model that repeats everything answers."""
    return f"You said: {text}"


@dataclass(slots=True)
class People:
    """Each of their messages has a number."""

    telegram: FakeTelegram
    portal: BlockingPortal
    """To the loop in which Telegram runs, and they write."""
    over: bool = False
    said: list[str] = field(default_factory=list[str])
    wrote_s: float = 0
    """How long they wrote."""
    _idle: deque[int] = field(default_factory=lambda: deque(range(1, FEWEST_CHATS + 1)))
    _waiting: dict[int, str] = field(default_factory=dict[int, str])

    @property
    def env(self) -> str:
        """The .env of a stack that reaches this Telegram."""
        return (
            f"TELEGRAM_BOT_TOKEN={TOKEN}\nTELEGRAM_ALLOWED_USERS=7\n"
            f"TELEGRAM_BASE_URL={self.telegram.url}\n"
        )

    @contextmanager
    def writing(self) -> Generator[None]:
        """Have them write for the time of the block, and at its end wait as write does."""
        writes = self.portal.start_task_soon(self.write)
        try:
            yield
        finally:
            self.over = True
            writes.result()

    async def write(self) -> None:
        """Write until it is over, and all is answered."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while not self.over:
            text = f"message {len(self.said)}"
            self.said.append(text)
            self._note_answers()
            chat_id = self._idle.popleft() if self._idle else len(self._waiting) + 1
            self._waiting[chat_id] = answer(text)
            await self.telegram.say(chat_id, text)
            await asyncio.sleep(begun + len(self.said) / MESSAGES_PER_S - loop.time())
        self.wrote_s = loop.time() - begun
        await self.telegram.until(self._are_answered, ANSWERED_WITHIN_S)

    def shown(self) -> Counter[str]:
        """How often what is in the chats."""
        texts = (text for chat_id in self.telegram.chats for text in self.telegram.texts(chat_id))
        return Counter(text for text in texts if text != PLACEHOLDER)

    def _are_answered(self) -> bool:
        self._note_answers()
        return not self._waiting

    def _note_answers(self) -> None:
        for chat_id, wanted in list(self._waiting.items()):
            if any(text.endswith(wanted) for text in self.telegram.texts(chat_id)):
                del self._waiting[chat_id]
                self._idle.append(chat_id)


@contextmanager
def people() -> Generator[People]:
    """People at a Telegram that containers of this machine reach, for the time of the block."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(fake_telegram(machine_address())) as telegram,
    ):
        yield People(telegram, portal)
