"""A mailbox on a real IMAP server: threads, files, strangers, and what goes wrong."""

import asyncio
from collections.abc import AsyncGenerator
from email.message import EmailMessage

import pytest

from gateway_service.errors import AccountRefused, Refused, Unreachable
from gateway_service.messages import Attachment, Content, MessageEvent
from gateway_service.platforms.base import Destination
from gateway_service.platforms.email.mailbox import MAX_BYTES
from gateway_service.platforms.email.platform import EmailPlatform
from services.runtime.checks import Verdict
from tests.contract.home_worlds import email_config
from tests.fakes.sink import Collected
from tests.support.dovecot import MailServer, mail_server, plain_text
from tests.support.platform_checks import checked

ADA = Destination("ada@example.org")
AUTH = "mx.example.com"
CONFIRMED = f"Authentication-Results: {AUTH}; dkim=pass header.d=example.org"
FORGED = f"Authentication-Results: {AUTH}.evil.test; dkim=pass header.d=example.org"


@pytest.fixture
async def server() -> AsyncGenerator[MailServer]:
    async with mail_server() as running:
        yield running


def mailbox(server: MailServer) -> EmailPlatform:
    return EmailPlatform(email_config(server, auth_server=AUTH))


async def write(server: MailServer, text: str, *headers: str, confirmed: str = CONFIRMED) -> None:
    """Ada writes."""
    head = (confirmed, "From: Ada <ada@example.org>", "To: hermes@example.com", *headers)
    await server.deliver("\n".join((*head, "", text)).encode())


async def received(
    platform: EmailPlatform, count: int, sink: Collected | None = None, limit_s: float = 10
) -> list[MessageEvent]:
    events = await (sink or Collected()).take(platform, count, limit_s)
    return [event for event in events if isinstance(event, MessageEvent)]


async def test_an_answer_is_in_the_thread_also_after_a_restart(server: MailServer) -> None:
    async with mailbox(server) as platform:
        headers = ("Subject: The garden", "Message-ID: <1@example.org>")
        await write(server, "Does it rain?", *headers)
        (asked,) = await received(platform, 1)
    assert asked.text == "The garden\n\nDoes it rain?"
    assert asked.source.user_id == "ada@example.org"
    chat = Destination(asked.source.chat_id, asked.source.thread_id)
    async with mailbox(server) as platform:
        await platform.send(chat, Content("It does."), "key-1")
    (sent,) = server.sent
    assert (sent["To"], sent["Subject"]) == ("ada@example.org", "Re: The garden")
    assert sent["In-Reply-To"] == sent["References"] == "<1@example.org>"
    assert plain_text(sent) == "It does."


async def test_only_the_receiving_server_says_who_somebody_is(server: MailServer) -> None:
    async with mailbox(server) as platform:
        await write(server, "forged", confirmed=FORGED)
        await write(server, "true")
        (read,) = await received(platform, 1)
    assert (read.text, read.source.user_id) == ("true", "ada@example.org")
    anybody = email_config(server).model_copy(update={"allow_all_users": True})
    async with EmailPlatform(anybody) as platform:
        (read,) = await received(platform, 1)
    assert (read.text, read.source.user_id) == ("forged", "unconfirmed:ada@example.org")


async def test_what_cannot_be_read_or_nobody_wrote_stops_nothing(server: MailServer) -> None:
    async with mailbox(server) as platform:
        for odd in (b"", b"\n\n", b"From: =?x?q?=\n\n", b"From: a@b\nList-Id: <x>\n\nnews"):
            await server.deliver(odd)
        await write(server, "after all")
        (read,) = await received(platform, 1)
    assert read.text == "after all"


async def test_files_come_and_go(server: MailServer) -> None:
    mail, data = EmailMessage(), bytes(range(256)) * 4_000
    mail["From"], mail["Subject"] = "ada@example.org", "A file"
    mail["Authentication-Results"] = CONFIRMED.partition(": ")[2]
    mail.set_content("See.")
    mail.add_attachment(data, maintype="application", subtype="zip", filename="a.zip")
    async with mailbox(server) as platform:
        await server.deliver(mail.as_bytes())
        (read,) = await received(platform, 1)
        (file,) = read.files
        assert (file.name, file.length_bytes) == ("a.zip", len(data))
        assert b"".join([piece async for piece in platform.download(file)]) == data
        attachment = Attachment("b.bin", len(data), "", data)
        await platform.send(ADA, Content("Here.", attachment=attachment), "key-2")
    (sent,) = server.sent
    (part,) = sent.iter_attachments()
    assert (part.get_filename(), part.get_content()) == ("b.bin", data)


async def test_of_a_mail_that_is_too_large_the_text_is_read(server: MailServer) -> None:
    head = f"From: ada@example.org\n{CONFIRMED}\nContent-Type: multipart/mixed; boundary=b"
    kind = 'Content-Type: application/zip\nContent-Disposition: attachment; filename="a.zip"'
    start = f"{head}\n\n--b\n\nSee.\n--b\n{kind}\nContent-Transfer-Encoding: base64\n\n"
    mail = b"".join([start.encode(), (b"A" * 76 + b"\n") * (MAX_BYTES // 76), b"--b--\n"])
    async with mailbox(server) as platform:
        await server.deliver(mail)
        await write(server, "and on")
        read, after = await received(platform, 2, limit_s=50)
        assert (read.text, after.text) == ("See.", "and on")
        (file,) = read.files
        with pytest.raises(Refused, match="larger than 40 MB"):
            await anext(platform.download(file))


async def test_old_and_read_mails_are_left_alone_and_new_ones_come_at_once(
    server: MailServer,
) -> None:
    async with mailbox(server) as platform:
        await write(server, "one")
        await received(platform, 1, sink := Collected())
        again = Collected()  # the position is lost, but what was answered is marked as read
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(received(platform, 1, again))
            await asyncio.sleep(0.5)
            await write(server, "two")
            async with asyncio.timeout(5):
                await listening
        assert [event.text for event in listening.result()] == ["two"]
        assert again.cursor > sink.cursor


async def test_what_does_not_work_is_told(server: MailServer) -> None:
    config = email_config(server, auth_server=AUTH)
    assert (await checked(config)).verdict is not Verdict.FAILED
    assert "EMAIL_AUTH_SERVER" in (await checked(email_config(server))).message
    wrong = config.model_copy(update={"password": type(config.password)("wrong")})
    with pytest.raises(AccountRefused, match="check EMAIL_ADDRESS and EMAIL_PASSWORD"):
        async with EmailPlatform(wrong):
            pass
    nobody = config.model_copy(update={"imap_port": 9})
    with pytest.raises(Unreachable):
        async with EmailPlatform(nobody):
            pass
    mute = config.model_copy(update={"smtp_port": 9})
    assert "the SMTP server cannot be reached" in (await checked(mute)).message
    async with EmailPlatform(mute) as platform:
        with pytest.raises(Unreachable):
            await platform.send(ADA, Content("lost"), "key-3")
