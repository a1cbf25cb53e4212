"""Addresses that program text puts together, whatever it hands them to."""

import re

from agent_service.security.commands.addresses import URL

_TEXT = re.compile(r"'((?:\\.|[^'\\\n])*)'|\"((?:\\.|[^\"\\\n])*)\"|`([^`]*)`")
_ADDED_BEFORE = re.compile(r"\+\s*[fFrRbB]{0,2}$")
_FORMED = re.compile(r"(?<![\w.])(?:[fF][rR]?|[rR][fF])$")
_ADDED_BEHIND = re.compile(r"\s*(?:[+%](?!=)|\.\s*(?:format|concat|\$|replace)|<>|\|\||&\s)")
_FILLED = re.compile(r"\$\{|#\{|\{\$|%[sd]")
_MARKED_UP = re.compile(r"[<(\[>=]")
"""Text around a link in a page, which is only shown."""
_SHOWN = re.compile(r"\b(?:print|puts|echo|console\.\w+|printf|say|warn|log\w*\.\w+)\s*\(?\s*f?$")
_SET = re.compile(r"\b([A-Za-z_]\w*)\s*=\s*[rRbB]?$")
_ADDED = re.compile(r"\b([A-Za-z_]\w*)\s*\+|\+\s*([A-Za-z_]\w*)|\{\s*([A-Za-z_]\w*)")
_AROUND = 24
_STARTED = re.compile(
    r"(?:[\[(]\s*[fr]?[\"'`](?=[\w-]+[\"'`]\s*,)|[\"'`](?=[\w-]+\s))"
    r"(?:curl|wget|https?|xh|aria2c|lynx|w3m|dig|drill|host|nslookup|getent|ping6?|traceroute|mtr|"
    r"whois|ncat|nc)\b[^\n;]{0,400}"
)
"""A call that starts a program which talks to others, up to the end of its line."""
_STARTS = re.compile(
    r"system|popen|exec|spawn|subprocess|child_process|\b(?:run|call)\(|check_output|Open3|qx|shell"
)
_KEYWORD = re.compile(r"\w+\s*=\s*[\w.]+")


def makes_address(code: str) -> bool:
    """Whether text puts an address together, or what a program that asks one is started with."""
    set_to: set[str] = set()
    for text in _TEXT.finditer(code):
        inner = text[1] or text[2] or text[3] or ""
        url = URL.search(inner)
        if url is None or _MARKED_UP.search(inner, 0, url.start()):
            continue
        before = code[max(0, text.start() - _AROUND) : text.start()]
        if _SHOWN.search(before):
            continue
        if _is_added(code, text, before, url[0]):
            return True
        if named := _SET.search(before):
            set_to.add(named[1])
    added = {name for found in _ADDED.findall(code) for name in found} if set_to else set[str]()
    return bool(set_to & added) or _starts_with_more(code)


def _is_added(code: str, text: re.Match[str], before: str, url: str) -> bool:
    return (
        _ADDED_BEFORE.search(before) is not None
        or _ADDED_BEHIND.match(code, text.end()) is not None
        or _FILLED.search(url) is not None
        or ("{" in url and _FORMED.search(before) is not None)
    )


def _starts_with_more(code: str) -> bool:
    """Whether a program that talks to others is given more than constants."""
    for call in _STARTED.finditer(code) if _STARTS.search(code) else ():
        rest = call[0].lstrip("[( ")
        before = code[max(0, call.start() - _AROUND) : call.start()]
        is_formed = _FORMED.search(before) or rest.startswith("f")
        text = _TEXT.search(rest)
        if text is not None and is_formed and "{" in text[0]:
            return True
        said = _TEXT.sub("", rest)
        end = min((at for at in map(said.find, "])") if at >= 0), default=len(said))
        opened = said.find("(")
        if 0 <= opened < end or re.search(r"\w", _KEYWORD.sub("", said[:end])):
            return True
    return False
