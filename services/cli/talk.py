"""The chat in the terminal: what happens is written above the line in which one types.

One way in each direction: what the gateway says is shown as it comes, and what is entered is sent
in its order. Neither waits for the other, so that one can type while a turn runs.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from functools import partial
from typing import IO, cast

import grpc
import grpc.aio
from rich.console import Console

from hermes.agent.v1.turn_event_pb2 import TurnEvent
from hermes.gateway.v1.conversation_pb2 import ConverseRequest, ConverseResponse
from services.channels import Channels
from services.cli.command_completer import CommandCompleter
from services.cli.console import printable
from services.cli.dialogue import Dialogue
from services.cli.input_line import InputLine
from services.cli.markdown import rendered
from services.cli.questions import DECIDING, Approval, Question, Questions
from services.cli.recall import recall
from services.cli.received import Note, Receiver
from services.cli.turn_view import TurnView
from services.cli.typed_history import TypedHistory
from services.config import Settings
from services.errors import HermesError, message_of
from services.ids import new_id
from services.lifecycle import Workers

WELCOME = "Ctrl-C interrupts, Ctrl-D leaves, /help lists the commands."

LEAVE = ("/quit", "/exit")
STOP = "/stop"

IDLE, BUSY = "> ", "… "
WORKING = "working; Ctrl-C stops it"
DRAFT = "What you have typed is no answer to that: enter it first, or put it aside with Ctrl-U."
OVER = "That question is over. Enter says it to Hermes."

LATER = "; it will be tried again when hermes chat is opened"
RECALL_S = 3.0
"""What was said before is not waited for any longer."""
LEAVE_S = 3.0
"""Who leaves waits no longer for what was entered to be received."""


class Talk:
    """One sitting at the terminal."""

    def __init__(
        self,
        channels: Channels,
        opening: ConverseRequest.Open,
        settings: Settings,
        *,
        agent_is_near: bool = True,
    ) -> None:
        """Take the conversation to open; only an agent that is near can tell what was said."""
        goes_on = opening.latest or bool(opening.session_id)
        self._profile = opening.profile
        self._told_by = channels.to("agent") if goes_on and agent_is_near else None
        self._opened = asyncio.Event()
        opening.takes_news = True
        self._gateway = channels.to("gateway")
        self._dialogue = Dialogue(self._gateway, opening)
        self._completer = CommandCompleter()
        home = settings.home
        history = TypedHistory(home.run / "chat_history", settings.redactor())
        self._line = InputLine(history, self._completer, self)
        self._console = Console(file=cast("IO[str]", self._line))
        self._files = Receiver(self._gateway, self._profile, home)
        self._session_id = ""
        self._waiting: set[str] = set()
        """Messages of which nothing has been heard."""
        self._all_heard = asyncio.Event()
        self._turns: dict[str, TurnView] = {}
        """Those that have not ended, in the order in which they run."""
        self._shown: TurnView | None = None
        self._questions = Questions()
        self._asked: Question | None = None
        """What was asked last."""
        self._answers: Question | None = None
        """What the line answers; None where it is a message."""
        self._to_send: asyncio.Queue[Callable[[], Awaitable[object]]] = asyncio.Queue()

    async def run(self) -> int:
        """Talk until the user leaves."""
        async with self._dialogue, Workers() as workers:
            tasks = {
                workers.start("responses", self._read(workers)),
                workers.start("requests", self._send()),
                workers.start("prompt", self._prompt()),
            }
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        return 0

    def label(self, columns: int) -> tuple[str, str]:
        """What stands before what is typed, and a hint where nothing is."""
        if self._answers is not None and self._questions.is_open(self._answers):
            return self._answers.label(columns), ""
        return (BUSY, WORKING) if self._is_busy else (IDLE, "")

    def entered(self, line: str) -> bool:
        """Do what a line says; whether it stays where it is."""
        said, question = line.strip(), self._answers
        is_over = question is not None and not self._questions.is_open(question)
        if is_over and said and said not in LEAVE:
            self._answers = None
            self._note(OVER)
            return True
        if said:
            label = IDLE if question is None else question.label(self._console.width)
            self._line.echo(label, line.rstrip())
        if said.lower() in LEAVE:
            self._line.leave()
        elif said and question is not None:
            self._answer(question, said)
        elif said:
            self._say(said)
        self._ask()
        return False

    def stopped(self) -> bool:
        """Stop what runs; whether anything does."""
        if self._is_busy:
            self._to_send.put_nowait(self._dialogue.interrupt)
        elif self._line.is_empty:
            self._note("Ctrl-D leaves.")
        return self._is_busy

    def changed(self) -> None:
        """Let an empty line be for what is asked."""
        if self._line.is_empty:
            self._answers = self._questions.first

    def waits_for_room(self) -> bool:
        """Whether something is asked that the line is no answer to."""
        return self._questions.first is not None and self._answers is not self._questions.first

    @property
    def _is_busy(self) -> bool:
        return bool(self._waiting or self._turns)

    async def _read(self, workers: Workers) -> None:
        async with aclosing(self._dialogue.responses()) as responses:
            async for response in responses:
                if response.reply.HasField("attachment"):
                    await self._announced(response.reply, workers)
                    continue
                self._show(response)
                if response.HasField("opened"):
                    workers.start("files", self._receive_left())
                    workers.start("commands", self._completer.learn(self._gateway, self._profile))

    async def _send(self) -> None:
        while True:
            send = await self._to_send.get()
            await send()

    async def _announced(self, told: ConverseResponse.Reply, workers: Workers) -> None:
        try:
            note = await self._files.note(told)
        except (OSError, HermesError) as error:
            self._tell(f"{told.attachment.name} could not be fetched: {error}", "red")
        else:
            workers.start("file", self._receive(note))

    async def _receive_left(self) -> None:
        """Fetch what an earlier terminal has not, or what failed before the connection was back."""
        for note in await self._files.left():
            await self._receive(note)

    async def _receive(self, note: Note) -> None:
        """Fetch a file, and say where it is, or why there is none."""
        told, name, style = note.told, note.told.attachment.name, ""
        try:
            path = await self._files.fetch(note)
        except grpc.aio.AioRpcError as error:
            line, style = f"{name} could not be fetched: {message_of(error)}", "red"
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                line += LATER
        except (OSError, HermesError) as error:
            line, style = f"{name} could not be fetched: {error}{LATER}", "red"
        else:
            if path is None:
                return  # another terminal says where it is
            line = f"{told.text}{name}, {told.attachment.length_bytes:,} bytes, is in {path}"
        self._tell(line, style)

    def _tell(self, line: str, style: str) -> None:
        self._console.print("── news", style="dim")
        self._console.print(printable(line), style=style, markup=False, highlight=False)

    def _note(self, line: str) -> None:
        self._console.print(line, style="dim", markup=False, highlight=False)

    async def _prompt(self) -> None:
        await self._recall()
        self._note(WELCOME)
        await self._line.run()
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                while self._waiting:
                    self._all_heard.clear()
                    await self._all_heard.wait()

    async def _recall(self) -> None:
        """Show where the session was, unless that cannot be learned soon."""
        if self._told_by is None:
            return
        with suppress(TimeoutError, grpc.aio.AioRpcError):
            async with asyncio.timeout(RECALL_S):
                await self._opened.wait()
                await recall(self._told_by, self._session_id, self._profile, self._console)

    def _say(self, said: str) -> None:
        message_id = new_id("msg")
        self._waiting.add(message_id)  # before it is sent: its answer may come meanwhile
        self._to_send.put_nowait(partial(self._dialogue.say, said, message_id))

    def _answer(self, question: Question, said: str) -> None:
        is_command = self._completer.is_command(said)
        if said.lower() == STOP:
            self._to_send.put_nowait(self._dialogue.interrupt)
        elif is_command and not said.lower().startswith(DECIDING):
            self._say(said)
        elif not isinstance(question, Approval):
            self._to_send.put_nowait(partial(self._dialogue.answer, question.id, said))
            self._questions.end(question)
        elif (decision := question.decision(said)) is not None:
            self._to_send.put_nowait(partial(self._dialogue.decide, question.id, decision))
            self._questions.end(question)
        else:
            self._note(question.hint)

    def _ask(self) -> None:
        """Ask what comes first, where that is another question than before."""
        first = self._questions.first
        if self._line.is_empty:
            self._answers = first
        if first is None:
            self._line.take_back()
        elif first is not self._asked:
            self._console.print(first.text, highlight=False, soft_wrap=True)
            if not self._line.is_empty:
                self._note(DRAFT)
        self._asked = first
        self._line.draw()

    def _show(self, response: ConverseResponse) -> None:
        match response.WhichOneof("kind"):
            case "opened":
                self._session_id = response.opened.session_id
                self._opened.set()
            case "accepted":
                self._heard(response.accepted.message_id)
                self._turn(response.accepted.turn_id)
            case "reply":
                if not response.reply.message_id:
                    self._console.print("── news", style="dim")
                style = "red" if response.reply.is_error else ""
                text = rendered(printable(response.reply.text))
                self._console.print(text, style=style, highlight=False)
                self._heard(response.reply.message_id)
            case "event":
                for event in response.event.events:
                    self._follow(response.event.turn_id, event)
            case _:
                pass
        self._line.draw()

    def _heard(self, message_id: str) -> None:
        self._waiting.discard(message_id)
        self._all_heard.set()

    def _turn(self, turn_id: str) -> TurnView:
        if turn_id not in self._turns:
            self._turns[turn_id] = TurnView(self._console, self._line.add)
        return self._turns[turn_id]

    def _follow(self, turn_id: str, event: TurnEvent) -> None:
        view = self._turn(turn_id)
        if self._shown is not None and self._shown is not view:
            self._shown.pause()
        self._shown = view
        view.show(event)
        if gone := self._questions.follow(turn_id, event):
            self._note(gone)
        if event.HasField("turn_finished"):
            del self._turns[turn_id]
        self._ask()
