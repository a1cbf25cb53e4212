"""The chat in the terminal: a prompt, and above it whatever happens."""

import asyncio
import signal
from contextlib import aclosing

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.history import FileHistory
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console

from hermes.agent.v1 import turn_event_pb2
from hermes.gateway.v1.conversation_pb2 import ConverseRequest, ConverseResponse
from services.channels import Channels
from services.cli.console import printable
from services.cli.dialogue import Dialogue
from services.cli.turn_view import TurnView
from services.home import HomePaths
from services.ids import new_id
from services.lifecycle import Workers

WELCOME = "Ctrl-C interrupts, Ctrl-D leaves, /help lists the commands."

COMMANDS = ("/new", "/stop", "/approve", "/deny", "/status", "/help", "/quit")
LEAVE = ("/quit", "/exit")

_DECISIONS = {
    "y": turn_event_pb2.APPROVAL_DECISION_ONCE,
    "s": turn_event_pb2.APPROVAL_DECISION_SESSION,
    "n": turn_event_pb2.APPROVAL_DECISION_DENY,
}


class Talk:
    """One sitting at the terminal."""

    def __init__(self, channels: Channels, opening: ConverseRequest.Open, home: HomePaths) -> None:
        opening.takes_news = True
        self._dialogue = Dialogue(channels.to("gateway"), opening)
        self._console = Console()
        self._view = TurnView(self._console)
        self._home = home
        self._waiting: set[str] = set()
        self._turn = ""
        self._idle = asyncio.Event()
        self._approvals: asyncio.Queue[turn_event_pb2.ApprovalRequested] = asyncio.Queue()

    async def run(self) -> int:
        """Talk until the user leaves."""
        async with self._dialogue, Workers() as workers:
            reader = workers.start("responses", self._read())
            talker = workers.start("prompt", self._prompt(workers))
            done, _ = await asyncio.wait({reader, talker}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        return 0

    async def _read(self) -> None:
        async with aclosing(self._dialogue.responses()) as responses:
            async for response in responses:
                self._show(response)

    async def _prompt(self, workers: Workers) -> None:
        session: PromptSession[str] = PromptSession(
            history=FileHistory(str(self._home.run / "chat_history")),
            completer=WordCompleter(list(COMMANDS), sentence=True),
            complete_while_typing=False,
        )
        self._console.print(WELCOME, style="dim")
        while True:
            try:
                with patch_stdout(raw=True):
                    line = (await session.prompt_async("> ")).strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if line in LEAVE:
                return
            if line:
                await self._exchange(session, workers, line)

    async def _exchange(self, session: PromptSession[str], workers: Workers, line: str) -> None:
        """Send a line and follow what it causes, deciding what has to be decided."""
        self._idle.clear()
        message_id = new_id("msg")
        self._waiting.add(message_id)  # before it is sent: its answer may come meanwhile
        await self._dialogue.say(line, message_id)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(
            signal.SIGINT, lambda: workers.start("interrupt", self._dialogue.interrupt())
        )
        idle = workers.start("turn", self._idle.wait())
        while not idle.done():
            asked = workers.start("approval", self._approvals.get())
            await asyncio.wait({idle, asked}, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                await self._decide(session, asked.result())
            else:
                asked.cancel()

    async def _decide(
        self, session: PromptSession[str], asked: turn_event_pb2.ApprovalRequested
    ) -> None:
        self._console.print(f"{asked.tool} wants to run:", style="yellow")
        self._console.print(printable(asked.subject), style="bold", markup=False, highlight=False)
        answer = ""
        while answer not in _DECISIONS:
            try:
                with patch_stdout(raw=True):
                    typed = await session.prompt_async("allow? [y]es, this [s]ession, [n]o > ")
            except (KeyboardInterrupt, EOFError):
                typed = "n"
            answer = typed.strip().lower()[:1]
        await self._dialogue.decide(asked.approval_id, _DECISIONS[answer])

    def _show(self, response: ConverseResponse) -> None:
        match response.WhichOneof("kind"):
            case "accepted":
                self._waiting.discard(response.accepted.message_id)
                self._turn = response.accepted.turn_id
            case "reply":
                if not response.reply.message_id:
                    self._console.print("── news", style="dim")
                style = "red" if response.reply.is_error else ""
                text = printable(response.reply.text)
                self._console.print(text, style=style, markup=False, highlight=False)
                self._waiting.discard(response.reply.message_id)
            case "event":
                for event in response.event.events:
                    self._view.show(event)
                    if event.HasField("approval_requested"):
                        self._approvals.put_nowait(event.approval_requested)
                    if event.HasField("turn_finished") and response.event.turn_id == self._turn:
                        self._turn = ""
            case _:
                pass
        if not self._waiting and not self._turn:
            self._idle.set()
