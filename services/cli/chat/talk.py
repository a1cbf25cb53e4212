"""The interactive chat: one can type below the output while a turn runs."""

import asyncio
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path

import grpc
import grpc.aio

from hermes.agent.v1.session_pb2 import Session
from hermes.agent.v1.turn_event_pb2 import TurnEvent
from hermes.gateway.v1.conversation_pb2 import ConverseRequest, ConverseResponse
from services.cli.chat.attachments import MessageSender
from services.cli.chat.clipboard import paste_picture
from services.cli.chat.completer import CommandCompleter
from services.cli.chat.dialogue import Dialogue
from services.cli.chat.downloads import Downloads
from services.cli.chat.input_line import InputLine, TypedHistory, View
from services.cli.chat.questions import DECIDING, Question, ended_in
from services.cli.chat.recall import recall
from services.cli.chat.screen import Screen, styles_of
from services.cli.chat.status import FRAMES_PER_S, Status
from services.cli.chat.tool_view import Lines
from services.cli.chat.turn_view import TurnView
from services.config.settings import Settings
from services.home.message_files import Attachment
from services.lifecycle import Workers
from services.rpc.channels import Channels

WELCOME = (
    "Ctrl-C interrupts, Ctrl-D leaves, /help lists the commands, @ names files, ! runs a command."
)

LEAVE = ("/quit", "/exit")
STOP, EDIT = "/stop", "/edit"

BUSY = "… "
WORKING = "working; press Ctrl-C to stop"
DRAFT = (
    "Your draft is not the answer. Send it with Enter, or cut it with Ctrl-U (Ctrl-Y pastes it)."
)
NEWS = "── news"
OVER = "The question is closed. Press Enter to send your text as a message."

MOVED = "If you moved it, press Ctrl-D and start Hermes with --home and its new place."

HOME_S = 1.0
"""How often to look whether the home is in its place."""
RECALL_S = 3.0
"""The timeout of loading earlier messages."""
LEAVE_S = 3.0
"""How long leaving waits until the input is received."""


async def watch_home(home: Path, show: Callable[[str, str], None], every_s: float = HOME_S) -> None:
    """Say it once the home is no longer in its place."""
    is_there = True
    while is_there:
        await asyncio.sleep(every_s)
        is_there = await asyncio.to_thread(home.is_dir)
    show(f"{home} is gone, so what you say from now on may not be kept. {MOVED}", "yellow")


def _screen_above(line: InputLine, environ: Mapping[str, str]) -> Screen:
    styles = styles_of(sys.stdout, environ)
    return Screen(
        line.write,
        line.write,
        line_styles=styles,
        word_styles=styles,
        columns=lambda: shutil.get_terminal_size().columns,
    )


