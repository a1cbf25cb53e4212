"""A real IMAP server over a Maildir, and an SMTP server in memory."""

import asyncio
import grp
import os
import pwd
import random
import shutil
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any, cast

from aiosmtpd.smtp import SMTP, Envelope

from tests.support.ports import free_port
from tests.support.requirements import require

PASSWORD = "mailbox-password"
START_S = 10.0

_CONFIG = """\
base_dir = {folder}/run
log_path = {folder}/dovecot.log
protocols = imap
ssl = no
disable_plaintext_auth = no
mail_location = maildir:{maildir}
first_valid_uid = 0
{users}
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={folder}
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    address = 127.0.0.1
    port = {port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service anvil {{
  chroot =
}}
"""


class MailServer:
    """Both servers."""

    def __init__(self, maildir: Path, imap_port: int) -> None:
        self.imap_port = imap_port
        self.smtp_port = 0
        self.sent: list[EmailMessage] = []
        self.came = asyncio.Event()
        """Set when a mail was sent."""
        self.planned: list[str] = []
        """What the next mails are answered with, such as `550 no`; `lost` closes the connection."""
        self.loss = 0.0
        """How many connections are closed before, and as many after the mail is taken."""
        self._dice = random.Random(1)
        self._maildir = maildir
        self._numbers = count(1)

    @property
    def environ(self) -> dict[str, str]:
        """The settings of who reads the mailbox."""
        return {
            "EMAIL_ADDRESS": "hermes@example.com",
            "EMAIL_PASSWORD": PASSWORD,
            "EMAIL_IMAP_HOST": "127.0.0.1",
            "EMAIL_IMAP_PORT": str(self.imap_port),
            "EMAIL_SMTP_HOST": "127.0.0.1",
            "EMAIL_SMTP_PORT": str(self.smtp_port),
            "EMAIL_TLS": "off",
            "EMAIL_AUTH_SERVER": "mx.example.com",
        }

    async def write(self, sender: str, text: str, *headers: str) -> None:
        """Somebody whom the receiving server confirms writes."""
        confirmed = f"mx.example.com; dkim=pass header.d={sender.partition('@')[2]}"
        head = (f"Authentication-Results: {confirmed}", f"From: {sender}", *headers)
        await self.deliver("\n".join((*head, "", text, "")).encode())

    async def deliver(self, mail: bytes) -> None:
        """Put a mail into the mailbox, as the receiving server does."""
        await asyncio.to_thread(self._write, mail)

    def _write(self, mail: bytes) -> None:
        name = f"{next(self._numbers):06}.test"
        file = self._maildir / "tmp" / name
        file.write_bytes(mail)
        owner = self._maildir.stat()
        os.chown(file, owner.st_uid, owner.st_gid)
        file.rename(self._maildir / "new" / name)

    async def take(self, server: SMTP, _session: Any, envelope: Envelope) -> str:
        """Take a mail that was sent."""
        planned = self.planned.pop(0) if self.planned else "250 OK"
        if (unlucky := self._dice.random()) < 2 * self.loss:
            planned = "lost" if unlucky < self.loss else "cut"
        if planned in ("lost", "250 OK"):
            data = cast("bytes", envelope.content)
            self.sent.append(message_from_bytes(data, policy=policy.default))
            self.came.set()
        if planned in ("lost", "cut"):
            assert server.transport is not None
            cast("asyncio.Transport", server.transport).abort()
        return planned


@asynccontextmanager
async def mail_server() -> AsyncGenerator[MailServer]:
    """Run both servers, where dovecot is installed; else a visible skip."""
    paths = f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin"
    program = await asyncio.to_thread(shutil.which, "dovecot", path=paths)
    require("dovecot", program is not None, "install it with: apt install dovecot-imapd")
    folder = await asyncio.to_thread(mkdtemp, prefix="hermes-mail-")
    try:
        async with _served(str(program), Path(folder)) as mail:
            yield mail
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)


@asynccontextmanager
async def _served(program: str, folder: Path) -> AsyncGenerator[MailServer]:
    maildir, port = folder / "Maildir", free_port()
    await asyncio.to_thread(_prepare, folder, maildir, port)
    process = await asyncio.create_subprocess_exec(program, "-F", "-c", folder / "dovecot.conf")
    mail = MailServer(maildir, port)
    loop, handler = asyncio.get_running_loop(), SimpleNamespace(handle_DATA=mail.take)
    try:
        await _until_it_listens(port, folder / "dovecot.log")
        smtp = await loop.create_server(lambda: SMTP(handler, loop=loop), "127.0.0.1", 0)
        async with smtp:
            mail.smtp_port = smtp.sockets[0].getsockname()[1]
            yield mail
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.wait()


def _prepare(folder: Path, maildir: Path, port: int) -> None:
    """Write the settings; as root, another user owns the mails."""
    is_root = os.geteuid() == 0
    user = pwd.getpwnam("nobody") if is_root else pwd.getpwuid(os.geteuid())
    for name in ("cur", "new", "tmp"):
        (maildir / name).mkdir(parents=True)
    for path in (folder, maildir, *maildir.iterdir()) if is_root else ():
        os.chown(path, user.pw_uid, user.pw_gid)
    folder.chmod(0o711)
    own = {
        "default_internal_user": user.pw_name,
        "default_login_user": user.pw_name,
        "default_internal_group": grp.getgrgid(user.pw_gid).gr_name,
    }
    users = "" if is_root else "\n".join(f"{key} = {name}" for key, name in own.items())
    (folder / "dovecot.conf").write_text(
        _CONFIG.format(
            folder=folder,
            maildir=maildir,
            users=users,
            password=PASSWORD,
            uid=user.pw_uid,
            gid=user.pw_gid,
            port=port,
        )
    )


async def _until_it_listens(port: int, log: Path) -> None:
    try:
        async with asyncio.timeout(START_S):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    return
    except TimeoutError:
        told = await asyncio.to_thread(log.read_text)
        raise AssertionError(f"dovecot does not start: {told}") from None


def plain_text(mail: EmailMessage) -> str:
    """Return the plain text of a mail."""
    body = mail.get_body(preferencelist=("plain",))
    return "" if body is None else str(body.get_content()).replace("\r", "").rstrip("\n")
