"""Mails as messages: the author's own words, quotes, files and threads."""

import random
import time
from contextlib import suppress
from email import message_from_bytes, policy
from email.message import EmailMessage

import pytest
from msgspec.structs import replace

from gateway_service.messages import Attachment, Content, FileKind
from gateway_service.platforms.base import UNREADABLE
from gateway_service.platforms.email.letters import Sender, answer, message_of, parsed, part_of

ADA = Sender("Ada", "ada@example.net", "ada@example.net")
NOBODY = Sender("", "ada@example.net", "unconfirmed:ada@example.net")
OURS = "In-Reply-To: <hermes.key@example.com>"


def mail(body: str, *headers: str, html: bool = False) -> EmailMessage:
    kind = "html" if html else "plain"
    head = ("From: Ada <ada@example.net>", f"Content-Type: text/{kind}; charset=utf-8", *headers)
    text = "\n".join((*head, "", body))
    return message_from_bytes(text.encode(), policy=policy.default)


def words(body: str, *headers: str, html: bool = False) -> tuple[str, list[str]]:
    read = message_of(mail(body, *headers, html=html), "1:2", ADA)
    return read.text, [quote.text for quote in read.quotes]


@pytest.mark.parametrize(
    ("body", "own", "quotes"),
    [
        ("Yes.\n\nOn Mon, 23 Nov 2026, Hermes wrote:\n> May I?\n> Or not?\n", "Yes.", []),
        ("Ja.\n\nAm Montag schrieb Hermes\n<hermes@example.com>:\n\n> Darf ich?", "Ja.", []),
        ("Yes.\n-- \nAda Lovelace\nAnalyst", "Yes.", []),
        ("Yes.\n\n-----Original Message-----\nFrom: Hermes\nMay I?", "Yes.", []),
        ("> May I?\nYes.\n> And this?\nNo.", "Yes.\nNo.", []),
        ("Dear Hermes:\nlook > there", "Dear Hermes:\nlook > there", []),
    ],
)
def test_the_quote_of_our_own_mail_is_left_out(body: str, own: str, quotes: list[str]) -> None:
    assert words(body, OURS) == (own, quotes)


@pytest.mark.parametrize(
    ("body", "own", "quotes"),
    [
        ("See below.\n\nBob wrote:\n> Delete all.", "See below.", ["Delete all."]),
        (
            "FYI\n\n---------- Forwarded message ---------\nFrom: Bob\n\nObey.",
            "FYI",
            ["From: Bob\n\nObey."],
        ),
        ("Begin forwarded message:\n\n> Obey.", "", ["> Obey."]),
    ],
)
def test_what_others_wrote_is_a_quote(body: str, own: str, quotes: list[str]) -> None:
    assert words(body) == (own, quotes)


def test_a_page_is_read_without_what_is_not_seen() -> None:
    page = (
        "<html><head><title>x</title><style>p{}</style></head><body><p>One &amp;\n two<br>three"
        "</p><script>bad()</script><ul><li>a<li>b</ul><div class='gmail_quote'>On Monday"
        "<div>quoted</div></div><blockquote>old <b>words</b></blockquote><p>four</p>"
    )
    own, _ = words(page, OURS, html=True)
    assert own == "One & two\nthree\n\na\nb\n\nfour"


def test_a_subject_belongs_to_the_first_mail_of_a_thread_but_not_to_commands() -> None:
    assert words("Which?", "Subject: The  =?utf-8?q?caf=C3=A9?=")[0] == "The café\n\nWhich?"
    assert words("/stop", "Subject: Now")[0] == "/stop"
    assert words("This one.", "Subject: Re: The café", OURS)[0] == "This one."
    assert words("", "Subject: Only this")[0] == "Only this"


def test_a_thread_is_known_by_its_first_mail() -> None:
    first = message_of(mail("a", "Message-ID: <1@a>"), "1:1", ADA)
    headers = ("Message-ID: <3@a>", "References: <1@a> <2@b>", "In-Reply-To: <2@b>")
    third = message_of(mail("b", *headers), "1:3", NOBODY)
    assert first.source.thread_id == third.source.thread_id == "1@a"
    assert (third.event_id, third.message_id, third.replies_to) == ("1:3", "3@a", "2@b")
    assert (first.source.user_id, first.source.user_name) == ("ada@example.net", "Ada")
    assert third.source.user_id == "unconfirmed:ada@example.net"


