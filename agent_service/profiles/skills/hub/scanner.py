"""Scans all files of a skill before any of them enters a library."""

import re
from collections.abc import Iterator, Mapping, Sequence

from agent_service.profiles.skills.hub import scan_code
from agent_service.profiles.skills.hub.verdicts import Finding, Review, Verdict, excerpt, reviewed
from agent_service.security.commands import code
from agent_service.security.commands.classifier import CommandClassifier
from agent_service.security.plain_text import fold
from agent_service.security.threats import INVISIBLE, ThreatScanner
from services.home.texts import decode_text

_READS = re.compile(
    r"\.ssh/|\bid_(?:rsa|ed25519|ecdsa|dsa)\b|\.aws/credentials|\.netrc\b|\.git-credentials|"
    r"\.kube/config|\.docker/config\.json|\.gnupg\b|\.hermes/(?:\.env|auth\.json|config)|"
    r"(?<![\w-])auth\.json\b|/etc/shadow\b|/proc/(?:self|\d+|\*)/environ|\.pypirc\b|\.npmrc\b|"
    r"login\.keychain|Login Data\b|cookies\.sqlite|wallet\.dat|"
    r"security\s+(?:dump-keychain|find-\w+-password)|"
    r"(?:\bcat|\bbase64|\bopen\(|\bread\w*\(|Path\(|@)\s*[\"']?[\w./~$-]*(?<!\w)\.env\b(?![\w.-])",
    re.IGNORECASE | re.MULTILINE,
)
_DUMPS = re.compile(
    r"(?:dict|str|repr|dumps|list)\(\s*(?:dict\(\s*)?os\.environ\s*[,)]|os\.environ\.items\(|"
    r"(?:json|data|params|files)\s*=\s*(?:dict\()?os\.environ\b|"
    r"(?:stringify|entries|assign)\([^)\n]{0,40}process\.env\s*[,)]|ENV\.to_h|"
    r"\bprintenv\s*(?:[|>)]|$)|(?:^|[;&|(]\s*)(?:env|export -p|set|declare -x)\s*[|>)]",
    re.MULTILINE,
)
_SENDS = re.compile(
    r"\brequests\.\w|\burllib|\bhttpx\.\w|http\.client|\baiohttp\b|\bsocket\.|smtplib|ftplib|"
    r"paramiko|\bfetch\(|\baxios|https?\.(?:request|get|post)\(|Net::HTTP|LWP::|curl_exec|"
    r"file_get_contents\(\s*['\"]http|\bcurl\b|\bwget\b|\b(?:nc|ncat|socat|telnet|scp|rsync|sftp)\s|"
    r"/dev/(?:tcp|udp)/|Invoke-(?:WebRequest|RestMethod)|\bdig\s|\bnslookup\s"
)
_DROPS = re.compile(
    r"webhook\.site|requestbin|pipedream\.net|ngrok(?:-free)?\.(?:io|app|dev)|burpcollaborator|"
    r"\boast\.(?:fun|live|pro|me|site|online)|interact\.sh|discord(?:app)?\.com/api/webhooks|"
    r"api\.telegram\.org/bot|transfer\.sh|\b0x0\.st|\bfile\.io\b|beeceptor\.com|hookb\.in",
    re.IGNORECASE,
)


def of_secrets(path: str, text: str, *, first: int = 1) -> Iterator[Finding]:
    """Yield secrets that a program reads; dangerous if it also sends data."""
    sends = _SENDS.search(text) is not None
    drops = _DROPS.search(text)
    for pattern in (_READS, _DUMPS):
        for match in pattern.finditer(text):
            verdict = Verdict.DANGEROUS if sends or drops else Verdict.CAUTION
            family = "exfiltration" if sends or drops else "credential-files"
            if pattern is _DUMPS and family == "credential-files":
                continue
            yield _at(verdict, family, path, text, match, first)
    if drops is not None:
        yield _at(Verdict.CAUTION, "drop-place", path, text, drops, first)


def _at(
    verdict: Verdict, family: str, path: str, text: str, match: re.Match[str], first: int
) -> Finding:
    begin = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    line = text[begin : len(text) if end < 0 else end]
    number = text.count("\n", 0, match.start()) + first
    return Finding(verdict, family, path, number, excerpt(line))


