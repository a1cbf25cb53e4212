"""Worlds of platforms that one runs oneself: a Home Assistant and a mail server."""

from collections.abc import Mapping, Sequence

from pydantic import SecretStr

from gateway_service.platforms.base import Destination, Platform
from gateway_service.platforms.email.config import EmailConfig
from gateway_service.platforms.email.platform import EmailPlatform
from gateway_service.platforms.homeassistant.config import HomeAssistantConfig
from gateway_service.platforms.homeassistant.platform import HomeAssistantPlatform
from tests.contract.platform_world import Failure, World
from tests.fakes.homeassistant import TOKEN, FakeHomeAssistant
from tests.support.dovecot import PASSWORD, MailServer, plain_text


class HomeAssistantWorld(World):
    """People with phones that a Home Assistant notifies."""

    chat, cursor, keeps_events = Destination("5"), "", False

    def __init__(self, server: FakeHomeAssistant) -> None:
        self._server = server

    def connect(self) -> Platform:
        token = SecretStr(TOKEN)
        return HomeAssistantPlatform(HomeAssistantConfig(token=token, url=self._server.url))

    async def say(self, text: str) -> None:
        self._server.waiting.append(self._server.say(text, "5"))

    async def press(self, message_id: str, data: str) -> None:
        listed = self._server.shown["5"][message_id].actions
        action = next(each for each in listed if each.endswith(f"|{data}"))
        self._server.waiting.append(self._server.press(action))

    def fail(self, how: Failure) -> None:
        self._server.planned.append(how)

    async def shown(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        return {
            tag: (it.message, [each.split("|")[2] for each in it.actions if each[-6:] != "|reply"])
            for tag, it in self._server.shown["5"].items()
        }

    async def files(self) -> Sequence[tuple[str, bytes]]:
        return []


CONFIRMED = "mx.example.com; dkim=pass header.d=example.org"


class EmailWorld(World):
    """Somebody who writes to a mailbox."""

    chat, cursor, keeps_events = Destination("ada@example.org"), "", True

    def __init__(self, server: MailServer) -> None:
        self._server = server

    def connect(self) -> Platform:
        return EmailPlatform(email_config(self._server, "mx.example.com"))

    async def say(self, text: str) -> None:
        head = f"From: Ada <{self.chat.chat_id}>\nAuthentication-Results: {CONFIRMED}"
        await self._server.deliver(f"{head}\n\n{text}\n".encode())

    async def press(self, message_id: str, data: str) -> None:
        raise AssertionError("mails have no buttons")

    def fail(self, how: Failure) -> None:
        answers = {"limited": "451 try again in 1 s", "refused": "550 no", "lost answer": "lost"}
        self._server.planned.append(answers[how])

    async def shown(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        sent = self._server.sent
        return {str(it["Message-ID"])[1:-1]: (plain_text(it), []) for it in sent}

    async def files(self) -> Sequence[tuple[str, bytes]]:
        parts = [part for mail in self._server.sent for part in mail.iter_attachments()]
        return [(part.get_filename() or "", part.get_content()) for part in parts]


def email_config(server: MailServer, auth_server: str = "") -> EmailConfig:
    """The settings of the mailbox of a mail server for tests."""
    return EmailConfig(
        address="hermes@example.com",
        password=SecretStr(PASSWORD),
        imap_host="127.0.0.1",
        imap_port=server.imap_port,
        smtp_host="127.0.0.1",
        smtp_port=server.smtp_port,
        tls="off",
        auth_server=auth_server,
    )
