"""Judges program text for an interpreter by its calls and their literals."""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from agent_service.security.commands.families import SENDS
from agent_service.security.commands.marks import UNKNOWN
from agent_service.security.commands.network_clients import URL, is_local
from agent_service.security.commands.paths import (
    HOME,
    PathClass,
    is_credential,
    is_device,
    is_outside,
    place,
    written_family,
)
from agent_service.security.commands.quotes import decode_escapes
from agent_service.security.commands.scene import Finding, Reach


class CodeVerdict(Struct, frozen=True):
    """What program text does."""

    findings: tuple[Finding, ...]
    scripts: tuple[str, ...]
    """Shell texts that it would run."""


_BLANKS = re.compile(r"\s{2,}")
_LITERAL = re.compile(
    r"'((?:\\.|[^'\\\n])*)'|\"((?:\\.|[^\"\\])*)\"|`([^`]*)`|%[xqQw][({\[]([^)}\]]*)"
)
_BACKTICK = re.compile(r"`([^`]*)`|%x[({\[<]([^)}\]>]*)|qx[({\[</]([^)}\]>/]*)")
_BANG = re.compile(
    r"^\s*(?:\([\w-]*\s*)?(?::?(?:silent\s*)?(?:%|\.)?!|:?(?:shell|exec|spawn|system)\s)\s*(.+)$",
    re.MULTILINE,
)
_LIST = re.compile(r"(?:\"[^\"'\n]*\"(?:\s*,)?\s*|'[^\"'\n]*'(?:\s*,)?\s*){2,}")
_BRACKETS = str.maketrans("()[]{}", " " * 6)
_JOINED = re.compile(r"([\"'])\s*[+.]\s*\1")
_RUNS = re.compile(
    r"\bsystem\b|popen|\bexec(?:[vl]p?e?|File|Sync|FileSync)?\b|spawn|subprocess|shell_exec|"
    r"passthru|proc_open|pcntl_exec|child_process|Runtime|ProcessBuilder|\bpty\b|os\.execute|io\.popen"
    r"|\brun\(|Process\.|do shell script|\bsh\b\s*\(|commands\.getoutput|Start-Process|"
    r"callCommand|\bqx\b|%x|shell\(|IO\.popen|Open3|esyscmd|execSync|System\.cmd|os[:.]cmd|\bProc\b|\bcall\("
    r"|check_output|write18|invoke-expression|\biex\b|Kernel|backtick|\bsource\b|getline|"
    r"shell-command|call-process|start-process|Deno\.Command|run-program|Sys\.command|"
    r"\.execute\(|\|&?\s*\"|"
    # Code in backquotes that is only a variable.
    r"`\s*(?:\$\w+|#\{\s*\w+\s*\})\s*`"
)
_SHELL = re.compile(
    r"(?<![\w.])(?:/(?:usr/)?(?:local/)?bin/)?(?:ba|da|z|k|a|tc|c|mk)?sh\b(?!\.)|"
    r"cmd(?:\.exe)?\b(?=[\"'])|powershell|\bpty\b|/bin/\w*sh|\biex\b|invoke-expression"
)
_SOCKET = re.compile(
    r"\bsocket\b|TCPSocket|TCPServer|UDPSocket|fsockopen|pfsockopen|stream_socket|IO::Socket"
    r"|\bSocket\b|\bSockets\b|ServerSocket|net\.(?:connect|Socket|createConnection|createServer"
    r"|Dial|Listen)|/inet6?/(?:tcp|udp)|\bTcp(?:Stream|Listener|Client)|TCPClient|Sockets\."
    r"|require\(?\s*['\"](?:net|tls|dgram)['\"]|ztcp|gen_tcp|socket_create|sockaddr_in"
    r"|pack_sockaddr|Socket::INET|socat|luasocket|/dev/tcp/|/dev/udp/|Deno\.connect|Bun\.connect"
    r"|\bSocketAddr|TcpListener|open_connection|start_server|websocket|socketserver|"
    r"socketConnection|tcpclient|Net::Telnet|\[socket\b"
)
_LISTENS = re.compile(
    r"\bbind\b|listen|accept\b|TCPServer|createServer|TcpListener|Listen\b|start_server|"
    r"socket_server|/inet6?/(?:tcp|udp)/[1-9]\d*/0|LocalPort|socketserver|ServerSocket",
    re.IGNORECASE,
)
_HANDS_OVER = re.compile(
    r"dup2|fileno\(|getOutputStream|\.pipe\(|stdin|<&|>&|getInputStream|readline|getline|\breceive\b|recv\b|"
    r"pipeline\(|GetStream|\bread\b|\.on\(|\.gets|while|fdopen|proc_open|reopen|to_i\b",
    re.IGNORECASE,
)
_FETCH = re.compile(
    r"urllib|urlopen|requests\.(?:get|post)|http\.client|HTTPClient|httpx\.|LWP::|open-uri|"
    r"URI\.open|Net::HTTP|file_get_contents\s*\(\s*['\"]\s*(?:http|ftp)|curl_exec|https?\.get|fetch\(|axios|"
    r"http\.request|\bget\s*\(?\s*[\"'](?:https?|ftp):|DownloadString|DownloadFile|Invoke-WebRequest|getstore|File::Fetch|openStream|HTTP\.\w+\(|\biwr\b|\bURI\(|\bdownload\(|\bgot\("
)
_EVALUATES = re.compile(
    r"\bexec\b[\s(]|\beval\b|__import__|\bcompile\(|\bsystem\b|popen|subprocess|spawn|"
    r"execSync|shell_exec|passthru|Function\(|loadstring|(?<![\w.])load\(|(?i:\biex\b|invoke-expression)|assert\s*\(|marshal|"
    r"create_function|instance_eval|os\.execute|include\b|require_once|vm\.run|pickle\.loads|child_process|"
    r"getattr"
)
_DECODES = re.compile(
    r"b64decode|b32decode|b16decode|b85decode|a85decode|unhexlify|fromhex|base64_decode|"
    r"str_rot13|rot_?13|gzinflate|gzuncompress|unpack1?\s*\(?\s*[\"'](?:m|u|H\*)|decode64|MIME::Base64|decode_base64|"
    r"\batob\b|Buffer\.from|pack\s*\(?\s*[\"'](?:H\*|C\*|c\*)|chr\(|String\.fromCharCode|FromBase64String|"
    r"zlib\.decompress|hex2bin|codecs\.decode|\[::-1\]|strrev|\.reverse\b|marshal\.loads|bytes\(\s*\[|"
    r"bytearray\(\s*\["
)
_WRITES = re.compile(
    r"open\w{0,20}+\s*\(?[^;\n]{0,200}?[\"'](?:[wax]\+?b?\+?|r\+b?|>>?|\+<)[\"',]|[\"']\+?>{1,2}\s*[/~$]|\.write|writeFile|"
    r"appendFile|file_put_contents|fputs|fwrite|write_text|write_bytes|copyfile|shutil\.(?:copy|move)|"
    r"os\.(?:rename|replace|link|symlink)|FileWriter|Out-File|Set-Content|Add-Content|print\s*>|>\s*[\"']/|truncate|"
    r"createWriteStream|\bspit\b|openout|fopen\s*\([^)]{0,200}[\"'][wa]|copy\s*\(|rename\s*\(|File\.(?:write|open|rename)|"
    r"IO\.write|\bunlink\b|os\.remove|\bopen\(f\s*->|symlink|download\(|chmod|\bsed\b|urlretrieve|getstore|copy_stream"
)
_PATH = re.compile(
    # Text after an unknown part is kept, since the path is no whole folder then.
    r"(?:~|\.{0,2}/|[A-Za-z]:[\\/])[\w./@*~\x91-]+|/|\.(?:ssh|aws|env|hermes|bashrc|netrc)[\w./-]*"
)
_KILL = re.compile(
    r"\bkill\s*\(?\s*(?:-1\b|['\"]?(?:SIG)?KILL['\"]?\s*,\s*-1|9\s*,\s*-1|-1\s*,)|"
    r"Process\.kill\([^)]{0,100},\s*-1"
)
_FORKS = re.compile(
    r"while\s*(?:\(\s*)?(?:1|True|true|\(1\)|:;)\s*\)?\s*[:{]?\s*(?:os\.)?fork|"
    r"fork\s+while\s+fork|(?:os\.)?fork\s*\(?\)?\s*(?:while|until|for\b)|loop\s*(?:\{|do)\s*fork|while\s*\(?fork|"
    r"for\s*\(;;\)\s*\{?\s*fork|forever.{0,20}fork|fork\(\).{0,12}fork\(\).{0,20}while",
    re.DOTALL,
)
_SERVES = re.compile(
    r"http\.server|SimpleHTTPServer|WEBrick|HTTPServer|httpd|pyftpdlib|Plack::|uploadserver|HTTP::Server|HTTP::Daemon"
)
_URL = re.compile(r"\b(?:https?|ftp)://[^\s'\"`)]*")
_MODES = re.compile(
    r"chmod\w{0,20}\s*\(?[^)\n]{0,200}(?:0?o?[0-7]?777|0?o?[246][0-7]{3}\b|S_ISUID)"
)
_EVALUATES_TEXT = re.compile(r"\b(?:exec|eval|compile|loadstring|load|Function)\b\s*\(?\s*[\"'`]")
_CALLS = re.compile(r"\w\s*\(")
_OBEYS = re.compile(
    r"(?:\bexec\w*|\bsystem|popen|\bspawn\w*|getoutput|check_output|shell_exec|\bcall|\brun)"
    r"\s*\(\s*[A-Za-z_$]"
)
"""Runs the content of a variable."""
_WAITS = re.compile(r"createServer|HTTPServer|BaseHTTPRequestHandler|HandleFunc|\bTCPServer")


