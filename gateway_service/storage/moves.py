"""Chats that get another id on their platform, such as groups that become supergroups."""

from sqlalchemy import Connection, case, null, select, update

from gateway_service.messages import ChatMove
from gateway_service.storage import channels
from gateway_service.storage.inbox import Account
from gateway_service.storage.outbox import Kind, State
from gateway_service.storage.schema import chat_session, inbox, outbox

_CHAT = 4
"""The place of a chat's id in a session key."""


def follow(conn: Connection, account: Account, move: ChatMove) -> None:
    """Move a chat's sessions, messages and rank as home channel to its new id; repeating it
    changes nothing."""
    for key in _keys(conn, account, move.old_chat_id):
        parts = key.split(":")
        parts[_CHAT] = move.new_chat_id
        new_key = ":".join(parts)
        is_taken = select(chat_session).filter_by(profile=account.profile, session_key=new_key)
        for table in (chat_session, inbox):
            if table is inbox or conn.execute(is_taken).first() is None:
                of_chat = update(table).filter_by(profile=account.profile, session_key=key)
                conn.execute(of_chat.values(session_key=new_key))
    channels.move(conn, account.profile, account.platform, move)
    is_created = outbox.c.platform_message_id.is_not(None)
    conn.execute(
        update(outbox)
        .filter_by(
            platform=account.platform, account_id=account.account_id, chat_id=move.old_chat_id
        )
        .values(
            chat_id=move.new_chat_id,
            state=case((outbox.c.state == State.SENDING, State.PENDING), else_=outbox.c.state),
            # Ids of messages begin anew there; what has one is not edited, but sent as a message.
            kind=case((is_created, Kind.MESSAGE), else_=outbox.c.kind),
            platform_message_id=null(),
        )
    )


def _keys(conn: Connection, account: Account, chat_id: str) -> set[str]:
    found: set[str] = set()
    for table in (chat_session, inbox):
        named = table.c.session_key.like(f"agent:main:{account.platform}:%:{chat_id}%")
        query = (
            select(table.c.session_key).where(table.c.profile == account.profile, named).distinct()
        )
        found.update(conn.execute(query).scalars())
    return {key for key in found if key.split(":")[_CHAT] == chat_id}
