"""Finds where programs of a skill read secrets, and whether they could lead them out."""

import re
from collections.abc import Iterator

from agent_service.skills.hub.verdicts import Finding, Verdict, excerpt

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
    """What a program reads that is secret; dangerous where it also sends something."""
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
