"""Network programs: whom a call contacts, and whether it sends more than an address.

When in doubt, something is sent: unlisted options with a value count as addresses, and an unknown
address may contain a file's content.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from agent_service.security.commands.invocation import Invocation, listed
from agent_service.security.commands.marks import UNKNOWN, is_known, is_one, without_marks
from agent_service.security.commands.paths import HOME

_LOCAL = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://)?(?:localhost|ip6-localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[::1?\])"
    r"(?::\d{0,5})?(?:[/?#].*)?|::1?"
    # Databases accept a user name before the host.
    r"|(?!https?|ftp|ws)[a-z]\w*://[^/@\s]*@(?:localhost|127\.0\.0\.1)(?:[:/?].*)?"
    r"|(?:unix|data|about|chrome|npipe|mem|cid|fd|jar|memory|sqlite\d?|file):.*",
    re.IGNORECASE | re.DOTALL,
)
URL = re.compile(r"(?:https?|ftp|git|ssh)://[^\s'\"<>`\\)\]}]+", re.IGNORECASE)
"""A URL, anywhere in a text."""
ADDRESS = re.compile(r"(?<![\w+.-])[a-z][a-z0-9+.-]{0,20}://[^\s'\"<>`\\)\]}]+", re.IGNORECASE)
"""A URL of any scheme."""
_LEADS = re.compile(
    r"(?!(?i:no_))\w*(?i:_proxy)|CURL_HOME|(?:SYSTEM_)?WGET2?RC|GIT_CONFIG\w*|GIT_PROXY_COMMAND"
    r"|HTTPIE_CONFIG_DIR|HOME|XDG_CONFIG_HOME"
)
"""Variables that name a proxy, or settings that may name one."""
_USUAL = ("", "/dev/null", HOME, f"{HOME}/.config")


def leads_away(variable: str, value: str) -> bool:
    """Whether a variable may lead network programs to other hosts."""
    is_usual = value in _USUAL or is_local(value)
    return _LEADS.fullmatch(variable) is not None and not is_usual


def is_local(address: str) -> bool:
    """Whether an address is on this machine or is a file.

    A web address with a user name never is, since programs disagree on where the name ends.
    """
    return _LOCAL.fullmatch(address) is not None


NETCATS = "nc ncat netcat nc.openbsd nc.traditional cryptcat rcat rustcat pwncat pwncat-cs sbd dbd"
_SAYS_NOTHING = re.compile(
    r"GET|HEAD|OPTIONS|\d{0,5}|\d{0,6}-\d{0,6}|(?:accept|content-type)\s*:\s*(?:(?:application|text"
    r"|image|\*)/(?:json|xml|html|plain|\*|markdown|csv|x-yaml|yaml|octet-stream|x-ndjson"
    r"|vnd\.github(?:\.v3)?(?:\.raw)?\+json)(?:;\s*(?:charset=utf-8|q=0\.\d))?,?\s*)+"
    r"|cache-control\s*:\s*no-cache|accept-encoding\s*:\s*(?:(?:gzip|deflate|br|zstd"
    r"|identity)\b,?\s*)+|accept-language\s*:\s*[a-z]{2}(?:-[a-z]{2})?",
    re.IGNORECASE,
)
"""Methods, byte ranges and headers that reveal nothing."""
_SHORTEST = 6
"""Letters of a long option that may be abbreviated."""


class NetworkClient(Struct, frozen=True):
    """How a program's arguments name hosts and data; options are spelt as given."""

    quiet: frozenset[str] = frozenset()
    """Options with a value that is not sent."""
    gives: frozenset[str] = frozenset()
    """Options with a value that is sent, or a file with data to send."""
    reads: frozenset[str] = frozenset()
    """Options that read settings or choose a proxy, so the contacted host is uncertain."""

    def parse_options(self, args: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Each option with its value, and each operand with an empty option."""
        rest = iter(args)
        for arg in rest:
            if not arg.startswith("-") or arg == "-":
                yield "", arg
            elif arg == "--":
                yield from (("", each) for each in rest)
            elif self._is_valued(arg):
                yield arg, next(rest, "")
            elif arg.startswith("--"):
                name, sign, value = arg.partition("=")
                option = self._resolve(without_marks(name))
                yield option, value if sign or not self._is_valued(option) else next(rest, "")
            else:
                yield from self._letters(arg, rest)

    def _is_valued(self, option: str) -> bool:
        return option in self.quiet or option in self.gives or option in self.reads

    def _resolve(self, given: str) -> str:
        if self._is_valued(given) or len(given) < _SHORTEST:
            return given
        return next((each for each in sorted(self.gives) if each.startswith(given)), given)

    def _letters(self, arg: str, rest: Iterator[str]) -> Iterator[tuple[str, str]]:
        for number, letter in enumerate(arg[1:], 2):
            if self._is_valued(f"-{letter}"):
                yield f"-{letter}", arg[number:] or next(rest, "")
                return
            yield f"-{letter}", ""


_CURL = NetworkClient(
    quiet=listed(
        "-o -w -m -c -D -C -y -Y -z --output --output-dir --write-out --max-time --cookie-jar "
        "--dump-header --continue-at --connect-timeout --retry --retry-delay --retry-max-time "
        "--max-redirs --max-filesize --limit-rate --cacert --capath --ciphers --proto --interface "
        "--unix-socket --stderr --trace --trace-ascii --etag-save --head"
    ),
    gives=listed(
        "-A -b -d -e -E -F -H -P -Q -r -t -T -u -U -X --user-agent --cookie --data --data-raw "
        "--data-binary --data-ascii --data-urlencode --json --form --form-string --url-query "
        "--referer --cert --ftp-port --quote --range --telnet-option --upload-file --user --header "
        "--proxy-user --proxy-header --oauth2-bearer --request --request-target --etag-compare "
        "--mail-from --mail-rcpt --aws-sigv4 --netrc-file --variable"
    ),
    reads=listed("-K --config --alt-svc"),
)
_WGET = NetworkClient(
    quiet=listed(
        "-o -a -t -O -T -w -Q -P -l -A -R -D -I -X --output-document --output-file --tries "
        "--timeout --wait --limit-rate --directory-prefix --cut-dirs --ca-certificate --level "
        "--accept --reject --domains --include-directories --exclude-directories --save-cookies"
    ),
    gives=listed(
        "-U --post-data --post-file --body-data --body-file --user --password --http-user "
        "--http-password --ftp-user --ftp-password --referer --user-agent --load-cookies "
        "--certificate --private-key --header --method"
    ),
    reads=listed("-i -e --input-file --execute --config --use-askpass"),
)
_OTHERS = NetworkClient(
    quiet=listed("-c -i -m -s -t -w -y -b -k -I -M -O -P -Q -R -T -V -W -X -G -e --wait --exec"),
    gives=listed("-p --proxy-auth"),
    reads=listed("-f"),
)
_OTHER_PROGRAMS = (
    "dig kdig delv drill dog doggo ssh-keyscan ping ping4 ping6 fping arping traceroute tracepath "
    f"mtr host nslookup whois {NETCATS}"
)
_TABLE = (("curl curlie", _CURL), ("wget wget2", _WGET), (_OTHER_PROGRAMS, _OTHERS))
TALKERS: Mapping[str, NetworkClient] = {
    program: talker for programs, talker in _TABLE for program in programs.split()
}
_NO_HOST = re.compile(
    r"\d+(?:-\d+)?|\+.*|(?:A|AAAA|ANY|CAA|CNAME|DNSKEY|DS|HTTPS|MX|NS|PTR|SOA|SRV|SVCB|TXT|IN|CH|HS|AXFR)",
    re.IGNORECASE,
)
_COPIERS = listed("git scp rsync sftp hg")
_MACHINE = re.compile(
    r"(?:[\w.+-]+@)?((?:[\w-]+\.)+[a-z]{2,}|\d+(?:\.\d+){3}):(?!//)", re.IGNORECASE
)


class NetworkCall(Struct, frozen=True):
    """What one call sends to whom."""

    addresses: tuple[str, ...] = ()
    gives: bool = False
    """Whether it sends more than the addresses it contacts."""
    is_untold: bool = False
    """Whether it sends text that the command does not contain."""

    @property
    def is_here(self) -> bool:
        return bool(self.addresses) and all(map(is_local, self.addresses))


def _talk_of(call: Invocation, talker: NetworkClient) -> NetworkCall:
    addresses = [value for name, value in call.settings if leads_away(name, value)]
    operands: list[str] = []
    gives = is_untold = False
    for option, value in talker.parse_options(call.args):
        is_quiet = option in talker.quiet
        told = is_known(value) or (is_quiet and is_one(value))
        is_untold = is_untold or not (is_known(option) and told)
        if option in talker.reads:
            addresses.append(UNKNOWN)
            gives = True
        elif option in talker.gives:
            gives = gives or not _SAYS_NOTHING.fullmatch(value.strip())
        elif value and not is_quiet:
            operands.append(value)
    if call.name not in ("curl", "wget"):
        operands = [each.removeprefix("@") for each in operands if not _NO_HOST.fullmatch(each)]
    addresses += operands
    is_untold = is_untold or any("*" in address for address in addresses)
    return NetworkCall(tuple(addresses), gives, is_untold or _is_guessed(call, addresses))


def _is_guessed(call: Invocation, addresses: list[str]) -> bool:
    return any(part in address for address in addresses for part in call.guesses)


def sends(call: Invocation) -> bool:
    """Whether it sends others more than an address, or text unknown here."""
    if (talker := TALKERS.get(call.name)) is None:
        return any(not is_known(each) or _is_guessed(call, [each]) for each in _addresses(call))
    talk = _talk_of(call, talker)
    return not talk.is_here and (talk.gives or talk.is_untold)


def is_elsewhere(call: Invocation) -> bool:
    """Whether it contacts another machine."""
    return not _talk_of(call, TALKERS[call.name]).is_here


def new_addresses(call: Invocation) -> list[str]:
    """The remote addresses that a call contacts, as written."""
    if (talker := TALKERS.get(call.name)) is not None:
        found = list(_talk_of(call, talker).addresses)
    else:
        found = [each for each in _addresses(call) if not _STORES.match(each)]
        if call.name in _COPIERS:
            found += [match[1] for match in map(_MACHINE.match, call.args) if match]
    return [each for each in found if each and is_known(each) and not is_local(each)]


# Other programs

_SILENT = listed(
    "echo printf grep egrep fgrep rg ag sed awk gawk mawk jq yq tr cut sort uniq head tail cat tee "
    "ls mkdir rm cp mv touch test [ [[ true : basename dirname expr logger notify-send export set "
    "read local declare man apropos xsel xclip pbcopy wl-copy figlet cowsay diff cmp wc find fd "
    "ln less more vim vi nano emacs code"
)
"""Programs that treat addresses as plain text."""
_SILENT_VERBS = listed("commit log grep tag show notes blame diff merge rebase")
_STORES = re.compile(r"(?:s3|gs|az|hdfs|docker-daemon|dir|oci-archive)a?:", re.IGNORECASE)
"""Schemes whose first part is not a host."""


def _addresses(call: Invocation) -> Iterator[str]:
    if call.name in _SILENT or (call.name == "git" and call.operand(0) in _SILENT_VERBS):
        return
    for word in (*call.args, *(value for _, value in call.settings)):
        if "://" in word:
            yield from (each[0] for each in ADDRESS.finditer(word) if not is_local(each[0]))