def judge(code: str) -> CodeVerdict:
    """Judge program text."""
    # Runs of blanks mean nothing and make some patterns slow.
    code = _without_separators(_JOINED.sub("", _with_home(_BLANKS.sub(_one_blank, code))))
    literals = [found for found in _literals(code) if found]
    findings = [*_find(code), *_files(code, literals)]
    texts = literals if _EVALUATES_TEXT.search(code) else []
    scripts = [next(filter(None, match.groups()), "") for match in _BACKTICK.finditer(code)]
    scripts += [match[1] for match in _BANG.finditer(code)]
    if _RUNS.search(code):
        scripts += [text for text in literals if len(text) > 2]
        lists = _LIST.finditer(_BLANKS.sub(_one_blank, code.translate(_BRACKETS)))
        scripts += [" ".join(_literals(match[0])) for match in lists]
    for each in (judge(text) for text in texts if _CALLS.search(text)):
        findings += each.findings
        scripts += each.scripts
    scripts = list(dict.fromkeys(scripts))[:32]
    return CodeVerdict(tuple(findings), tuple(scripts))


def _one_blank(match: re.Match[str]) -> str:
    return "\n" if "\n" in match[0] else " "


def _literals(code: str) -> list[str]:
    return [
        decode_escapes(next(filter(None, match.groups()), "")) for match in _LITERAL.finditer(code)
    ]


