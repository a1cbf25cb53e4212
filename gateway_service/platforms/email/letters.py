"""Mails as messages of a chat, and answers as mails."""

import re
from collections.abc import Iterator
from email.feedparser import BytesFeedParser
from email.message import EmailMessage, Message
from email.policy import EmailPolicy
from email.utils import formatdate
from html.parser import HTMLParser
from typing import cast

from msgspec import Struct

from gateway_service.messages import Content, MessageEvent, Quote, RemoteFile, Source, find_kind
from gateway_service.platforms.markup import to_html
from services.rpc.uploads import chunks

NAME = "email"
SUBJECT_CHARS = 70
MAX_CHARS = 100_000
"""Of a mail's text."""
MAX_PAGE_CHARS = 1_000_000
"""Of a mail's HTML."""
_NO_TAG = re.compile(r"<(?![A-Za-z/][^<>]*>)")
STRANGER = "unconfirmed:"
"""What the user id of somebody begins with for whom no server vouches; nobody can allow it."""
_OURS = "hermes."
_MAX_ID = 200
_ID = re.compile(r"<([^<>\s\0]+)>")
_FORWARDED = re.compile(
    r"^[- ]*(?:(?:Begin )?forwarded message|Weitergeleitete Nachricht|Message transféré)\b.*$",
    re.IGNORECASE | re.MULTILINE,
)
_CUT = re.compile(r"^(?:-- |-{2,} ?Original Message ?-{2,}|_{20,})$", re.IGNORECASE | re.MULTILINE)
_BLOCKS = ("p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "table", "ul", "ol", "pre")
_UNSEEN = ("script", "style", "head", "title", "blockquote")
HEADER_CHARS, PARTS, LINES = 1_000, 100, 1_000_000


class Sender(Struct, frozen=True):
    """Who wrote a mail."""

    name: str
    address: str
    user_id: str


class _Bounded(EmailPolicy):
    """Cuts headers: the parser takes minutes for some that have thousands of characters."""

    def header_fetch_parse(self, name: str, value: str) -> str:
        limit = 10 * HEADER_CHARS if name.lower() == "references" else HEADER_CHARS
        return super().header_fetch_parse(name, value[:limit])


def parsed(data: bytes) -> EmailMessage | None:
    """Return a mail, or its headers; None if it is empty or has too many parts or lines."""
    is_odd = data.count(b"\n") > LINES or data.lower().count(b"\ncontent-type:") > PARTS
    if not data or is_odd:
        return None
    # The parser copies what it is fed, several times over.
    parser = BytesFeedParser(policy=_Bounded())
    for piece in chunks(data):
        parser.feed(piece)
    return cast("EmailMessage", parser.close())


def message_of(mail: EmailMessage, place: str, sender: Sender) -> MessageEvent:
    """Return a mail as a message; `place` names the mail in its mailbox."""
    ours = [each for each in references(mail) if each.startswith(_OURS)]
    own, quotes = _split(_text(mail), is_answer=bool(ours))
    subject = " ".join(str(mail.get("Subject", "")).split())
    # The subject of an answer is ours; commands stand alone.
    if subject and not ours and not own.startswith("/"):
        own = f"{subject}\n\n{own}".strip()
    source = Source(
        NAME,
        sender.address,
        thread_id=thread_of(mail),
        user_id=sender.user_id,
        user_name=sender.name or sender.address,
    )
    replied = _ID.findall(str(mail.get("In-Reply-To", "")))
    return MessageEvent(
        place,
        source,
        own,
        replies_to=replied[-1][:_MAX_ID] if replied else "",
        quotes=quotes,
        files=tuple(_files(mail, place)),
        message_id=_own_id(mail),
    )


def references(mail: EmailMessage) -> list[str]:
    """Return the ids of the messages before this one, the first of its thread first."""
    found = _ID.findall(f"{mail.get('References', '')} {mail.get('In-Reply-To', '')}")
    return list(dict.fromkeys(found))


def thread_of(mail: EmailMessage) -> str:
    """Return the id of the first message of a mail's thread."""
    return (*references(mail), _own_id(mail))[0][:_MAX_ID]


def answer(
    content: Content, before: EmailMessage | None, addresses: tuple[str, str], key: str
) -> EmailMessage:
    """Return a mail from one address to another, in the thread of the mail before, if any."""
    mail = EmailMessage()
    mail["From"], mail["To"] = addresses
    subject = str(before.get("Subject", "")) if before else content.text.partition("\n")[0]
    subject = " ".join(subject.split())[:SUBJECT_CHARS] or "Hermes"
    is_new = before is None or subject.lower().startswith("re:")
    mail["Subject"] = subject if is_new else f"Re: {subject}"
    mail["Date"] = formatdate()
    mail["Message-ID"] = f"<{_OURS}{key}@{addresses[0].rpartition('@')[2]}>"
    mail["Auto-Submitted"], mail["X-Auto-Response-Suppress"] = "auto-replied", "All"
    if before is not None:
        last = _own_id(before)
        mail["In-Reply-To"] = f"<{last}>"
        mail["References"] = " ".join(f"<{each}>" for each in (*references(before)[-20:], last))
    mail.set_content(content.text)
    shown = f'<div style="white-space: pre-wrap">{to_html(content.text)}</div>'
    mail.add_alternative(shown, subtype="html")
    for file in content.attachments:
        kind, _, subtype = file.mime.partition("/")
        if kind == "message":  # whose content would have to be read first
            kind, subtype = "application", "octet-stream"
        mail.add_attachment(file.data, maintype=kind, subtype=subtype, filename=file.name)
    return mail


def part_of(mail: EmailMessage, number: int) -> bytes:
    """Return the content of an attachment."""
    part = list(mail.walk())[number]
    return cast("bytes", part.get_payload(decode=True) or b"")


def _own_id(mail: EmailMessage) -> str:
    return next(iter(_ID.findall(str(mail.get("Message-ID", "")))), "")[:_MAX_ID]


def _files(mail: EmailMessage, place: str) -> Iterator[RemoteFile]:
    for number, part in enumerate(mail.walk()):
        if part.is_multipart() or not (part.get_filename() or _is_attached(part)):
            continue
        size = len(cast("bytes", part.get_payload(decode=True) or b""))
        name, mime = part.get_filename() or "", part.get_content_type()
        yield RemoteFile(find_kind(mime), f"{place}:{number}", name, mime, size)


def _is_attached(part: Message) -> bool:
    return part.get_content_disposition() == "attachment" or part.get_content_maintype() != "text"


def _text(mail: EmailMessage) -> str:
    body = mail.get_body(preferencelist=("plain", "html"))
    if body is None:
        return ""
    try:
        text = str(body.get_content())
    except (LookupError, ValueError, KeyError):  # an unknown charset
        text = cast("bytes", body.get_payload(decode=True) or b"").decode("latin-1")
    text = text.replace("\0", "").replace("\r\n", "\n")
    return (_Text.read(text) if body.get_content_subtype() == "html" else text)[:MAX_CHARS]


def _split(text: str, *, is_answer: bool) -> tuple[str, tuple[Quote, ...]]:
    """Split a text into the author's own words and those of others."""
    forwarded = _FORWARDED.search(text)
    if forwarded is not None:
        own, theirs = text[: forwarded.start()], text[forwarded.end() :]
        return own.strip(), (Quote(theirs.strip(), "", is_forwarded=True),)
    lines = _CUT.split(text)[0].rstrip().split("\n")
    quoted = [n for n, line in enumerate(lines) if line.startswith(">")]
    if not quoted:
        return "\n".join(lines).strip(), ()
    # "On Monday, Ada wrote:", in any language, stands above the quote, often in two lines.
    first = quoted[0]
    while first and not lines[first - 1].strip():
        first -= 1
    if first and lines[first - 1].rstrip().endswith(":"):
        first -= 1
        first -= bool(first and lines[first].startswith("<"))
    own = [line for n, line in enumerate(lines) if n < first or (n > quoted[0] and line[:1] != ">")]
    said = "\n".join(lines[n].lstrip("> ") for n in quoted).strip()
    # What is quoted in an answer to us is ours.
    quotes = () if is_answer or not said else (Quote(said, "", is_forwarded=False),)
    return "\n".join(own).strip(), quotes


def _tame(page: str) -> str:
    """Drop comments and unclosed tags, for which the parser takes quadratic time, or fails."""
    first, *others = page[:MAX_PAGE_CHARS].split("<!--")
    seen = first + "".join(each.partition("-->")[2] for each in others)
    return _NO_TAG.sub("&lt;", seen)


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._pieces = list[str]()
        self._hidden = list[str]()

    @classmethod
    def read(cls, page: str) -> str:
        parser = cls()
        parser.feed(_tame(page))
        parser.close()
        lines = (" ".join(line.split()) for line in "".join(parser._pieces).split("\n"))
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        is_quote = "gmail_quote" in (dict(attrs).get("class") or "")
        if tag in _UNSEEN or is_quote or (self._hidden and tag == self._hidden[-1]):
            self._hidden.append(tag)
        elif tag in _BLOCKS:
            self._pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if self._hidden and tag == self._hidden[-1]:
            self._hidden.pop()
        elif tag in _BLOCKS and tag != "br":
            self._pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._pieces.append(data.replace("\n", " "))
