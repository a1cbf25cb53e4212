"""The last messages of a session that goes on."""

import grpc.aio

from hermes.agent.v1 import session_pb2
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from services.cli.sessions.messages import last_messages

EXCHANGES = 2
LINES = 10
"""Of each message."""


async def recall(
    agent: grpc.aio.Channel, profile: str, session_id: str
) -> tuple[session_pb2.Session, list[str]]:
    """Return a session, and the lines of its last exchanges."""
    stub, named = SessionServiceStub(agent), {"session_id": session_id, "profile": profile}
    session = (await stub.GetSession(session_pb2.GetSessionRequest(**named))).session
    messages = await last_messages(stub, session, profile)
    spoken = [message for message in messages if message.role != session_pb2.ROLE_TOOL]
    asked = [n for n, message in enumerate(spoken) if message.role == session_pb2.ROLE_USER]
    found = list[str]()
    for message in spoken[asked[-EXCHANGES:][0] :] if asked else ():
        before = "> " if message.role == session_pb2.ROLE_USER else ""
        lines = message.text.strip().splitlines()
        more = ["…"] if len(lines) > LINES else []
        found += (f"{before}{line}" for line in (*lines[:LINES], *more))
    return session, found