_ROWS = (
    ("remote-to-shell", _FETCH, _EVALUATES),
    ("decode-to-shell", _DECODES, _EVALUATES),
    ("bind-shell", _WAITS, _OBEYS),
    ("upload", _SERVES),
    ("kill-all", _KILL),
    ("fork-bomb", _FORKS),
    ("shutdown", re.compile(r"\breboot\s*\(|RB_AUTOBOOT|(?:Stop|Restart)-Computer|ExitWindowsEx")),
    ("privilege-flags", re.compile(r"set\w*uid\s*\(?\s*0\b|\$[<>]\s*=\s*0\b"), _RUNS),
    ("permissions", _MODES),
    (SENDS, _SOCKET),
)
"""Families, with the patterns that must all match."""


def _find(code: str) -> Iterator[Finding]:
    for family, *patterns in _ROWS:
        if all(pattern.search(code) for pattern in patterns):
            yield Finding(family)
    if _sends(code):
        yield Finding(SENDS)
    if not _SOCKET.search(code):
        return
    is_shell, runs = _SHELL.search(code), _RUNS.search(code)
    hands_over = (is_shell or runs) and _HANDS_OVER.search(code)
    if (is_shell and runs) or hands_over:
        yield Finding("bind-shell" if _LISTENS.search(code) else "reverse-shell")
    elif _LISTENS.search(code) and _WRITES.search(code):
        yield Finding("download")


