"""What program text sends: whether it tells the network more than addresses that stand in it."""

import re
from collections import Counter

from agent_service.security.commands.addresses import URL, is_local
from agent_service.security.commands.code_addresses import makes_address

SENDS = re.compile(
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
    r"require\(['\"]https?['\"]\)\.get|"
    r"(?<![\w.])(?:get|getprint|fetch|axios|got)|\bURI\.open|Net::HTTP\.get(?:_response)?|"
    r"\bfile_get_contents|\bcurl_init|(\burlretrieve|\bgetstore))\s*\("
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
_AT_ONCE = re.compile(rf"\s*{_CONSTANT}\s*[,)]")
_BEFORE = re.compile(r"(?:\b[fF][rR]?|[+.%]\s*)[\"'`]$|(?<![\s(\[{,=:;\"'`])[\"'`]$")
_BEHIND = re.compile(r"[\"'`]\s*(?:[+.%]|\bformat\b|<>|\|\||&)")
_FILLED = re.compile(r"[{$\[<*]|#\{|%(?![0-9A-Fa-f]{2})")
_NAMED = re.compile(r"\b([A-Za-z_]\w*)\s*(?:[+.%|&*/-]{1,2})?=(?![=>])\s*")
_LITERAL = re.compile(rf"\s*{_CONSTANT}\s*(?:[;\n)]|$)")
_AROUND = 12


def sends(code: str) -> bool:
    """Whether text that reaches the network tells it more than addresses that stand in it."""
    gives = SENDS.search(code) is not None
    if makes_address(code):
        return True
    if not gives and not _TALKS.search(code):
        return False
    found = list(URL.finditer(code))
    calls = list(_CALL.finditer(code))
    constants = _constants(code) if calls else frozenset[str]()
    if any(_is_made(code, url) for url in found):
        return True
    if any(_says_more(code, call, constants) for call in calls):
        return True
    if found and all(is_local(url[0]) for url in found):
        return False
    return gives or not (found and calls) or _READS.search(code) is not None


def addresses(code: str) -> tuple[str, ...]:
    """The addresses elsewhere that text which reaches the network has in it."""
    if not SENDS.search(code) and not _TALKS.search(code):
        return ()
    return tuple(url[0] for url in URL.finditer(code) if not is_local(url[0]))


def _is_made(code: str, url: re.Match[str]) -> bool:
    """Whether an address is put together with something."""
    before = code[max(0, url.start() - _AROUND) : url.start()]
    return (
        _FILLED.search(url[0]) is not None
        or _BEFORE.search(before) is not None
        or _BEHIND.match(code, url.end()) is not None
    )


def _says_more(code: str, call: re.Match[str], constants: frozenset[str]) -> bool:
    """Whether a call that asks somebody elsewhere says more than a constant address."""
    at_once = _AT_ONCE.match(code, call.end())
    if at_once is not None and (url := URL.search(at_once[0])) and is_local(url[0]):
        return False
    asked = (_SAVED_PLAINLY if call[1] else _ASKED_PLAINLY).match(code, call.end())
    return asked is None or (asked[1].isidentifier() and asked[1] not in constants)


def _constants(code: str) -> frozenset[str]:
    """The names that are set just once, and to a constant."""
    found = list(_NAMED.finditer(code))
    times = Counter(match[1] for match in found)
    return frozenset(
        match[1] for match in found if times[match[1]] == 1 and _LITERAL.match(code, match.end())
    )