class Talk:
    """One session at the terminal."""

    def __init__(
        self,
        channels: Channels,
        opening: ConverseRequest.Open,
        settings: Settings,
        *,
        agent_is_near: bool = True,
        files: Sequence[Attachment] = (),
    ) -> None:
        """Take the conversation and files for its first message; a remote agent takes none."""
        self._goes_on = opening.latest or bool(opening.session_id)
        self._profile = opening.profile
        self._agent = channels.to("agent") if agent_is_near else None
        self._opened = asyncio.Event()
        opening.takes_news = True
        self._gateway = channels.to("gateway")
        self._dialogue = Dialogue(self._gateway, opening)
        self._completer = CommandCompleter()
        history = TypedHistory(settings.home.run / "chat_history", settings.redactor())
        self._line = InputLine(history, self._completer, self)
        self._screen = _screen_above(self._line, settings.environ)
        self._sender = MessageSender(self._agent, self._dialogue, files, self._unsent)
        self._pasted = settings.home.run / "pasted"
        self._workers = Workers()
        self._home = settings.home.root
        self._downloads = Downloads(self._gateway, self._profile, settings.home)
        self._session_id = ""
        self._waiting: set[str] = set()
        """Messages without any response yet."""
        self._all_heard = asyncio.Event()
        self._turns: dict[str, TurnView] = {}
        self._shown = ""
        self._answered: set[str] = set()
        self._folded: Lines = ()
        self._status = Status()
        self._asked: Question | None = None
        self._answers: Question | None = None
        """The question that the input answers; None: the input is a message."""

    async def run(self) -> int:
        async with self._workers as workers:
            workers.start("messages", self._sender.run())
            tasks = {
                workers.start("responses", self._read(workers)),
                workers.start("prompt", self._prompt()),
            }
            workers.start("spinner", self._spin())
            workers.start("home", watch_home(self._home, self._screen.aside))
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        return 0

    def view(self) -> View:
        label, hint = (BUSY, WORKING) if self._is_busy else (self._dialogue.choices.label, "")
        if self._answers is not None and self._dialogue.waits_for(self._answers):
            label, hint = self._answers.label, ""
        running = (turn.pending() for turn in self._turns.values())
        pending = self._screen.pending() or "\n".join(filter(None, running))
        return View(label, hint, self._status.render(is_busy=self._is_busy), pending)

    def entered(self, line: str) -> bool:
        """Handle a line; return whether to put it back."""
        text, question = line.strip(), self._answers
        is_over = question is not None and not self._dialogue.waits_for(question)
        if is_over and text and text not in LEAVE:
            self._answers = None
            self._screen.aside(OVER, "dim")
            return True
        if text:
            label = self._dialogue.choices.label if question is None else question.label
            self._line.echo(label, line.rstrip())
        if text.lower() in LEAVE:
            self._line.leave()
        elif text.split(maxsplit=1)[:1] == [EDIT]:
            self._line.edit(text[len(EDIT) :].strip())
        elif text and question is not None:
            self._answer(question, text)
        elif text:
            self._say(text)
        self._ask()
        return False

    def stopped(self) -> bool:
        if self._is_busy:
            self._dialogue.interrupt()
        elif self._line.is_empty:
            self._screen.aside("Press Ctrl-D to leave.", "dim")
        return self._is_busy

    def changed(self) -> None:
        """Direct an empty line to the open question."""
        if self._line.is_empty:
            self._answers = self._dialogue.question

    def unfold(self) -> None:
        for text, style in self._folded:
            self._screen.aside(text, style, wraps=False)
        self._folded = ()

    def paste(self) -> None:
        pasting = paste_picture(self._pasted, self._line.insert, self._screen.aside)
        self._workers.start("clipboard", pasting)

    def _unsent(self, message_id: str, why: str) -> None:
        self._screen.aside(f"Not sent: {why}", "red")
        self._heard(message_id)

    def _keep(self, folded: Lines) -> None:
        self._folded = folded

    @property
    def _is_busy(self) -> bool:
        return bool(self._waiting or self._turns)

    async def _read(self, workers: Workers) -> None:
        async with aclosing(self._dialogue.responses()) as responses:
            async for response in responses:
                if response.reply.HasField("attachment"):
                    workers.start("file", self._fetch(response.reply))
                    continue
                session_id = self._session_id
                self._show(response)
                if session_id and self._session_id != session_id:
                    workers.start("recall", self._recall())
                if response.HasField("opened"):
                    workers.start("files", self._fetch_left())
                    workers.start("commands", self._completer.learn(self._gateway, self._profile))

    async def _spin(self) -> None:
        while True:
            await asyncio.sleep(1 / FRAMES_PER_S)
            if self._is_busy:
                self._line.draw()

    async def _prompt(self) -> None:
        if self._goes_on:
            await self._recall()
        self._screen.aside(WELCOME, "dim")
        await self._line.run()
        self._screen.end_line()
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                while self._waiting:
                    self._all_heard.clear()
                    await self._all_heard.wait()

    async def _recall(self) -> None:
        if self._agent is None:
            return
        with suppress(TimeoutError, grpc.aio.AioRpcError):
            async with asyncio.timeout(RECALL_S):
                await self._opened.wait()
                session, lines = await recall(self._agent, self._profile, self._session_id)
                self._status.begin_session(session)
                for line in lines:
                    self._screen.aside(line, "dim")

    async def _fetch_left(self) -> None:
        """Fetch files that earlier terminals missed, or that failed before a reconnect."""
        for reply in await self._downloads.pending():
            await self._fetch(reply)

    async def _fetch(self, reply: ConverseResponse.Reply) -> None:
        text, style = await self._downloads.receive(reply)
        self._screen.aside(NEWS, "dim")
        self._screen.aside(text, style)

    def _say(self, said: str) -> None:
        self._waiting.add(self._sender.say(self._completer.expand(said)))

    def _answer(self, question: Question, said: str) -> None:
        decision = question.decision(said) if question.is_approval else None
        if said.lower() == STOP:
            self._dialogue.interrupt()
        elif self._completer.is_command(said) and not said.lower().startswith(DECIDING):
            self._say(said)
        elif not question.is_approval:
            self._answered.add(question.id)
            self._dialogue.answer(question.id, said)
        elif decision is not None:
            self._answered.add(question.id)
            self._dialogue.decide(question.id, decision)
        else:
            self._screen.aside(question.hint, "dim")

    def _ask(self) -> None:
        """Ask the first question, if it is a new one."""
        first = self._dialogue.question
        self.changed()
        if first is not None and first is not self._asked:
            for text, style in first.lines:
                self._screen.aside(text, style)
            if not self._line.is_empty:
                self._screen.aside(DRAFT, "dim")
        self._asked = first
        self._line.draw()

    def _show(self, response: ConverseResponse) -> None:
        match response.WhichOneof("kind"):
            case "opened":
                self._session_id = response.opened.session_id
                self._opened.set()
            case "accepted":
                self._heard(response.accepted.message_id)
                if response.accepted.remark:
                    self._screen.aside(response.accepted.remark, "dim")
                self._turn(response.accepted.turn_id)
            case "reply":
                if not response.reply.message_id:
                    self._screen.aside(NEWS, "dim")
                style = "red" if response.reply.is_error else ""
                self._screen.markdown(response.reply.text, style)
                if choices := self._dialogue.choices.lines:
                    self._screen.aside(choices)
                self._heard(response.reply.message_id)
                if response.reply.session_id not in ("", self._session_id):
                    self._session_id = response.reply.session_id
                    self._status.begin_session(Session())
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
            self._turns[turn_id] = TurnView(self._screen, fold=self._keep)
        return self._turns[turn_id]

    def _follow(self, turn_id: str, event: TurnEvent) -> None:
        if self._shown != turn_id:
            self._screen.end_line()
            self._shown = turn_id
        self._status.follow(event)
        self._turn(turn_id).show(event)
        question_id, remark = ended_in(event)
        if question_id and question_id not in self._answered:
            self._screen.aside(remark, "dim")
        if event.HasField("turn_finished"):
            del self._turns[turn_id]
        self._ask()