def _files(code: str, literals: list[str]) -> Iterator[Finding]:
    paths = [text for text in literals if _PATH.fullmatch(text) or text in (".", "..", "*")]
    named = _PATH.finditer(_URL.sub(" ", code))
    paths += [match[0] for match in named if len(match[0]) > 4]
    writes = _WRITES.search(code)
    fetches = any(each.search(code) for each in (_FETCH, _URL, _SOCKET))
    yield from _deletes(code, paths)
    for path in paths:
        if fetches and is_outside(path):
            yield Finding("download" if writes else "upload")
        if is_credential(path):
            yield Finding("credential-files")
        if not writes:
            continue
        if is_device(path):
            yield Finding("device-write")
        if family := written_family(path):
            yield Finding(family)


# Deletes: which literals are removed, or walked and removed

_HOME_SAID = (
    r"(?:(?:os\.path\.)?expand(?:user|_path)\(\s?[\"']~[\"']\s?\)|(?:(?:Posix)?Path"
    r"|Dir)\.home(?:\(\))?|(?:\w+\.){0,2}(?:homedir|UserHomeDir)\(\)|\$?(?:\w+\.){0,2}(?:environ"
    r"|ENV|env|_SERVER|_ENV|getenv|Getenv|getProperty)(?:\.get|\.fetch)?\s?[\[({]\s?[\"']?(?:HOME"
    r"|user\.home)[\"']?[^\])}\n]{0,80}[\])}]|(?:process|Bun)\.env\.HOME|\$(?:env:)?\{?HOME\}?\b)"
)
_HOME_INSIDE = re.compile(rf"[$#]?\{{\s?{_HOME_SAID}\s?\}}|(?<=[\"']){_HOME_SAID}(?=[/\"'])")
_HOME_NAMED = re.compile(rf"{_HOME_SAID}(?:\s?([+./])\s?([\"']))?")
_TILDE = re.compile(r"([\"'])~(?=[/\"'])")
_JOINS = re.compile(r"\b(join|Join|resolve)\(\s?([\"'])([^\"'\n]*)\2\s?,\s?([\"']?)")
_BEGINS = re.compile(r"([\"'])(/[^\"'\n]*)\1(?=\s?\+\s?[\w$]|\s?\.\s?\$)")
# A slash that only separates names is not a deleted path.
_SEPARATES = re.compile(
    r"(?:\.\w*(?:[sS]plit|join|[sS]trip|[rR]eplace\w*|partition|[wW]ith\??|[iI]ndex\w*|count"
    r"|[pP]refix|[sS]uffix)|\b(?:ex|im)plode)\(\s?([\"'])/\1(?:\s?\)|(?=\s?,))"
    r"|([\"'])/\2\s?(?:\.join|\bin\b)|(?<=[+.])\s?([\"'])/\3\s?(?=[+.])|[!=]==?\s?([\"'])/\4"
)
_DELETES = re.compile(
    r"rmtree|rm_rf|rm_r\b|remove_dir|remove_tree|rimraf|rmSync|fs\.rm\b|rmdirSync|rmdir\b|"
    r"remove_entry|secure_rm|deltree|File::Path|removeSync|emptyDir|RemoveAll|DirectoryNotEmpty"
    r"|Remove-Item|\bremovedirs\b|Directory\]?(?:::|\.)Delete|unlink\s*\(?\s*(?:glob|<)"
    r"|Deno\.remove|FileUtils\.remove|file\.remove|Dir\.delete|rm_tree|delete_recursive"
    r"|deleteDirectory|recursive\s*[=:]\s*(?:true|TRUE|True)"
)
_DELETES_ONE = re.compile(
    r"\b[uU]nlink|os\.[rR]emove\b|File\.delete|rmSync|Deno\.remove|\bremove_file|File\.Delete"
)
# Iterates over every file of a folder.
_WALKS_HERE = re.compile(
    r"(?:glob|Dir)\w*\s*[(\[]\s*[\"'](?:\*\*?/?)+[\"']|listdir|iterdir|os\.walk|scandir|readdir"
    r"|each_child|Dir\.children|DirectoryIterator|\brglob|Find\.find|File::Find|WalkDir"
)
_WALKED = re.compile(
    r"(?:walk\w*|Walk\w*|r?glob\w*|iglob|listdir|scandir|readdir\w*|opendir|DirectoryIterator"
    r"|\bfind|children|each_child|\bentries|\bDir|EnumerateFiles|GetFiles)"
    r"\s?[(\[ ]\s?[\"']([^\"'\n]*)[\"']"
    r"|Path\w*(?:\.new)?\(\s?[\"']([^\"'\n]*)[\"']\s?\)\.(?:r?glob|iterdir|walk|children|find)"
    r"|(?<![\w.])[\"'](/[^\"'\n]*)[\"']\.(?:r?glob|iterdir|walk)"
    r"|\b(?:find|finddepth)\s?\(?\s?(?:sub\b|\\?&|\{)[^\n]{0,200}?,\s?[\"']([^\"'\n]*)[\"']\s?\)?\s?;?\s?$",
    re.MULTILINE,
)


