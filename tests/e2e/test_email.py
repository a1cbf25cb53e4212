"""A person writes mails to Hermes, over real servers."""

import asyncio
from email.message import EmailMessage
from pathlib import Path

import pytest

from tests.e2e.backends import sandboxed
from tests.e2e.deployment import one_process, running
from tests.e2e.model import ModelProcess
from tests.support.dovecot import MailServer, mail_server, plain_text

ANSWER_S = 30.0
ADA = "ada@example.org"


async def answer(server: MailServer, number: int) -> EmailMessage:
    """Return the mail of that number, once it was sent."""
    async with asyncio.timeout(ANSWER_S):
        while len(server.sent) < number:
            await server.came.wait()
            server.came.clear()
    return server.sent[number - 1]


@pytest.mark.slow
async def test_a_mail_is_answered_in_its_thread_and_strangers_are_not(
    tmp_path: Path, model: ModelProcess
) -> None:
    async with mail_server() as server:
        options = (tmp_path, model.url, sandboxed("bubblewrap"))
        made = await asyncio.to_thread(
            one_process, *options, EMAIL_ALLOWED_USERS=ADA, **server.environ
        )
        deployment = running(made)
        await asyncio.to_thread(deployment.__enter__)
        await server.write("eve@example.org", "hello")
        await server.write(ADA, "hello", "Message-ID: <1@example.org>", "Subject: Greetings")
        first = await answer(server, 1)
        assert (first["To"], first["Subject"]) == ("ada@example.org", "Re: Greetings")
        assert "hello" in plain_text(first)
        reply = ("In-Reply-To: " + first["Message-ID"], "References: <1@example.org>")
        await server.write(ADA, "/status", *reply, "Message-ID: <2@example.org>")
        second = await answer(server, 2)
        assert second["References"].split()[0] == "<1@example.org>"
        assert second["In-Reply-To"] == "<2@example.org>"
        assert "2 messages" in plain_text(second)
        await asyncio.to_thread(deployment.__exit__, None, None, None)
    assert {mail["To"] for mail in server.sent} == {"ada@example.org"}