_SHELLS = frozenset({"sh", "bash", "zsh", "ksh", "dash", "ash"})
_SHELL_FENCES = frozenset(
    {*_SHELLS, "", "shell", "console", "terminal", "shell-session", "shellscript", "text"}
)
_UNSAID = frozenset({"", "text"})
_PYTHON_FENCES = frozenset({"python", "python3", "py"})
_OTHERS = frozenset({"js", "mjs", "cjs", "ts", "rb", "pl", "php", "lua", "ps1"})
_DOCUMENTS = frozenset({"md", "markdown", "txt", "rst", "html"})
_BAD_THREATS = frozenset({"override", "exfiltration", "hidden-markup", "encoded"})
_FENCE = re.compile(
    r"^[ \t>]*(?P<mark>`{3,}|~{3,})[ \t]*\{?\.?(?P<language>[\w+-]*)[^\n]*\n(?P<text>.*?)"
    r"(?:^[ \t>]*(?P=mark)[`~]*[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_MENTION = re.compile(
    r"(?<![\w/-])(?:curl|wget|bash|sh|nc|ncat|eval|rm|dd|mkfs\S*|echo|base64|python3?|perl|socat)"
    r"\s[^`\n]{3,400}"
)
_OWN_KEY = re.compile(r"\$\{?\w*(?:key|token|secret|passw\w*|credential|auth)\w*", re.IGNORECASE)
_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069\U000e0001-\U000e007f]")
_MIXED = re.compile(r"[^\W\d_]+")
_OPAQUE = re.compile(r"[A-Za-z0-9+/=]{400,}|(?:\\x[0-9a-fA-F]{2}){80,}")
_PROGRAMS = (b"\x7fELF", b"MZ", b"\xfe\xed\xfa", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\0asm")
_ARCHIVES = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"7z\xbc\xaf", b"\xfd7zXZ", b"Rar!")
_PICTURES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"%PDF", b"wOFF", b"wOF2", b"\0\1\0\0")
_STARTS = {"program": _PROGRAMS, "archive": _ARCHIVES, "picture": _PICTURES}
"""First bytes of files that are not text."""


class SkillScanner:
    """Scans skills; create one per process, because its patterns and parser are costly."""

    def __init__(self, threats: ThreatScanner) -> None:
        self._threats = threats
        self._classifier = CommandClassifier()

    def review(self, files: Mapping[str, bytes]) -> Review:
        return reviewed(each for path, data in files.items() for each in self._file(path, data))

    def _file(self, path: str, data: bytes) -> Iterator[Finding]:
        if kind := _kind(data):
            if kind != "picture":
                is_bad = kind == "program"
                yield Finding(Verdict.DANGEROUS if is_bad else Verdict.CAUTION, kind, path, 0)
            return
        text = decode_text(data)
        kind_of = _language(path, text)
        examples = _fenced(text) if kind_of in _DOCUMENTS else [(0, len(text))]
        yield from self._scan_orders(path, text, examples)
        yield from _letters(path, text)
        if kind_of in _DOCUMENTS:
            yield from self._document(path, text)
            return
        yield from of_secrets(path, text)
        yield from _opaque(path, text)
        if kind_of == "sh":
            yield from scan_code.of_script(self._classifier, path, text)
        elif kind_of == "py":
            yield from scan_code.of_program(self._classifier, path, text)
        elif kind_of in _OTHERS:
            yield from _program(path, text)

    def _scan_orders(
        self, path: str, text: str, examples: Sequence[tuple[int, int]]
    ) -> Iterator[Finding]:
        """Yield text that gives orders to the agent; code is full of text for others."""
        for threat in self._threats.scan(text):
            line = text[threat.begin : threat.end]
            is_example = any(begin <= threat.begin < end for begin, end in examples)
            family, verdict = _judged(threat.family, line, is_example=is_example)
            number = text.count("\n", 0, threat.begin) + 1
            yield Finding(verdict, family, path, number, excerpt(line))

    def _document(self, path: str, text: str) -> Iterator[Finding]:
        end = 0
        for match in _FENCE.finditer(text):
            yield from self._sentences(path, text, end, match.start())
            end = match.end()
            first = text.count("\n", 0, match.start("text")) + 1
            yield from self._scan_example(path, match["language"].lower(), match["text"], first)
        yield from self._sentences(path, text, end, len(text))

    def _scan_example(self, path: str, language: str, text: str, first: int) -> Iterator[Finding]:
        yield from of_secrets(path, text, first=first)
        yield from _opaque(path, text, first)
        if language in _SHELL_FENCES:
            typed = scan_code.without_prompts(text)
            found = scan_code.of_script(self._classifier, path, typed, first=first, is_whole=False)
            # A block without a language is mostly a form or a picture with words in it.
            is_shell = language not in _UNSAID
            yield from (
                each
                for each in found
                if is_shell or each.family in scan_code.WORST or each.family == "exfiltration"
            )
        elif language in _PYTHON_FENCES:
            yield from scan_code.of_program(
                self._classifier, path, text, first=first, is_whole=False
            )
        elif language in _OTHERS or language in ("javascript", "typescript", "ruby", "perl"):
            yield from _program(path, text, first)

    def _sentences(self, path: str, text: str, begin: int, end: int) -> Iterator[Finding]:
        for match in _MENTION.finditer(text, begin, end):
            line = text.count("\n", 0, match.start()) + 1
            yield from scan_code.of_mention(self._classifier, path, line, match[0])