def _with_home(code: str) -> str:
    if "ome" in code or "HOME" in code or "~" in code:
        code = _HOME_INSIDE.sub(HOME, code)
        code = _HOME_NAMED.sub(_quoted_home, code)
    if "~" in code:
        code = _TILDE.sub(rf"\1{HOME}", code)
    return code


def _quoted_home(match: re.Match[str]) -> str:
    operator, quote = match[1], match[2]
    if not quote:
        return f'"{HOME}"'
    return f"{quote}{HOME}{'/' if operator == '/' else ''}"


def _deletes(code: str, paths: Sequence[str]) -> Iterator[Finding]:
    if _DELETES.search(code):
        found = {place(path) for path in paths}
        if PathClass.ROOT in found:
            yield Finding("delete-root")
        yield Finding("recursive-delete", Reach.OUTSIDE if PathClass.TMP not in found else None)
    elif _DELETES_ONE.search(code) and (_WALKS_HERE.search(code) or _WALKED.search(code)):
        walked = (next(filter(None, match.groups()), "") for match in _WALKED.finditer(code))
        if any(place(path) is PathClass.ROOT for path in walked):
            yield Finding("delete-root")
        yield Finding("workspace-delete")


def _without_separators(code: str) -> str:
    """The text with joined path parts, and without slashes that only separate names."""
    for _ in range(4):
        joined = _JOINS.sub(_put_together, code)
        if joined == code:
            break
        code = joined
    return _BEGINS.sub(rf"\1\2{UNKNOWN}\1", _SEPARATES.sub(" ", code))


def _put_together(match: re.Match[str]) -> str:
    call, quote, path, following = match.groups()
    start = f"{call}({following or quote}{path.rstrip('/')}/"
    return start if following else f"{start}{UNKNOWN}{quote} "


# Sending

_TALKS = re.compile(
    r"urllib(?!\.parse)|urlopen|\bimport requests\b|\brequests\.\w+\(|httpx|aiohttp|pycurl|"
    r"\bhttps?2?\.(?:get|request)|(?<![\w.])(?:window\.|globalThis\.)?fetch\s*\(|axios|"
    r"\bgot\s*\(|undici|XMLHttpRequest|LWP::|HTTP::Tiny|Net::HTTP|open-uri|URI\.open|RestClient|"
    r"HTTParty|Faraday|curl_init|CURLOPT_|HttpClient|WebClient|WebRequest|RestMethod|\biwr\b|\birm\b|"
    r"openStream|download\.file|sendall|\.send\(|UploadFile|smtplib|\.post\(|ftplib|paramiko|"
    r"(?:axios|session|client)\.(?:put|patch|delete|request)\(|gethostby\w+|getaddrinfo|dns_get_record|"
    r"checkdnsrr|\bResolv\b|inet_aton|\bdns\.(?:lookup|resolve|promises)|HTTPS?Connection|sendBeacon|"
    r"(?:file_get_contents|fopen|readfile|copy|\bget\w*|open)\s*\(?\s*[\"'](?:https?|ftp):|"
    # A network program, as code starts it.
    r"(?:[\[(]\s*[fr]?[\"'`](?=[\w-]+[\"'`]\s*,)|[\"'`](?=[\w-]+\s))(?:curl|wget|https?|xh|aria2c"
    r"|lynx|w3m|dig|drill|host|nslookup|getent|ping6?|traceroute|mtr|whois|ncat|nc)\b",
    re.IGNORECASE,
)
"""Calls that use the network."""


def _sends(code: str) -> bool:
    """Whether code uses the network or names an address, other than of this machine."""
    found = URL.findall(code)
    return not all(map(is_local, found)) if found else _TALKS.search(code) is not None