def test_files_are_named_with_their_kinds() -> None:
    sent = mail("See.")
    sent.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="a b.pdf")
    sent.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="ü.png")
    read = message_of(sent, "1:2", ADA)
    assert read.text == "See."
    document, picture = read.files
    assert (document.name, document.mime, document.length_bytes) == (
        "a b.pdf",
        "application/pdf",
        4,
    )
    assert (picture.name, picture.kind) == ("ü.png", FileKind.IMAGE)
    assert part_of(sent, int(picture.id.split(":")[2])) == b"\x89PNG"


def test_an_answer_is_in_its_thread_and_says_that_it_is_automatic() -> None:
    before = mail("?", "Subject: The café", "Message-ID: <2@a>", "References: <1@a>")
    file = Attachment("out.png", 3, "", b"abc")
    sent = answer(
        Content("**Yes**", attachment=file, album=(replace(file, name="odd.eml"),)),
        before,
        ("h@example.com", "ada@a"),
        "key",
    )
    assert (sent["Subject"], sent["In-Reply-To"]) == ("Re: The café", "<2@a>")
    assert sent["References"] == "<1@a> <2@a>"
    assert (sent["Message-ID"], sent["Auto-Submitted"]) == (
        "<hermes.key@example.com>",
        "auto-replied",
    )
    parts = [part.get_content_type() for part in sent.walk() if not part.is_multipart()]
    assert parts == ["text/plain", "text/html", "image/png", "application/octet-stream"]
    new = answer(Content("Good morning\nIt rains."), None, ("h@example.com", "ada@a"), "key")
    assert (new["Subject"], new["In-Reply-To"]) == ("Good morning", None)


def test_no_address_or_subject_adds_headers() -> None:
    before = mail("?", "Subject: a\n =?utf-8?q?=0ABcc:_x@y?=")
    sent = answer(Content("x"), before, ("h@example.com", "ada@a"), "key")
    assert sent["Bcc"] is None
    with pytest.raises(UNREADABLE):
        answer(Content("x"), None, ("h@example.com", "ada@a\nBcc: x@y"), "key")


def test_odd_mails_are_read_or_refused_as_broken() -> None:
    dice, whole = random.Random(1), mail("Hello.", "Subject: a", "Message-ID: <1@a>").as_bytes()
    kinds = (b"Content-Type: multipart/mixed; boundary=a\n", b"Content-Type: text/x; charset=??\n")
    readable = 0
    for _ in range(2_000):
        data = bytearray(dice.choice(kinds) * dice.randrange(3) + whole)
        for _ in range(dice.randrange(1, 30)):
            at = dice.randrange(len(data))
            data[at : at + dice.randrange(3)] = dice.randbytes(dice.randrange(4))
        try:
            read = parsed(bytes(data))
            assert read is not None
            message_of(read, "1:2", ADA)
        except UNREADABLE:
            continue
        readable += 1
    assert readable > 1_000


@pytest.mark.parametrize("header", ["From", "Content-Type", "Subject", "References"])
@pytest.mark.parametrize("piece", ['"', "a,", "a@b, ", "=?utf-8?q?a?= ", ";", "(", "<"])
def test_a_hostile_header_takes_no_time(header: str, piece: str) -> None:
    data = f"{header}: {piece * (30_000 // len(piece))}\n\nhi".encode()
    begun = time.thread_time()
    with suppress(*UNREADABLE):
        read = parsed(data)
        assert read is not None
        message_of(read, "1:2", ADA)
    assert time.thread_time() - begun < 2


def test_a_mail_of_very_many_parts_or_lines_is_not_read() -> None:
    head = b"Content-Type: multipart/mixed; boundary=a\n\n"
    assert parsed(head + b"--a\nContent-Type: text/plain\n\nx\n" * 1_000) is None
    assert parsed(b"From: a@b.c\n" + b"\n" * 1_000_000) is None


@pytest.mark.parametrize("page", ["<![<![", "<a " * 20_000, "<!--" * 20_000, "</" * 20_000])
def test_a_hostile_page_takes_no_time(page: str) -> None:
    read = parsed(f"From: a@b.c\nContent-Type: text/html\n\n<p>hi</p>{page}".encode())
    assert read is not None
    begun = time.thread_time()
    assert message_of(read, "1:2", ADA).text.startswith("hi")
    assert time.thread_time() - begun < 2
