"""Programs that talk to others: what of their arguments are addresses, and what is given away.

A plain request tells whoever is asked nothing but the address. Options that take a value and are
not listed as `quiet` may say more, and so count as given away where they are listed, and else what
is behind them counts as an address: in doubt, nothing makes a command one that stays here.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from agent_service.security.commands.addresses import is_local, leads_away
from agent_service.security.commands.invocation import Invocation, listed
from agent_service.security.commands.marks import UNKNOWN, is_known, is_one, without_marks
from agent_service.security.commands.named import new_hosts

NETCATS = "nc ncat netcat nc.openbsd nc.traditional cryptcat rcat rustcat pwncat pwncat-cs sbd dbd"
HTTPIES = ("http", "https", "xh", "xhs")
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that give nothing."""
_USUAL_HEADER = re.compile(
    r"(?:accept|content-type)\s*:\s*(?:(?:application|text|image|\*)/(?:json|xml|html|plain|\*|"
    r"markdown|csv|x-yaml|yaml|octet-stream|x-ndjson|vnd\.github(?:\.v3)?(?:\.raw)?\+json)"
    r"(?:;\s*(?:charset=utf-8|q=0\.\d))?,?\s*)+|cache-control\s*:\s*no-cache|"
    r"accept-encoding\s*:\s*(?:(?:gzip|deflate|br|zstd|identity)\b,?\s*)+|"
    r"accept-language\s*:\s*[a-z]{2}(?:-[a-z]{2})?",
    re.IGNORECASE,
)
"""A header that tells nobody anything."""
_RANGES = frozenset({"-r", "--range"})
_PART = re.compile(r"\d{0,6}-\d{0,6}")
"""A piece of a file."""
_SHORTEST = 6
"""Letters of a long option that is known by its beginning."""


class Talk(Struct, frozen=True):
    """What one call says to whom."""

    addresses: tuple[str, ...] = ()
    gives: bool = False
    """Whether it gives more away than the addresses that it asks."""

    @property
    def is_here(self) -> bool:
        """Whether all that it talks to is this machine itself."""
        return bool(self.addresses) and all(map(is_local, self.addresses))


class Talker(Struct, frozen=True):
    """How a program is told whom to ask for what; options are written as they are given."""

    quiet: frozenset[str] = frozenset()
    """Take a value that stays here."""
    leads: frozenset[str] = frozenset()
    """Take an address."""
    gives: frozenset[str] = frozenset()
    """Take a value that goes out."""
    headers: frozenset[str] = frozenset()
    """Take a header."""
    methods: frozenset[str] = frozenset()
    """Take a method of HTTP."""
    reads: frozenset[str] = frozenset()
    """Take a file that says addresses or options."""
    bare: frozenset[str] = frozenset()
    """Take no value, and are no beginning of an option that does."""
    tells: frozenset[str] = frozenset()
    """Take no value, and give something away."""
    operands: Callable[[Sequence[str]], Talk] = lambda found: Talk(tuple(found))
    """What operands say."""
    has_letters: bool = True
    """Whether options of one letter are given together behind one dash."""

    @property
    def valued(self) -> frozenset[str]:
        """All options that take a value."""
        return self.quiet | self.leads | self._giving

    @property
    def _giving(self) -> frozenset[str]:
        return self.gives | self.headers | self.methods | self.reads

    def option(self, given: str) -> str:
        """The option that is meant by a beginning of it."""
        if given in self.valued | self.bare | self.tells or len(given) < _SHORTEST:
            return given
        return next((each for each in sorted(self._giving) if each.startswith(given)), given)


def talk_of(invocation: Invocation) -> Talk | None:
    """What a call says to whom; None of a program that is none of these."""
    talker = TALKERS.get(invocation.name)
    if talker is None:
        return None
    operands: list[str] = []
    addresses = [value for name, value in invocation.settings if leads_away(name, value)]
    gives = False
    for option, value in _told(talker, invocation.args):
        if not option:
            operands.append(value)
        elif option in talker.leads:
            addresses.append(value)
        elif option in talker.reads:
            addresses.append(UNKNOWN)
            gives = True
        else:
            gives = gives or _gives(talker, option, value)
    said = talker.operands(operands)
    return Talk((*addresses, *said.addresses), gives or said.gives)


