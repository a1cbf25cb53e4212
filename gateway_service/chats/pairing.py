"""Pairing: an unknown person gets a code, with which an owner or admin lets them in.

A code is shown once, to the person who asks. It is stored as a salted digest, is valid for an hour
and belongs to that person. Wrong codes are counted in the database, so that replicas share the
count: after five in a row, none is accepted for an hour.
"""

import hmac
import logging
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection

from gateway_service.chats.access import Access
from gateway_service.messages import Address, Content, Source
from gateway_service.storage import channels, outbox, pairings
from gateway_service.storage.accounts import OUTBOX, AccountLease
from gateway_service.storage.channels import Place
from gateway_service.storage.outbox import Delivery
from gateway_service.storage.pairings import Pairing, Person
from services.clock import Clock
from services.database import Database
from services.errors import FailedPrecondition, NotFound
from services.ids import new_id

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""32 characters that cannot be mistaken for each other."""
CODE_CHARS = 8
VALID = timedelta(hours=1)
ASK_EVERY = timedelta(minutes=10)
"""How often a person can get a code."""
MOST_PENDING = 3
"""Requests that a platform may have at a time; further people get no code."""
MOST_WRONG = 5
LOCKED = timedelta(hours=1)
CODE_DELIVERY = "par"
"""The prefix of deliveries that hold a code."""

_NAME_CHARS = 64
_SALT_BYTES = 16
_WELCOME = "You may talk to Hermes now. Say what you would like to have done, or /help."

_log = logging.getLogger(__name__)


def open_to(conn: Connection, access: Access, person: Person) -> Access:
    """Return the access rules for a person, who may have been let in."""
    if not person.user_id or access.knows(person.user_id):
        return access
    found = pairings.find(conn, person)
    if found is None or found.approved_at is None:
        return access
    return access.admit(person.user_id, is_admin=found.is_admin)


def person_of(account: AccountLease, source: Source) -> Person:
    """Return who sent a message."""
    return Person(account.profile, account.platform, source.user_id)


def offer_code(conn: Connection, account: AccountLease, source: Source, now: datetime) -> None:
    """Send an unknown person a code, unless they had one lately or too many people wait."""
    person = person_of(account, source)
    pairings.forget(conn, now)
    waiting = [
        each
        for each in pairings.list_pairings(conn, person.profile)
        if each.approved_at is None and each.person.platform == person.platform
    ]
    own = next((each for each in waiting if each.person == person), None)
    if own is not None and own.requested_at is not None and now < own.requested_at + ASK_EVERY:
        return
    if own is None and len(waiting) >= MOST_PENDING:
        _log.warning("%s people wait to be let in on %s", len(waiting), person.platform)
        return
    code, salt = (
        "".join(secrets.choice(ALPHABET) for _ in range(CODE_CHARS)),
        secrets.token_bytes(_SALT_BYTES),
    )
    request = Pairing(
        person,
        _shown(source.user_name),
        account.account_id,
        source.chat_id,
        salt,
        _digest(salt, code),
        now,
        now + VALID,
    )
    pairings.put(conn, request)
    _log.info("%s asks to be let in", source.user, extra={"audit": "pairing_requested"})
    text = (
        "I do not know you yet. Give this code to the owner of this Hermes, who can let you in "
        f"with it within an hour: `{code}`\n\n"
        f"The owner runs `hermes pairing approve {code}`, or sends me `/pairing approve {code}`."
    )
    outbox.add(conn, Delivery(new_id(CODE_DELIVERY), account.address(source), [Content(text)]), now)


class Approval(Struct, frozen=True):
    """What a code did."""

    pairing: Pairing
    is_new: bool
    """Whether it let the person in now; else they had been let in with it before."""


class Pairings:
    """Lets people in and out, on behalf of an owner or admin."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def list(self, profile: str) -> Sequence[Pairing]:
        """Return the valid requests, then the people who were let in."""
        now = self._clock.now()
        found = await self._database.read(lambda conn: pairings.list_pairings(conn, profile))
        return [each for each in found if each.approved_at is not None or each.is_valid(now)]

    async def approve(
        self, profile: str, code: str, by: str, *, is_admin: bool = False
    ) -> Approval:
        """Let in the person with a code; approving it again changes nothing.

        NotFound if nobody has the code, FailedPrecondition after too many wrong codes.
        """
        now = self._clock.now()

        def approve(conn: Connection) -> Approval | datetime | None:
            wrong_count, tried_at = pairings.lock_attempts(conn, profile)
            if tried_at is not None and now >= tried_at + LOCKED:
                wrong_count = 0
            elif tried_at is not None and wrong_count >= MOST_WRONG:
                return tried_at + LOCKED
            found = _find(pairings.list_pairings(conn, profile), code, now)
            if found is None:
                pairings.note_attempts(conn, profile, wrong_count + 1, now)
                return None
            pairings.note_attempts(conn, profile, 0, None)
            if found.approved_at is not None:
                return Approval(found, is_new=False)
            approved = replace(found, approved_at=now, approved_by=by, is_admin=is_admin)
            pairings.put(conn, approved)
            _welcome(conn, approved, now)
            return Approval(approved, is_new=True)

        outcome = await self._database.write(approve, notify=OUTBOX)
        if isinstance(outcome, Approval):
            self._audit("pairing_approved", outcome.pairing.person, by)
            return outcome
        _log.warning("%s tried a wrong code", by, extra={"audit": "pairing_refused", "user": by})
        if outcome is None:
            raise NotFound(
                "nobody waits with this code; a code is valid for an hour, and hermes pairing list "
                "shows who waits"
            )
        raise FailedPrecondition(
            f"{MOST_WRONG} wrong codes were tried; no code is accepted for an hour",
            retry_after_s=(outcome - now).total_seconds(),
        )

    async def revoke(self, person: Person, by: str) -> None:
        """Shut a person out, or drop their request; NotFound if there is neither."""

        def revoke(conn: Connection) -> bool:
            if (found := pairings.find(conn, person)) is None:
                return False
            # Their direct chat is no target any more; with platforms such as Telegram, its id is
            # the person's.
            for chat_id in {found.chat_id, person.user_id}:
                channels.forget_direct(conn, person.profile, Place(person.platform, chat_id))
            return pairings.delete(conn, person)

        if not await self._database.write(revoke):
            raise NotFound(
                f"{person.user_id} was not let in on {person.platform} by pairing; hermes pairing "
                "list shows who was"
            )
        self._audit("pairing_revoked", person, by)

    def _audit(self, what: str, person: Person, by: str) -> None:
        about = {"audit": what, "user": by, "person": f"{person.platform}:{person.user_id}"}
        _log.info("%s: %s by %s", what.replace("_", " "), about["person"], by, extra=about)


def forget(conn: Connection, now: datetime) -> None:
    """Delete requests that have expired, and the messages that held codes."""
    pairings.forget(conn, now)
    outbox.forget_sent(conn, f"{CODE_DELIVERY}_")


def _find(listed: Sequence[Pairing], code: str, now: datetime) -> Pairing | None:
    """Return whose valid code it is; takes the same time wherever it stands."""
    plain, found = "".join(code.split()).replace("-", "").upper(), None
    for each in listed:
        is_same = hmac.compare_digest(_digest(each.salt, plain), each.code_digest)
        if is_same and each.is_valid(now):
            found = each
    return found


def _welcome(conn: Connection, approved: Pairing, now: datetime) -> None:
    person = approved.person
    address = Address(person.profile, person.platform, approved.account_id, approved.chat_id)
    outbox.add(conn, Delivery(new_id("msg"), address, [Content(_WELCOME)]), now)


def _digest(salt: bytes, code: str) -> bytes:
    return sha256(salt + code.encode()).digest()


def _shown(name: str) -> str:
    """Return a stranger's name without what could mislead in a list."""
    plain = "".join(each if each.isprintable() else " " for each in name)
    return " ".join(plain.split())[:_NAME_CHARS]
