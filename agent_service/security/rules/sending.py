"""Rules for what sends something elsewhere, which only matters where strangers were read."""

import re
from collections.abc import Sequence

from agent_service.security.families import SENDS
from agent_service.security.interpreters import language_of
from agent_service.security.invocation import Invocation, listed, program_name
from agent_service.security.marks import is_known
from agent_service.security.rules.base import Rule, unless_asking
from agent_service.security.rules.network import NETCATS, REMOTE_PATH
from agent_service.security.rules.transfers import STORE

_HERE = re.compile(r"(?:\w+://)?(?:localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[::1?\]|::1)(?:[:/]|$)")
_DATA = (
    *("-d", "-F", "-T", "--data", "--data-raw", "--data-binary", "--data-ascii", "--json"),
    *("--data-urlencode", "--form", "--form-string", "--upload-file", "--url-query"),
    *("--post-data", "--post-file", "--body-data", "--body-file"),
)
_METHOD = re.compile(
    r"(?:^|\s)(?:-X\s?|--request[ =]|--method[ =])(?:POST|PUT|PATCH)\b", re.IGNORECASE
)
_LETTERED = frozenset({"curl", "curlie"})
"""Of which `-d`, `-F` and `-T` give data."""
_VERBS = {
    "git": r"^(?:-\S+\s+(?:\S+\s+)??)*(?:push|send-email|svn dcommit|request-pull)\b",
    "gh": r"^(?:pr|issue|gist|release|repo|discussion) (?:create|comment|edit|upload|review|sync)\b"
    r"|^api\b.*(?:-X|--method|-f|-F|--field|--input)|^(?:secret|variable) set\b",
    "glab": r"^\w+ (?:create|note|upload|update)\b",
    "docker": r"(?:^|\s)push\b|^buildx?\b.*--push",
    "podman": r"(?:^|\s)push\b",
    "skopeo": r"^(?:copy|sync)\b",
    "helm": r"^push\b",
    "npm": r"^publish\b",
    "pnpm": r"^publish\b",
    "yarn": r"^(?:npm )?publish\b",
    "twine": r"^upload\b",
    "poetry": r"^publish\b",
    "uv": r"^publish\b",
    "cargo": r"^publish\b",
    "gem": r"^push\b",
    "aws": r"\bs3(?:api)? (?:cp|sync|mv|put-object)\b|\b(?:put|send|publish|invoke)-?[\w-]*\b",
    "gcloud": r"\bstorage (?:cp|rsync|mv)\b|\bpublish\b|\bdeploy\b",
    "az": r"\bupload(?:-batch)?\b|\bdeploy\b",
    "huggingface-cli": r"^upload\b",
    "hf": r"^upload\b",
    "croc": r"^send\b",
    "wormhole": r"^(?:send|tx)\b",
    "wrangler": r"^(?:deploy|publish|pages deploy)\b",
    "netlify": r"^deploy\b",
    "firebase": r"^deploy\b",
    "flyctl": r"^deploy\b",
    "ntfy": r"^pub",
}
"""What gives something away, by program."""
_STORES = "gsutil rclone s3cmd s4cmd s5cmd mc b2 azcopy"
_ALWAYS = (
    "mail mailx s-nail mutt neomutt sendmail msmtp swaks sftp lftp ftp ncftp ncftpput tftp "
    "telnet websocat mosquitto_pub kcat kafkacat telegram-send slackcat apprise pastebinit surge "
    "vercel ssh mosh rsh rlogin ssh-copy-id lpr lp"
)


def _is_here(invocation: Invocation) -> bool:
    """Whether all that it talks to is this machine itself."""
    told = [arg for arg in invocation.args if _HERE.match(arg)]
    return bool(told) and not any("://" in arg for arg in invocation.args if arg not in told)


def _posts(invocation: Invocation) -> bool:
    if _is_here(invocation):
        return False
    if invocation.name in ("http", "https", "httpie", "xh"):
        return bool(
            re.search(r"(?:^|\s)(?:POST|PUT|PATCH)\s|\s[\w-]+(?::?=|==|@)\S", invocation.text)
        )
    options = _DATA if invocation.name in _LETTERED else [each for each in _DATA if each[1] == "-"]
    return bool(invocation.value_of(*options)) or bool(_METHOD.search(invocation.text))


def _says_unknown(invocation: Invocation) -> bool:
    """Whether an address has in it what the command itself does not say, such as a file's text."""
    return not _is_here(invocation) and not all(map(is_known, invocation.args))


def _copies(invocation: Invocation) -> bool:
    operands = invocation.without_options(
        ("-P", "-i", "-o", "-F", "-e", "--rsh", "--exclude", "-p", "-l")
    )
    return len(operands) > 1 and bool(REMOTE_PATH.match(operands[-1]))


def _gives(invocation: Invocation) -> bool:
    return bool(re.search(_VERBS[invocation.name], invocation.text))


def _stores(invocation: Invocation) -> bool:
    operands = invocation.operands
    target = operands[-1] if len(operands) > 2 else ""
    return bool(STORE.match(target) or re.match(r"\w+/", target))


def _connects(invocation: Invocation) -> bool:
    """Whether it talks to somebody rather than to look at ports or to wait."""
    is_looking = invocation.short("zlh") or invocation.long("listen", "help")
    return bool(invocation.operands) and not is_looking and not _is_here(invocation)


def _bridges(invocation: Invocation) -> bool:
    told = re.search(r"(?:tcp|udp|openssl|ssl)[46]?(?:-connect)?:(\S+)", invocation.text, re.I)
    return told is not None and not _HERE.match(told[1])


SENDING_RULES: tuple[Rule, ...] = (
    Rule(SENDS, "curl curlie wget wget2 http https httpie xh", _posts, "curl -d a=b example.com"),
    Rule(
        SENDS,
        "curl curlie wget wget2 http https httpie xh aria2c axel lynx links w3m GET POST dig "
        "nslookup host drill ping whois finger",
        _says_unknown,
        "curl https://example.com/$(base64 notes.txt)",
    ),
    Rule(SENDS, NETCATS, _connects, "echo hi | nc example.com 80"),
    Rule(SENDS, "socat", _bridges, "socat - tcp:example.com:80"),
    Rule(
        SENDS,
        "openssl",
        lambda i: "s_client" in i.args and not _is_here(i),
        "openssl s_client -connect example.com:443",
    ),
    Rule(SENDS, "scp rsync", unless_asking(_copies), "scp notes.txt me@example.com:"),
    Rule(SENDS, " ".join(_VERBS), unless_asking(_gives), "git push origin main"),
    Rule(SENDS, _STORES, unless_asking(_stores), "rclone copy notes remote:notes"),
    Rule(
        SENDS,
        _ALWAYS,
        unless_asking(lambda i: bool(i.args) and not _is_here(i)),
        "mail -s hi me@example.com",
    ),
)
"""Rules for what sends something."""

FETCHERS = listed("curl curlie wget wget2 http https httpie xh aria2c axel lynx links w3m GET git")
_URL = re.compile(r"(?:https?|ftp|git|ssh)://[^\s'\"<>`\\)\]}]+")


def asked_urls(argv: Sequence[str]) -> list[str]:
    """The addresses elsewhere that a program asks, or that its code names, as they are written."""
    name = program_name(argv[0])
    if name not in FETCHERS and not language_of(name):
        return []
    found = [match[0] for word in argv[1:] for match in _URL.finditer(word)]
    return [url for url in found if not _HERE.match(url)]
