"""Whether a mail is from whom it says, by what the receiving server has found out."""

import re
from email.message import EmailMessage
from email.utils import getaddresses

MAX_CHARS = 4_000
"""Of a header that is looked at."""
_RESULT = re.compile(r"(dkim|spf|dmarc)\s*=\s*(\w+)(.*)", re.IGNORECASE | re.DOTALL)
_PROPERTY = re.compile(r"([\w.-]+)\s*=\s*([^\s;]+)")
_AUTOMATIC = ("bulk", "list", "junk", "auto_reply")


def sender_of(mail: EmailMessage) -> tuple[str, str]:
    """Return the author's name and address; the address is empty unless there is exactly one."""
    is_one = len(_raw(mail, "from")) == 1
    found = getaddresses([str(mail["From"])]) if is_one else []
    name, address = found[0] if len(found) == 1 else ("", "")
    return name, address.lower() if address.count("@") == 1 else ""


def is_confirmed(mail: EmailMessage, address: str, server: str) -> bool:
    """Return whether the receiving server vouches for the author's domain: DMARC, DKIM or SPF.

    Only headers that begin with the server's name count: by RFC 8601 it removes those that others
    have forged.
    """
    domain = address.rpartition("@")[2]
    return bool(domain and server) and any(
        each.partition(";")[0].split()[:1] == [server] and _passes(each, domain)
        for each in map(_bare, _raw(mail, "authentication-results"))
    )


def is_automatic(mail: EmailMessage, own: str) -> bool:
    """Return whether no person has written a mail, so that an answer could begin a loop."""
    _, address = sender_of(mail)
    local = address.partition("@")[0]
    return (
        str(mail.get("Auto-Submitted", "no")).partition(";")[0].strip().lower() != "no"
        or str(mail.get("Precedence", "")).strip().lower() in _AUTOMATIC
        or any(name in mail for name in ("List-Id", "List-Unsubscribe", "X-Autoreply"))
        or str(mail.get("Return-Path", "")).strip() == "<>"
        or mail.get_content_type() == "multipart/report"
        or address == own.lower()
        or local in ("mailer-daemon", "postmaster", "no-reply", "noreply")
    )


def _raw(mail: EmailMessage, name: str) -> list[str]:
    """Return headers as they are, for which nothing is parsed."""
    return [str(value)[:MAX_CHARS] for key, value in mail.raw_items() if key.lower() == name]


def _bare(header: str) -> str:
    """Return a header without comments and quoted texts: senders choose what some of them say."""
    bare, depth, is_quoted, is_escaped = list[str](), 0, False, False
    for char in header:
        if is_escaped:
            is_escaped = False
        elif char == "\\":
            is_escaped = True
        elif char == '"' and not depth:
            is_quoted = not is_quoted
        elif char in "()" and not is_quoted:
            depth = max(0, depth + (1 if char == "(" else -1))
        elif not depth and not is_quoted:
            bare.append(char)
    return "".join(bare)


def _passes(results: str, domain: str) -> bool:
    for part in results.split(";")[1:]:
        found = _RESULT.match(part.strip())
        if found is None or found[2].lower() != "pass":
            continue
        told = {name.lower(): value.lower() for name, value in _PROPERTY.findall(found[3])}
        named = {
            "dmarc": told.get("header.from", ""),
            "dkim": told.get("header.d") or told.get("header.i", ""),
            "spf": told.get("smtp.mailfrom", ""),
        }[found[1].lower()]
        if _is_same(domain, named.rpartition("@")[2]):
            return True
    return False


def _is_same(domain: str, named: str) -> bool:
    return "." in named and (domain == named or domain.endswith(f".{named}"))