def new_addresses(invocation: Invocation) -> list[str]:
    """The addresses elsewhere that a call asks, as they are written."""
    found: list[str] = []
    if (talk := talk_of(invocation)) is not None:
        found += talk.addresses
    else:
        found += new_hosts(invocation)
        found += _other_machines(invocation)
    return [each for each in found if each and is_known(each) and not is_local(each)]


def says_unknown(invocation: Invocation) -> bool:
    """Whether it says what is not known, other than as the one value of an option that is quiet."""
    talker = TALKERS[invocation.name]
    return any(
        not is_known(option) or not (is_known(value) or (option in talker.quiet and is_one(value)))
        for option, value in _told(talker, invocation.args)
    )


def _gives(talker: Talker, option: str, value: str) -> bool:
    if option in _RANGES:
        return _PART.fullmatch(value) is None
    if option in talker.headers:
        return _USUAL_HEADER.fullmatch(value.strip()) is None
    if option in talker.methods:
        return value.upper() not in _READS
    return option in talker.gives or option in talker.tells


def _told(talker: Talker, args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each option with its value, and each operand as the value of none."""
    valued, rest = talker.valued, iter(args)
    for arg in rest:
        if not arg.startswith("-") or arg == "-":
            yield "", arg
        elif arg == "--":
            yield from (("", each) for each in rest)
        elif arg in valued:
            yield arg, next(rest, "")
        elif arg.startswith("--") or not talker.has_letters:
            name, sign, value = arg.partition("=")
            option = talker.option(without_marks(name))
            yield option, value if sign or option not in valued else next(rest, "")
        else:
            yield from _letters(valued, arg, rest)


def _letters(valued: frozenset[str], arg: str, rest: Iterator[str]) -> Iterator[tuple[str, str]]:
    for number, letter in enumerate(arg[1:], 2):
        option = f"-{letter}"
        if option in valued:
            yield option, arg[number:] or next(rest, "")
            return
        yield option, ""


def _first(found: Sequence[str]) -> Talk:
    return Talk(tuple(found[:1]))


def _request(found: Sequence[str]) -> Talk:
    """Operands of HTTPie: a method, an address and what goes along."""
    is_method = len(found) > 1 and found[0].isalpha()
    method, rest = (found[0], found[1:]) if is_method else ("GET", found)
    address = re.sub(r"^:(?=\d*(?:/|$))", "localhost:", rest[0]) if rest else ""
    items = any(_USUAL_HEADER.fullmatch(each) is None for each in rest[1:])
    return Talk((address,) if rest else (), items or method.upper() not in _READS)


def _question(found: Sequence[str]) -> Talk:
    """Operands of dig: names, types, classes, `+` settings, and servers behind an `@`."""
    kept = (each for each in found if not each.startswith("+") and not _TYPE.fullmatch(each))
    return Talk(tuple(each.removeprefix("@") for each in kept))


_TYPE = re.compile(
    r"(?:A|AAAA|ANY|CAA|CNAME|DNSKEY|DS|HTTPS|MX|NS|PTR|SOA|SRV|SVCB|TXT|IN|CH|HS|AXFR)", re.I
)


def _ports(found: Sequence[str]) -> Talk:
    """Operands of netcat and telnet: everything but ports."""
    return Talk(tuple(each for each in found if not re.fullmatch(r"\d+(?:-\d+)?", each)))


def _looked_up(found: Sequence[str]) -> Talk:
    """Operands of getent: a database, and what is looked up in it."""
    is_host = bool(found) and (found[0].startswith("ahosts") or found[0] == "hosts")
    return Talk(tuple(found[1:]) if is_host else ())


def _behind(*verbs: str) -> Callable[[Sequence[str]], Talk]:
    """Operands of what is told first what it shall do: whom it asks with one of these verbs."""
    return lambda found: Talk(tuple(found[1:]) if found and found[0] in verbs else ())


_CURL = Talker(
    quiet=listed(
        "-o -w -m -c -D -C -y -Y -z -h --output --output-dir --write-out --max-time --cookie-jar "
        "--dump-header --continue-at --speed-time --speed-limit --time-cond --connect-timeout "
        "--retry --retry-delay --retry-max-time --max-redirs --max-filesize --limit-rate --rate "
        "--cacert --capath --ciphers --tls-max --proto --proto-default --proto-redir --interface "
        "--unix-socket --abstract-unix-socket --keepalive-time --parallel-max --stderr --trace "
        "--trace-ascii --create-file-mode --etag-save --hsts --local-port --help"
    ),
    leads=listed(
        "-x --url --proxy --preproxy --socks4 --socks4a --socks5 --socks5-hostname --connect-to "
        "--resolve --doh-url --dns-servers --ipfs-gateway --haproxy-clientip"
    ),
    gives=listed(
        "-A -b -d -e -E -F -P -Q -r -t -T -u -U --user-agent --cookie --data --data-raw "
        "--data-binary --data-ascii --data-urlencode --json --form --form-string --url-query "
        "--referer --cert --ftp-port --quote --range --telnet-option --upload-file --user "
        "--proxy-user --proxy-header --oauth2-bearer --request-target --etag-compare --mail-from "
        "--mail-rcpt --mail-auth --aws-sigv4 --sasl-authzid --service-name --login-options "
        "--ftp-account --ftp-alternative-to-user --netrc-file --variable"
    ),
    headers=listed("-H --header"),
    methods=listed("-X --request"),
    reads=listed("-K --config --alt-svc"),
    bare=listed("--head"),
)
_WGET = Talker(
    quiet=listed(
        "-o -a -t -O -T -w -Q -P -l -A -R -D -I -X --output-document --output-file --append-output "
        "--tries --timeout --dns-timeout --connect-timeout --read-timeout --wait --waitretry "
        "--quota --bind-address --limit-rate --prefer-family --restrict-file-names "
        "--directory-prefix --cut-dirs --default-page --secure-protocol --ca-certificate "
        "--ca-directory --crl-file --level --accept --reject --accept-regex --reject-regex "
        "--regex-type --domains --exclude-domains --include-directories --exclude-directories "
        "--follow-tags --ignore-tags --progress --save-cookies --start-pos --max-redirect "
        "--retry-on-http-error --rejected-log --warc-file --local-encoding --remote-encoding"
    ),
    leads=listed("-B --base"),
    gives=listed(
        "-U --post-data --post-file --body-data --body-file --user --password --http-user "
        "--http-password --ftp-user --ftp-password --proxy-user --proxy-password --referer "
        "--user-agent --load-cookies --certificate --private-key"
    ),
    headers=listed("--header"),
    methods=listed("--method"),
    reads=listed("-i -e --input-file --execute --config --use-askpass"),
)
_HTTPIE = Talker(
    quiet=listed(
        "-A -s -p -o --auth-type --style --print --output --pretty --format-options --verify "
        "--timeout --ssl --ciphers --max-redirects --default-scheme --response-charset "
        "--response-mime --max-headers"
    ),
    leads=listed("--proxy --resolve --unix-socket"),
    gives=listed("-a --auth --raw --session --session-read-only --cert --cert-key --bearer"),
    operands=_request,
)
_ARIA = Talker(
    quiet=listed(
        "-o -d -x -s -j -k -l -m -t -u --out --dir --max-connection-per-server --split "
        "--max-concurrent-downloads --min-split-size --log --max-tries --timeout --checksum "
        "--max-download-limit --seed-time --listen-port --file-allocation"
    ),
    leads=listed("--all-proxy --http-proxy --https-proxy --ftp-proxy --bt-tracker"),
    gives=listed(
        "-U --user-agent --referer --load-cookies --http-user --http-passwd --ftp-user "
        "--ftp-passwd --certificate --private-key"
    ),
    headers=listed("--header"),
    reads=listed("-i -S -T -M --input-file --conf-path --torrent-file --metalink-file"),
)
_LWP = Talker(
    quiet=listed("-t -i -o"),
    leads=listed("-p -b"),
    gives=listed("-H -C -c"),
    methods=listed("-m"),
)
_PINGS = Talker(quiet=listed("-c -i -W -w -s -I -t -m -l -Q -M -S -T -n -C -r"), gives=listed("-p"))
_ROUTES = Talker(quiet=listed("-m -q -w -f -i -p -N -z -c -s -M -t"))
_NETCAT = Talker(
    quiet=listed("-p -s -w -q -X -I -O -T -V -i -m -P -G -e -c --wait --source-port --exec"),
    leads=listed("-x -g --proxy"),
    gives=listed("--proxy-auth"),
    operands=_ports,
)

TALKERS: Mapping[str, Talker] = MappingProxyType(
    {
        **dict.fromkeys(("curl", "curlie"), _CURL),
        **dict.fromkeys(("wget", "wget2"), _WGET),
        **dict.fromkeys(HTTPIES, _HTTPIE),
        "aria2c": _ARIA,
        "axel": Talker(
            quiet=listed("-o -n -s -T --output"), gives=listed("-U"), headers=listed("-H")
        ),
        **dict.fromkeys(("GET", "HEAD", "lwp-request", "lwp-download"), _LWP),
        "POST": Talker(
            _LWP.quiet, _LWP.leads, _LWP.gives, operands=lambda i: Talk(tuple(i), gives=True)
        ),
        "lynx": Talker(
            gives=listed("-auth -pauth -cookie_file -useragent"),
            reads=listed("-cmd_script -cfg"),
            tells=listed("-post_data -post-data -get_data"),
            has_letters=False,
        ),
        "links": Talker(quiet=listed("-width"), has_letters=False),
        "w3m": Talker(
            quiet=listed("-T -I -O -cols -o"), gives=listed("-post -header"), has_letters=False
        ),
        **dict.fromkeys(
            ("dig", "kdig", "delv", "drill", "dog", "doggo"),
            Talker(
                quiet=listed("-t -c -p -b -y -k"),
                leads=listed("-q -x"),
                reads=listed("-f"),
                operands=_question,
            ),
        ),
        "nslookup": Talker(has_letters=False),
        "host": Talker(quiet=listed("-t -W -c -N -R -m")),
        "getent": Talker(quiet=listed("-s"), operands=_looked_up),
        "resolvectl": Talker(quiet=listed("-t -c -i -p"), operands=_behind("query", "service")),
        **dict.fromkeys(("ping", "ping4", "ping6", "fping", "arping"), _PINGS),
        **dict.fromkeys(("traceroute", "tracepath", "mtr"), _ROUTES),
        "nmap": Talker(
            quiet=listed("-p -oN -oX -oG -oA -e --script --top-ports --exclude"),
            leads=listed("--dns-servers --proxies"),
            gives=listed("--data --data-string --script-args"),
            reads=listed("-iL"),
            has_letters=False,
        ),
        "ssh-keyscan": Talker(quiet=listed("-p -t -T -O"), reads=listed("-f")),
        "whois": Talker(quiet=listed("-p"), leads=listed("-h")),
        **dict.fromkeys(NETCATS.split(), _NETCAT),
        "telnet": Talker(quiet=listed("-l -e -n"), leads=listed("-b"), operands=_ports),
        "openssl": Talker(
            quiet=listed("-servername -CAfile -CApath -cert -key -starttls -port -alpn"),
            leads=listed("-connect -proxy -host"),
            operands=_behind("s_client"),
            has_letters=False,
        ),
        "ssh": Talker(
            quiet=listed("-p -l -i -E -c -m -e -b -B"),
            leads=listed("-J -L -R -D -W -O -S -w"),
            reads=listed("-F -o"),
            operands=_first,
        ),
        "mosquitto_pub": Talker(quiet=listed("-t -m -p -q -i -u -P"), leads=listed("-h -L -A")),
    }
)
"""How each program is told."""

_REMOTE = re.compile(
    r"(?:[\w.+-]+@)?((?:[\w-]+\.)+[a-z]{2,}|\d+(?:\.\d+){3}):(?!//)", re.IGNORECASE
)
"""A path on another machine, as ssh, scp and git take it."""
_COPIERS = frozenset({"git", "scp", "rsync", "sftp", "hg"})


def _other_machines(invocation: Invocation) -> Iterator[str]:
    """The machines among the arguments of what copies from one to another."""
    if invocation.name in _COPIERS:
        yield from (match[1] for match in map(_REMOTE.match, invocation.args) if match)
