"""What program text sends: whether it tells the network more than addresses that stand in it."""

import re
from collections import Counter

from agent_service.security.commands.talkers import URL, is_local

GIVES = re.compile(
    r"requests\.(?:post|put|patch|delete|request)|urlopen\([^)]{0,400}\bdata\s*=|"
    r"CURLOPT_(?:URL|POST|READ|INFILE|UPLOAD|CUSTOM|HTTPHEADER|COOKIE|USER)|"
    r"Net::HTTP(?:::|\.)(?:Post|Put|post)|sendall|\.send\(|UploadFile|smtplib|\.post\(|"
    r"(?:httpx|axios|session|client)\.(?:put|patch|delete|request)\(|ftplib|paramiko|"
    r"gethostby\w+|getaddrinfo|dns_get_record|checkdnsrr|\bResolv\b|inet_aton|"
    r"\bdns\.(?:lookup|resolve|promises)|HTTPS?Connection|sendBeacon"
)
"""Calls that give something away, whatever is around them."""
_TALKS = re.compile(
    r"urllib(?!\.parse)|urlopen|\bimport requests\b|\brequests\.\w+\(|httpx|aiohttp|"
    r"\bhttps?2?\.(?:get|request)|(?<![\w.])(?:window\.|globalThis\.)?fetch\s*\(|axios|"
    r"\bgot\s*\(|undici|XMLHttpRequest|LWP::|HTTP::Tiny|Net::HTTP|open-uri|URI\.open|RestClient|"
    r"HTTParty|Faraday|curl_init|HttpClient|WebClient|WebRequest|RestMethod|\biwr\b|\birm\b|"
    r"openStream|download\.file|"
    r"(?:file_get_contents|fopen|readfile|copy|\bget\w*|open)\s*\(?\s*[\"'](?:https?|ftp):",
    re.IGNORECASE,
)
_READS = re.compile(
    r"(?<![\w.])open\s*\(\s*(?![\"'](?:https?|ftp):|[^()]{1,120},\s*(?:mode\s*=\s*)?[\"'][wxa])|"
    r"\.read_(?:text|bytes)\(|readFile|(?:File|IO|Deno)\.(?:read|open)|\benviron\b|getenv|\bENV\b|"
    r"process\.env|\$_ENV|subprocess|popen|check_output|child_process|shell_exec|\bstdin\b|STDIN|"
    r"\binput\(|\bglob\b|listdir|readdir|scandir|sys\.argv|process\.argv|\bARGV\b|"
    r"file_get_contents\s*\(\s*(?![\"'](?:https?|ftp):)|gethostname|getpass|Get-Content"
)
"""Takes what is here: files, the environment, other programs, what it is given."""
_CALL = re.compile(
    r"(?:\burlopen|\b(?:requests|httpx|https?|axios|session|client)\.(?:get|head|options)|->get|"
    r"require\(['\"]https?['\"]\)\.get|(?<![\w.])(?:get|getprint|fetch|axios|got)|\bURI\.open|"
    r"Net::HTTP\.get(?:_response)?|\bfile_get_contents|\bcurl_init|(\burlretrieve|\bgetstore))\s*\("
)
"""A call that asks an address; one that is told where to save what it gets is in the group."""
_CONSTANT = (
    r"(?:(?:[\w.]*\bRequest|URI|URI\.parse|new URL)\(\s*)?(?<![fF])"
    r"(?:[rRbB]?\"[^\"\n]*\"|[rRbB]?'[^'\n]*'|`[^`$]*`)\s*\)?"
)
_ASKED = rf"\s*({_CONSTANT}|[A-Za-z_]\w*)\s*"
_ASKED_PLAINLY = re.compile(
    rf"{_ASKED}(?:,\s*(?:timeout|verify|stream|allow_redirects|follow_redirects|context)\s*=\s*"
    r"[\w.]+\s*)*(?:,?\s*\)|,\s*(?:async\s*)?(?:\w+|\(\w*\))\s*=>|,\s*function\b)"
)
"""What is behind the bracket of a call that says nothing but an address."""
_SAVED_PLAINLY = re.compile(rf"{_ASKED}(?:,\s*[^(){{}}]*)?\)")
_NAMED = re.compile(r"\b([A-Za-z_]\w*)\s*(?:[+.%|&*/-]{1,2})?=(?![=>])\s*")
_LITERAL = re.compile(rf"\s*{_CONSTANT}\s*(?:[;\n)]|$)")

