"""A sender is who the receiving server says, and automatic mails begin no loops."""

from email import message_from_string, policy
from email.message import EmailMessage

import pytest

from gateway_service.platforms.email.senders import is_automatic, is_confirmed, sender_of

SERVER, OWN = "mx.example.org", "hermes@example.com"


def mail(*headers: str, sender: str = "Ada <Ada@Example.net>") -> EmailMessage:
    text = "\n".join((f"From: {sender}", *headers, "", "Hello."))
    return message_from_string(text, policy=policy.default)


@pytest.mark.parametrize(
    "results",
    [
        "mx.example.org; dmarc=pass (p=NONE) header.from=example.net",
        "mx.example.org 1; spf=pass smtp.mailfrom=bounce@example.net",
        "mx.example.org;\n dkim=fail header.d=evil.test;\n dkim=pass header.d=example.net",
        "mx.example.org; dkim=pass (2048-bit key; a \\) b) header.i=@example.net header.s=s1",
        "mx.example.org; DKIM=Pass header.d=EXAMPLE.NET",
    ],
)
def test_the_receiving_server_vouches_for_a_domain(results: str) -> None:
    confirmed = mail(f"Authentication-Results: {results}")
    assert sender_of(confirmed) == ("Ada", "ada@example.net")
    assert is_confirmed(confirmed, "ada@example.net", SERVER)
    assert is_confirmed(confirmed, "ada@mail.example.net", SERVER)
    assert not is_confirmed(confirmed, "ada@notexample.net", SERVER)
    assert not is_confirmed(confirmed, "ada@example.net", "")


@pytest.mark.parametrize(
    "results",
    [
        "mx.evil.test; dkim=pass header.d=example.net",
        "mx.example.org.evil.test; dkim=pass header.d=example.net",
        "mx.example.org; none",
        "mx.example.org; dkim=fail header.d=example.net",
        "mx.example.org; dkim=none (dkim=pass header.d=example.net)",
        'mx.example.org; auth=pass smtp.auth="x; dkim=pass header.d=example.net"',
        'mx.example.org; spf=none smtp.mailfrom="a\\"; dkim=pass header.d=example.net"@evil.test',
        'mx.example.org; spf=pass smtp.mailfrom="ada@example.net"@evil.test',
        "mx.example.org; dkim=pass header.d=evil.test header.from=example.net",
        "mx.example.org; dkim=pass header.d=net",
        "mx.example.org; spf=pass smtp.helo=example.net",
        "mx.example.org; arc=pass header.from=example.net",
        "",
    ],
)
def test_nothing_else_does(results: str) -> None:
    assert not is_confirmed(mail(f"Authentication-Results: {results}"), "ada@example.net", SERVER)


@pytest.mark.parametrize(
    "sender", ["a@b.test, ada@example.net", "", "Ada", "ada@example.net\nFrom: a@b.test", "a@b@c.d"]
)
def test_who_is_not_one_is_nobody(sender: str) -> None:
    assert sender_of(mail(sender=sender))[1] == ""


@pytest.mark.parametrize(
    ("header", "sender"),
    [
        ("Auto-Submitted: auto-replied; x=y", "ada@example.net"),
        ("Precedence: bulk", "ada@example.net"),
        ("List-Id: <list.example.net>", "ada@example.net"),
        ("Return-Path: <>", "ada@example.net"),
        ("Content-Type: multipart/report; boundary=x", "ada@example.net"),
        ("X-A: b", "MAILER-DAEMON@example.net"),
        ("X-A: b", "Hermes <HERMES@example.com>"),
    ],
)
def test_what_no_person_wrote_is_not_answered(header: str, sender: str) -> None:
    assert is_automatic(mail(header, sender=sender), OWN)
    assert not is_automatic(mail("Auto-Submitted: no"), OWN)
