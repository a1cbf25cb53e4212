"""Turns of HTTP clients, on the same path as those of all others."""

import asyncio
import base64
import binascii
import hashlib
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection

from gateway_service.chats.sessions import client_key
from gateway_service.clients import AgentClient
from gateway_service.config import MediaConfig
from gateway_service.errors import AgentRefused, Refused
from gateway_service.messages import API, Source, TurnRequest, UploadedFile
from gateway_service.platforms.api_config import ApiConfig
from gateway_service.servicer.http.answer_text import AnswerText, failure_of
from gateway_service.servicer.http.exchange import SESSION_HEADER, Call
from gateway_service.servicer.http.requests import Conversation, GivenFile, shorten
from gateway_service.storage import chats
from gateway_service.storage.received_files import receive
from gateway_service.turns.questions import NOBODY
from gateway_service.turns.turn_starter import TurnStarter, Write
from hermes.agent.v1.approval_pb2 import AnswerClarificationRequest
from hermes.agent.v1.turn_event_pb2 import (
    APPROVAL_DECISION_NOBODY,
    APPROVAL_DECISION_ONCE,
    ApprovalDecision,
    TurnEvent,
    TurnFinished,
)
from hermes.agent.v1.turn_pb2 import Turn
from services.clock import Clock
from services.database import Database
from services.errors import AlreadyExists, Draining, HermesError, InvalidArgument, NotFound, Reason
from services.ids import new_id, new_session_id
from services.lifecycle import Workers
from services.validation import check_id

_log = logging.getLogger(__name__)

USER = "api"
MAX_NAME_CHARS = 100
_TURN = "trn_"
_IDEMPOTENCY_KEY = "idempotency-key"
_DECISIONS = {"deny": APPROVAL_DECISION_NOBODY, "allow": APPROVAL_DECISION_ONCE}


class ClientRequest(Struct, frozen=True):
    """What a client wants of a turn."""

    conversation: Conversation
    model: str = ""
    user: str = ""
    session_id: str = ""
    """Empty for that of the header, the one that the conversation is known to have, or a new one.
    """


class StartedTurn(Struct, frozen=True):
    """A client's turn that has begun."""

    turn: TurnRequest
    is_open: bool
    model: str
    """The model's name as the client knows it."""
    user: str
    conversation: Conversation | None
    """Remembered with the answer; None if the client names its session."""
    known_as: str
    """The key that the conversation had before."""

    @property
    def headers(self) -> dict[str, str]:
        return {SESSION_HEADER: self.turn.session_id}

    def name(self, prefix: str) -> str:
        """Return the turn's id as the client knows it."""
        return public_id(prefix, self.turn.turn_id)


class Ended(Struct, frozen=True):
    """How a turn has ended."""

    answer: str
    finished: TurnFinished

    @property
    def failure(self) -> HermesError | None:
        return failure_of(self.finished)


MAX_FILES = 20


_STEP = 256 * 1024
"""Characters that are decoded at once; a multiple of four."""


class Uploads(Struct, frozen=True):
    """Gives the agent the files of messages."""

    _agent: AgentClient
    _folder: Path
    _media: MediaConfig

    async def pass_on(self, files: Sequence[GivenFile]) -> tuple[UploadedFile, ...]:
        """Return the files as the agent has them; InvalidArgument if one cannot be taken."""
        if len(files) > MAX_FILES:
            raise InvalidArgument(f"a message has at most {MAX_FILES} files")
        return tuple([await self._pass_on(each) for each in files])

    async def _pass_on(self, given: GivenFile) -> UploadedFile:
        file = given.file
        try:
            max_bytes = self._media.max_bytes(file.kind)
            async with receive(self._folder, _decode(given.base64), max_bytes) as found:
                await self._agent.upload(found)
        except Refused as error:
            raise InvalidArgument(f"a file ({file.kind}) is not read: {error.message}") from None
        except binascii.Error:
            raise InvalidArgument(f"a file ({file.kind}) is not valid base64") from None
        named = replace(file, length_bytes=found.length_bytes)
        return UploadedFile(named, found.length_bytes, found.sha256)


async def _decode(text: str) -> AsyncGenerator[bytes]:
    for start in range(0, len(text), _STEP):
        yield base64.b64decode(text[start : start + _STEP], validate=True)