_TEXT = re.compile(r"'((?:\\.|[^'\\\n])*)'|\"((?:\\.|[^\"\\\n])*)\"|`([^`]*)`")
_ADDED_BEFORE = re.compile(r"\+\s*[fFrRbB]{0,2}$|(?:[+.%]\s*)$")
_FORMED = re.compile(r"(?<![\w.])(?:[fF][rR]?|[rR][fF])$")
_ADDED_BEHIND = re.compile(r"\s*(?:[+%](?!=)|\.\s*(?:format|concat|\$|replace)|<>|\|\||&\s)")
_FILLED = re.compile(r"\$\{|#\{|\{\$|%[sd]|\$\w")
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


def sends(code: str) -> bool:
    """Whether text that reaches the network tells it more than addresses that stand in it."""
    if _makes_address(code) or _starts_with_more(code):
        return True
    gives = GIVES.search(code) is not None
    if not gives and not _TALKS.search(code):
        return False
    found, calls = list(URL.finditer(code)), list(_CALL.finditer(code))
    constants = _constants(code) if calls else frozenset[str]()
    if found and all(is_local(url[0]) for url in found):
        return False
    return (
        gives
        or not (found and calls)
        or any(_says_more(code, call, constants) for call in calls)
        or _READS.search(code) is not None
    )


def addresses(code: str) -> tuple[str, ...]:
    """The addresses elsewhere that text which reaches the network has in it."""
    if not GIVES.search(code) and not _TALKS.search(code):
        return ()
    return tuple(url[0] for url in URL.finditer(code) if not is_local(url[0]))


def _says_more(code: str, call: re.Match[str], constants: frozenset[str]) -> bool:
    """Whether a call that asks somebody elsewhere says more than a constant address."""
    asked = (_SAVED_PLAINLY if call[1] else _ASKED_PLAINLY).match(code, call.end())
    return asked is None or (asked[1].isidentifier() and asked[1] not in constants)


def _constants(code: str) -> frozenset[str]:
    """The names that are set just once, and to a constant."""
    found = list(_NAMED.finditer(code))
    times = Counter(match[1] for match in found)
    return frozenset(
        match[1] for match in found if times[match[1]] == 1 and _LITERAL.match(code, match.end())
    )


def _makes_address(code: str) -> bool:
    """Whether the text puts an address together, whatever asks it then."""
    set_to: set[str] = set()
    for text in _TEXT.finditer(code) if "://" in code else ():
        inner = text[1] or text[2] or text[3] or ""
        url = URL.search(inner)
        before = code[max(0, text.start() - _AROUND) : text.start()]
        if url is None or _MARKED_UP.search(inner, 0, url.start()) or _SHOWN.search(before):
            continue
        if (
            _ADDED_BEFORE.search(before)
            or _ADDED_BEHIND.match(code, text.end())
            or _FILLED.search(url[0])
            or ("{" in url[0] and _FORMED.search(before))
        ):
            return True
        if named := _SET.search(before):
            set_to.add(named[1])
    return bool(set_to) and any(set_to & set(found) for found in _ADDED.findall(code))


def _starts_with_more(code: str) -> bool:
    """Whether a program that talks to others is started with more than constants."""
    for call in _STARTED.finditer(code) if _STARTS.search(code) else ():
        rest = call[0].lstrip("[( ")
        before = code[max(0, call.start() - _AROUND) : call.start()]
        text = _TEXT.search(rest)
        is_formed = _FORMED.search(before) or rest.startswith("f")
        said = _TEXT.sub("", rest)
        end = min((at for at in map(said.find, "])") if at >= 0), default=len(said))
        if (text is not None and is_formed and "{" in text[0]) or "(" in said[:end]:
            return True
        if re.search(r"\w", _KEYWORD.sub("", said[:end])):
            return True
    return False
