"""What program text sends: whether it tells the network more than addresses that stand in it."""

import re

from agent_service.security.commands.network_clients import URL, is_local

GIVES = re.compile(
    r"requests\.(?:post|put|patch|delete|request)|urlopen\([^)]{0,400}\bdata\s*=|CURLOPT_(?:URL"
    r"|POST|READ|INFILE|UPLOAD|CUSTOM|HTTPHEADER|COOKIE|USER)|Net::HTTP(?:::|\.)(?:Post|Put|post)"
    r"|sendall|\.send\(|UploadFile|smtplib|\.post\(|(?:httpx|axios|session|client)\.(?:put|patch"
    r"|delete|request)\(|ftplib|paramiko|gethostby\w+|getaddrinfo|dns_get_record|checkdnsrr"
    r"|\bResolv\b|inet_aton|\bdns\.(?:lookup|resolve|promises)|HTTPS?Connection|sendBeacon"
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
_TEXT = r"\s*(?:\"[^\"\n${]*\"|'[^'\n]*'|`[^`$]*`)\s*"
_PLAIN = re.compile(
    r"(?:\burlopen|\b(?:requests|httpx|https?|axios|session|client|r)\.(?:get|head|options|urlopen)|"
    r"->get|require\(['\"]https?['\"]\)\.get|(?<![\w.])(?:get|getprint|fetch|axios|got)|\bURI\.open|"
    r"Net::HTTP\.get(?:_response)?|\bfile_get_contents|\bcurl_init|\burlretrieve|\bgetstore)"
    rf"\s*\({_TEXT}(?:,{_TEXT})?(?:,\s*(?:timeout|verify|stream|allow_redirects|follow_redirects|"
    r"context)\s*=\s*[\w.]+\s*)*(?:,?\s*\)|,\s*(?:async\s*)?(?:\w+|\(\w*\))\s*=>|,\s*function\b)"
    r"|\b(?:import|from)\s[\w.,* ]+|\brequire\s*\(?['\"][\w./-]+['\"]\)?(?!\.)"
)
"""A call that asks for a constant address and says nothing else; or an import."""
_BUILDS = re.compile(
    r"[\"'`\w)\]]\s*[+%]=?\s*[\"'`\w({]|(?<![\w.])[fF][rR]?[\"']|[#$]\{|\{\$|%[sd]|\"[^\"\n]*\$\w|"
    r"\.\s*(?:format|concat|join|replace)\b|[\"']\s*\.\s*\$|<>|\|\||&\s"
)
"""Puts texts together, which may be an address then."""
_STARTED = re.compile(
    r"(?:[\[(]\s*[fr]?[\"'`](?=[\w-]+[\"'`]\s*,)|[\"'`](?=[\w-]+\s))(?:curl|wget|https?|xh|aria2c"
    r"|lynx|w3m|dig|drill|host|nslookup|getent|ping6?|traceroute|mtr|whois|ncat|nc)\b"
)
"""A program that talks to others, as other code starts it."""


def sends(code: str) -> bool:
    """Whether text that reaches the network may tell it more than addresses that stand in it."""
    found = list(URL.finditer(code))
    if found and all(is_local(url[0]) for url in found):
        return False
    if GIVES.search(code) or _STARTED.search(code):
        return True
    talks = list(_TALKS.finditer(code))
    if not talks:
        return bool(found) and _BUILDS.search(code) is not None
    return not found or any(each.search(_PLAIN.sub("", code)) for each in (_TALKS, _READS, _BUILDS))


def addresses(code: str) -> tuple[str, ...]:
    """The addresses elsewhere that text which reaches the network has in it."""
    if not GIVES.search(code) and not _TALKS.search(code):
        return ()
    return tuple(url[0] for url in URL.finditer(code) if not is_local(url[0]))