def _kind(data: bytes) -> str:
    for family, starts in _STARTS.items():
        if data.startswith(starts):
            return family
    try:
        return "binary" if "\0" in decode_text(data) else ""
    except UnicodeDecodeError:
        return "binary"


def _language(path: str, text: str) -> str:
    """Return the language of a file: sh, py, another language's suffix, or md."""
    first = text.partition("\n")[0]
    if first.startswith("#!"):
        words = first[2:].replace("/", " ").split()
        named = next((word for word in words if word.rstrip("0123456789.") in _INTERPRETERS), "")
        if named:
            return _INTERPRETERS[named.rstrip("0123456789.")]
    suffix = path.rpartition(".")[2].lower() if "." in path.rpartition("/")[2] else ""
    if suffix in _SHELLS:
        return "sh"
    if suffix in ("py", "pyw"):
        return "py"
    if suffix in _OTHERS or suffix in _DOCUMENTS:
        return suffix
    return "sh" if path.startswith("scripts/") and not suffix else suffix or "md"


_INTERPRETERS = {
    **dict.fromkeys(_SHELLS, "sh"),
    "python": "py",
    "node": "js",
    "ruby": "rb",
    "perl": "pl",
    "php": "php",
    "lua": "lua",
}


def _program(path: str, text: str, first: int = 1) -> Iterator[Finding]:
    for number, line in enumerate(text.split("\n"), first):
        for finding in code.judge(line[:2000]).findings:
            if finding.family not in scan_code.WORST:
                continue
            verdict = scan_code.severity(finding.family)
            yield Finding(verdict, finding.family, path, number, excerpt(line))


def _letters(path: str, text: str) -> Iterator[Finding]:
    """Yield look-alike letters in words, and characters that reverse the direction of text."""
    if text.isascii():
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.isascii():
            continue
        if _TURNS.search(line):
            yield Finding(Verdict.DANGEROUS, "turned-text", path, number, excerpt(line))
        for word in _MIXED.findall(line):
            if not word.isascii() and fold(word).isascii() and any(each.isascii() for each in word):
                yield Finding(Verdict.CAUTION, "mixed-letters", path, number, excerpt(line))
                break


def _opaque(path: str, text: str, first: int = 1) -> Iterator[Finding]:
    match = _OPAQUE.search(text)
    if match is not None:
        line = text.count("\n", 0, match.start()) + first
        yield Finding(Verdict.CAUTION, "opaque-data", path, line, excerpt(match[0]))


def _fenced(text: str) -> list[tuple[int, int]]:
    return [(match.start("text"), match.end("text")) for match in _FENCE.finditer(text)]


def _judged(family: str, line: str, *, is_example: bool) -> tuple[str, Verdict]:
    """Return the severity of text that gives orders to the agent."""
    if family == INVISIBLE:
        turns = _TURNS.search(line) is not None
        return ("turned-text", Verdict.DANGEROUS) if turns else (family, Verdict.CAUTION)
    if family == "exfiltration":
        leads_out = any(each.verdict is Verdict.DANGEROUS for each in of_secrets("", line))
        if not leads_out and _OWN_KEY.search(line):
            return "own-key", Verdict.CAUTION
        return family, Verdict.DANGEROUS if leads_out or not is_example else Verdict.CAUTION
    if family == "override" and is_example:
        return family, Verdict.CAUTION
    return family, Verdict.DANGEROUS if family in _BAD_THREATS else Verdict.CAUTION
