"""Predicts the output of well-known programs, as far as the command's text determines it."""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from itertools import takewhile

from msgspec.structs import replace

from agent_service.security.commands.invocation import Invocation, listed
from agent_service.security.commands.marks import DECODED, EVERY_PROCESS, REMOTE, UNKNOWN, marks
from agent_service.security.commands.quotes import decode_escapes
from agent_service.security.commands.scene import Scene

_Teller = Callable[[Invocation, Callable[[str], str]], str]
_LONGEST = 65_536
FETCHERS = listed(
    "curl wget fetch aria2c axel lynx links w3m http https httpie xh curlie nc ncat netcat socat "
    "telnet ftp tftp lwp-request lwp-download GET scp sftp rsync dig host nslookup drill gsutil "
    "openssl_client ssh iwr Invoke-WebRequest lftp wget2 nc.openbsd nc.traditional pwncat finger"
)
"""Programs that print or store data from the network."""
_PASSING = listed(
    "cat tee head tail sort uniq grep egrep fgrep pv dos2unix nl strings tac column fold "
    "fmt expand iconv dd sponge unbuffer stdbuf jq yq sed awk gawk cut tr"
)
_EDITING = listed("jq yq sed awk gawk cut tr")
"""Programs that print their input in another form."""
_JOINING = listed("cat tac sort pv nl")
"""Programs that print whole files."""
_UNPACKING = listed(
    "gunzip zcat gzip bzip2 bunzip2 bzcat xz unxz xzcat zstd zstdcat lz4 lzma unlzma uncompress "
    "brotli unzip uudecode basenc base58 base45 gpg ascii85 7z 7za funzip mcrypt ccrypt xxd od "
    "hexdump base32 base64 openssl rev"
)
_CONNECTION = re.compile(r"/dev/(?:tcp|udp)/")


def output_of(invocation: Invocation, scene: Scene) -> str:
    """What the program prints, as far as known."""
    name, read = invocation.name, scene.read
    if EVERY_PROCESS in invocation.stdin and _picks(invocation):
        some = invocation.stdin.replace(EVERY_PROCESS, UNKNOWN)
        invocation = replace(invocation, stdin=some)
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    teller = _TELLERS.get(name)
    if teller is not None:
        return teller(invocation, read)[:_LONGEST]
    if name in FETCHERS or (name == "openssl" and invocation.has("s_client")):
        return REMOTE
    given = _given(invocation, read)
    if given and name in _JOINING and not all(map(read, set(invocation.operands) - {"-"})):
        given += UNKNOWN
    if given and name in _EDITING and not marks(given):
        given += DECODED
    if name in _PASSING:
        return given or UNKNOWN
    if name in _UNPACKING:
        return marks(given) + DECODED
    return marks(given) or UNKNOWN


def _given(invocation: Invocation, read: Callable[[str], str]) -> str:
    """Its input: named files that the command created, or else piped input."""
    operands = [operand for operand in invocation.operands if operand != "-"]
    if any(_CONNECTION.match(operand) for operand in operands):
        return REMOTE
    return "".join(map(read, operands)) or invocation.stdin


def _echo(invocation: Invocation, read: Callable[[str], str]) -> str:
    args = list(invocation.args)
    escapes, end = False, "\n"
    while args and re.fullmatch(r"-[neE]+", args[0]):
        flag = args.pop(0)
        escapes = escapes or "e" in flag
        end = "" if "n" in flag else end
    text = " ".join(args)
    return (decode_escapes(text) if escapes else text) + end


def _printf(invocation: Invocation, read: Callable[[str], str]) -> str:
    args = list(invocation.args)
    if args[:1] == ["-v"]:
        args = args[2:]
    if args[:1] == ["--"]:
        args = args[1:]
    if not args:
        return ""
    form, values = decode_escapes(args[0]), args[1:]
    found: list[str] = []
    while True:
        used, text = _formatted(form, values)
        found.append(text)
        values = values[used:]
        if not values or not used or len(found) > 64:
            return "".join(found)


def _formatted(form: str, values: list[str]) -> tuple[int, str]:
    used = 0

    def put(match: re.Match[str]) -> str:
        nonlocal used
        if match[1] == "%":
            return "%"
        value = values[used] if used < len(values) else ""
        used += 1
        return decode_escapes(value) if match[1] == "b" else value

    return used, re.sub(r"%[-+ #0]*+\d*+(?:\.\d+)?([a-zA-Z%])", put, form)