class ApiTurns(Struct, frozen=True):
    """Begins and follows the turns of HTTP clients."""

    _agent: AgentClient
    _starter: TurnStarter
    _database: Database
    _clock: Clock
    _workers: Workers
    _uploads: Uploads
    config: ApiConfig

    async def begin(
        self, call: Call, wish: ClientRequest, *, is_background: bool = False
    ) -> StartedTurn:
        """Store a message and start its turn; raises HermesError if it is refused.

        If the client disconnects meanwhile, the turn is stopped, unless it `is_background` or can
        be asked for again: a request that is repeated with its idempotency key gets the turn that
        it had before; AlreadyExists if it is another request.
        """
        model = self.config.find_model(call.profile, wish.model)
        named = wish.session_id or call.headers.get(SESSION_HEADER.lower(), "")
        if named:
            check_id(SESSION_HEADER, named)
        said = wish.conversation
        session_id, known_as, exists = await self._session(call.profile, wish, named)
        is_known = named or exists
        uploads = await self._uploads.pass_on(said.files)
        turn = TurnRequest(
            turn_id=new_id("trn"),
            profile=call.profile,
            session_id=session_id,
            source=Source(platform=API, chat_id=session_id, user_name=wish.user or USER),
            text=said.text,
            files=tuple(each.file for each in uploads),
            uploads=uploads or None,
            model=model,
            system_message=said.system_message,
            earlier=() if exists else shorten(said.earlier),
            request_digest=hashlib.sha256(call.body).hexdigest(),
        )
        goes_on = is_background or call.headers.get(_IDEMPOTENCY_KEY)
        new_key, stop = "" if is_known else known_as, None if goes_on else self._stop
        begun = await self._starter.begin(turn, _event_id(call), new_key, stop)
        if begun.turn.request_digest != turn.request_digest:
            raise AlreadyExists(
                "the Idempotency-Key was used before with another request",
                metadata={"code": "idempotency_key_reused"},
            )
        if begun.refusal:
            await self._starter.close(begun.turn.turn_id)
            raise AgentRefused(begun.refusal, reason=begun.reason)
        name = wish.model or self.config.name_for(call.profile)
        remembered = None if named else said
        return StartedTurn(begun.turn, begun.is_open, name, wish.user, remembered, known_as)

    async def follow(
        self, begun: StartedTurn, shown: AnswerText | None = None
    ) -> AsyncGenerator[TurnEvent]:
        """Yield a turn's events to the last one; a client that leaves before stops the turn.

        `shown` is what the client has of the answer.
        """
        turn, has_ended = begun.turn, False
        try:
            async with aclosing(self._agent.watch(turn.turn_id, turn.profile)) as batches:
                async for batch in batches:
                    for event in batch:
                        has_ended = event.HasField("turn_finished")
                        await self._answer(turn.profile, event)
                        yield event
        finally:
            if not has_ended:
                remember = None
                if shown and shown.text and begun.conversation is not None:
                    remember = partial(self._remember, begun=begun, answer=shown.text)
                self._stop(turn, remember)

    async def complete(self, begun: StartedTurn) -> Ended:
        """Follow a turn to its end."""
        text, finished = AnswerText(), TurnFinished()
        async with aclosing(self.follow(begun)) as events:
            async for event in events:
                text.take(event)
                finished = event.turn_finished
        ended = Ended(text.whole(finished), finished)
        await self.end(begun, ended)
        return ended

    async def end(self, begun: StartedTurn, ended: Ended) -> None:
        """Note that a turn was answered, and in which session its conversation goes on."""
        turn = begun.turn
        if begun.conversation is None or not ended.answer or ended.failure:
            self._starter.close_later(turn.turn_id)
            return
        remember = partial(self._remember, begun=begun, answer=ended.answer)
        if (closing := self._starter.close_later(turn.turn_id, remember)) is not None:
            await asyncio.shield(closing)

    def _remember(self, conn: Connection, begun: StartedTurn, answer: str) -> None:
        """Store in which session a conversation goes on once its client has this answer."""
        assert begun.conversation is not None
        turn, new = begun.turn, _key(begun.conversation.after(answer), begun.user)
        chats.forget(conn, turn.profile, begun.known_as)
        chats.put(conn, turn.profile, new, turn.session_id, self._clock.now())

    def leave(self, begun: StartedTurn) -> None:
        """Let a turn go on without its client."""
        if begun.is_open:
            self._starter.settle(begun.turn)

    async def find(self, turn_id: str, profile: str) -> Turn:
        """Return a turn; NotFound if there is none."""
        try:
            return await self._agent.turn(turn_id, profile)
        except AgentRefused as error:
            if error.reason is Reason.NOT_FOUND:
                raise NotFound("there is no such turn") from None
            raise

    async def outcome(self, turn: Turn, profile: str) -> Ended | None:
        """Return how a turn has ended; None if it has not."""
        if not turn.HasField("finish_time"):
            return None
        text = AnswerText()
        async with aclosing(self.watch(turn.turn_id, profile)) as batches:
            async for batch in batches:
                for event in batch:
                    text.take(event)
                    if event.HasField("turn_finished"):
                        finished = event.turn_finished
                        return Ended(text.whole(finished), finished)
        return None

    async def interrupt(self, turn_id: str, profile: str) -> bool:
        """Stop a turn; return whether it was live."""
        return await self._agent.interrupt("", profile, turn_id)

    async def decide(
        self, approval_id: str, profile: str, decision: "ApprovalDecision.ValueType"
    ) -> None:
        await self._agent.decide(approval_id, profile, decision, f"{API}:{USER}")

    async def answer(self, question_id: str, profile: str, text: str) -> None:
        given = AnswerClarificationRequest(
            profile=profile, clarification_id=question_id, answer=text, answered_by=f"{API}:{USER}"
        )
        if not await self._agent.answer(given):
            raise NotFound("no question waits for this answer")

    def watch(
        self, turn_id: str, profile: str, after: int = 0
    ) -> AsyncGenerator[Sequence[TurnEvent]]:
        return self._agent.watch(turn_id, profile, after)

    async def _session(
        self, profile: str, wish: ClientRequest, named: str
    ) -> tuple[str, str, bool]:
        said, session_id, key = wish.conversation, named, ""
        if not named:
            key = _key(said, wish.user)
            if said.earlier:
                found = self._database.read(lambda conn: chats.session_of(conn, profile, key))
                session_id = await found or ""
        if not session_id:
            return new_session_id(self._clock.now().astimezone()), key, False
        # Only a session that does not exist, or not any more, needs to be told what was said.
        exists = said.earlier and await self._agent.session(session_id, profile) is not None
        return session_id, key, bool(exists)

    async def _answer(self, profile: str, event: TurnEvent) -> None:
        """Decide what a turn asks, as nobody is there to answer."""
        with suppress(AgentRefused, NotFound):
            if event.HasField("approval_requested"):
                asked = event.approval_requested
                await self.decide(asked.approval_id, profile, _DECISIONS[self.config.approvals])
            elif event.HasField("clarification_requested"):
                question = event.clarification_requested
                await self.answer(question.clarification_id, profile, NOBODY)

    def _stop(self, turn: TurnRequest, remember: Write | None = None) -> None:
        """Stop a turn whose client has left, and follow it to its end."""
        with suppress(Draining):
            self._workers.start(f"stop of {turn.turn_id}", self._interrupt(turn, remember))
            self._starter.settle(turn)

    async def _interrupt(self, turn: TurnRequest, remember: Write | None) -> None:
        try:
            await self.interrupt(turn.turn_id, turn.profile)
            if remember is not None:
                await self._database.write(remember)
        except HermesError as error:
            _log.warning("turn %s goes on without its client: %s", turn.turn_id, error)


def _key(said: Conversation, user: str) -> str:
    return client_key(said.fingerprint(user), API)


def _event_id(call: Call) -> str:
    """Return the id of a message: the same if a client repeats it with its idempotency key."""
    if key := call.headers.get(_IDEMPOTENCY_KEY, ""):
        return hashlib.sha256(f"{call.profile}\0{key}".encode()).hexdigest()
    return new_id("msg")


def public_id(prefix: str, turn_id: str) -> str:
    """Return a turn's id as clients know it."""
    return f"{prefix}_{turn_id.removeprefix(_TURN)}"


def turn_id_of(prefix: str, named: str) -> str:
    """Return the turn that a client names; NotFound if it cannot be one."""
    if not named.startswith(f"{prefix}_") or len(named) > MAX_NAME_CHARS:
        raise NotFound(f"there is no {named[:MAX_NAME_CHARS]}")
    return _TURN + named.removeprefix(f"{prefix}_")