def _base64(invocation: Invocation, read: Callable[[str], str]) -> str:
    given = _given(invocation, read)
    if not (invocation.short("dD") or invocation.long("decode")):
        return marks(given) or UNKNOWN
    if not given or marks(given):
        return marks(given).replace(UNKNOWN, "") + DECODED
    compact = re.sub(r"[^A-Za-z0-9+/_-]", "", given).replace("-", "+").replace("_", "/")
    try:
        text = base64.b64decode(compact + "=" * (-len(compact) % 4)).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return DECODED
    return text if text.isprintable() or "\n" in text else DECODED


def _which(invocation: Invocation, read: Callable[[str], str]) -> str:
    return "\n".join(f"/usr/bin/{operand}" for operand in invocation.operands)


def _find(invocation: Invocation, read: Callable[[str], str]) -> str:
    if invocation.has("-printf", "-ls"):
        return UNKNOWN
    roots = roots_of(invocation)
    if any(arg in ("-name", "-iname", "-path", "-regex", "-wholename") for arg in invocation.args):
        return " ".join(f"{root}/{UNKNOWN}" for root in roots)
    return " ".join(roots)


def roots_of(find: Invocation) -> list[str]:
    """The folders that a find searches."""
    args = [arg for arg in find.args if arg not in ("-L", "-H", "-P")]
    return list(takewhile(lambda arg: not arg.startswith(("-", "(", "!")), args)) or ["."]


def _ls(invocation: Invocation, read: Callable[[str], str]) -> str:
    return " ".join(f"{operand.rstrip('/')}/*" for operand in invocation.operands) or "*"


def _ps(invocation: Invocation, read: Callable[[str], str]) -> str:
    letters = "".join(arg for arg in invocation.args[:1] if re.fullmatch(r"[a-zA-Z]+", arg))
    is_every = invocation.short("eA") or {"a", "x"} <= {*letters, *invocation.letters}
    is_some = invocation.value_of("-C", "-p", "-t", "-g", "-G", "--pid", "--ppid", "--user")
    return EVERY_PROCESS if is_every and not is_some else UNKNOWN


def _pgrep(invocation: Invocation, read: Callable[[str], str]) -> str:
    is_every = invocation.operand(0) in ("", ".", ".*", "^", "$") and bool(invocation.operands)
    return EVERY_PROCESS if is_every else UNKNOWN


_PICKS = re.compile(r"/[^/]+/|[~<>=]")
_SKIPS_HEAD = re.compile(r"\bF?NR\s*[!<>=]+\s*\d+")


def _picks(invocation: Invocation) -> bool:
    """Whether it passes on only some lines, not just all but the heading."""
    if invocation.name in ("grep", "egrep", "fgrep", "rg"):
        return not (invocation.short("v") or invocation.long("invert-match"))
    if invocation.name == "tail":
        return "+" not in invocation.text
    if invocation.name in ("awk", "gawk", "mawk"):
        return bool(_PICKS.search(_SKIPS_HEAD.sub("", invocation.text)))
    return invocation.name in ("head", "fzf", "shuf") or (
        invocation.name == "sed" and invocation.short("n")
    )


_LITERAL = re.compile(r"(['\"])(.*?)\1", re.DOTALL)


def _program(invocation: Invocation, read: Callable[[str], str]) -> str:
    return "\n".join(match[2] for match in _LITERAL.finditer(invocation.text)) + UNKNOWN


_CONSTANTS = {"pwd": ".", "whoami": "user", "seq": "1", "uname": "Linux"}
_TELLERS: Mapping[str, _Teller] = {
    "echo": _echo,
    "printf": _printf,
    "base64": _base64,
    "find": _find,
    "ls": _ls,
    "ps": _ps,
    "pgrep": _pgrep,
    "tee": lambda invocation, _: invocation.stdin or UNKNOWN,
    **dict.fromkeys(("true", "false", "cd"), lambda _, __: ""),
    **dict.fromkeys(("which", "command", "type", "whereis"), _which),
    **dict.fromkeys(("python", "python3", "perl", "ruby", "php", "node"), _program),
}
