"""Rules for what reads secrets, and what writes where a system or a shell looks."""

import re
from collections.abc import Callable

from agent_service.security.commands.invocation import Invocation, listed
from agent_service.security.commands.paths import is_credential, written_family
from agent_service.security.commands.rules.base import Rule, unless_asking

_READERS = (
    "cat tac less more most bat batcat head tail nl od xxd hexdump strings base64 base32 "
    "basenc cp mv "
    "tar zip 7z 7za gzip bzip2 xz zstd cpio pax rsync scp curl wget nc ncat socat grep "
    "egrep fgrep rg "
    "ag sed awk gawk cut sort uniq rev vi vim nano emacs view ed ex tee dd install ln "
    "openssl gpg age "
    "pbcopy xclip xsel wl-copy diff cmp comm paste fold fmt pr iconv jq yq python python3 "
    "perl ruby node "
    "php unshadow john hashcat mail mutt sendmail ftp sftp aws gsutil rclone restic borg "
    "http mapfile "
    "readarray read find xargs split csplit dos2unix unexpand expand column look shuf file "
    "ssh-keygen"
)
_WRITERS = (
    "tee cp mv install ln rsync scp sed perl ruby dd curl wget touch truncate sponge ed ex "
    "vi vim nano "
    "patch rm unlink shred chmod chown cat echo printf tar unzip gawk awk aria2c crudini "
    "augtool openssl "
    "sort split csplit rename mkdir gpg 7z dos2unix screen xxd objcopy elvish nc"
)
_LAST_IS_TARGET = frozenset({"cp", "mv", "install", "ln", "rsync", "scp"})
_IN_PLACE = frozenset({"sed", "perl", "ruby", "gawk", "awk"})
_TARGETS = frozenset(
    {"tee", "touch", "truncate", "sponge", "patch", "rm", "unlink", "shred", "ed", "ex", "dd"}
)


def _paths(invocation: Invocation) -> list[str]:
    """The arguments that may be paths, also those within `name=path`, `@path` and `host:path`."""
    found: list[str] = []
    for arg in invocation.args:
        found.append(arg)
        if "=" in arg or "@" in arg:
            found += re.split(r"[=@]", arg)
        if arg.startswith("-") and len(arg) > 3 and arg[1] != "-":
            found.append(arg[2:])
    return [path for path in found if path]


def _reads_secret(invocation: Invocation) -> bool:
    if invocation.name == "ssh-keygen" and not invocation.short("pyle"):
        return False
    if invocation.name in ("ssh-keygen", "openssl") and "-y" not in invocation.args:
        return False
    if invocation.name == "find":
        return _finds_secret(invocation)
    return any(
        is_credential(path, invocation.cwd)
        for path in _paths(invocation)
        if not _is_pattern(invocation, path)
    ) or any(entry[:1] == "<" and is_credential(entry[1:]) for entry in invocation.feeds)


def _finds_secret(invocation: Invocation) -> bool:
    names = invocation.value_of("-name", "-iname")
    return bool(names) and any(
        re.search(r"id_rsa|id_ed25519|\.pem$|shadow|credentials|wallet\.dat|\.kdbx", name)
        for name in names
    )


def _is_pattern(invocation: Invocation, path: str) -> bool:
    return invocation.name in ("grep", "egrep", "fgrep", "rg", "ag", "sed", "awk", "gawk") and (
        invocation.operand(0) == path
    )


def _searches_secrets(invocation: Invocation) -> bool:
    text = invocation.text.lower()
    wide = invocation.short("rR") and any(
        operand in ("/", "/home", "/home/user", "/etc", "/root") for operand in invocation.operands
    )
    return wide and bool(re.search(r"passw|secret|api.?key|token|private key", text))


def _written(invocation: Invocation) -> list[str]:
    operands, name = invocation.operands, invocation.name
    found = [
        *invocation.value_of("-o", "-O", "--output", "--output-document", "--target-directory"),
        *invocation.value_of("-out", "--directory"),
    ]
    if name in _LAST_IS_TARGET and len(operands) > 1:
        found += [_local(operands[-1], operands[:-1])]
        found += invocation.value_of("-t") if name in ("cp", "mv", "ln") else []
        found += operands[:-1] if name == "mv" else []
    elif name in _TARGETS:
        found += [arg.removeprefix("of=") for arg in operands if not arg.startswith("if=")]
    elif (name in _IN_PLACE and _in_place(invocation)) or name in (
        "vi",
        "vim",
        "nano",
        "crudini",
        "augtool",
    ):
        found += operands
    return found


def _local(target: str, sources: list[str]) -> str:
    if target.endswith("/") and sources:
        return target + sources[-1].rpartition("/")[2]
    return target


def _in_place(invocation: Invocation) -> bool:
    return invocation.short("i") or invocation.long("in-place") or "inplace" in invocation.args


def _writes(*families: str) -> Callable[[Invocation], bool]:
    def when(invocation: Invocation) -> bool:
        return any(
            written_family(path, invocation.cwd) in families for path in _written(invocation)
        )

    return unless_asking(when)


def _dumps_memory(invocation: Invocation) -> bool:
    return bool(re.search(r"/proc/(?:\d+|self|\*)/(?:environ|mem)", invocation.text))


_HARMLESS = listed(
    "ssh ssh-copy-id ssh-add ssh-agent sshfs autossh mosh ls stat test [ mkdir chmod chown "
    "sftp git echo printf "
    "rm keychain export cd getfacl namei realpath readlink basename dirname docker podman "
    "aws gh which "
    "dotenv docker-compose ansible ansible-playbook wg-quick kubectl visudo virt-copy-in "
    "vagrant exec du df"
)
"""Programs that may be told where keys are, since they show and change nothing of them."""


def _names_secret(invocation: Invocation) -> bool:
    return invocation.name not in _HARMLESS and any(
        is_credential(path, invocation.cwd) and not path.endswith(".env")
        for path in _paths(invocation)
        if not _is_pattern(invocation, path)
    )


def _puts_out(invocation: Invocation) -> list[str]:
    return [
        *invocation.value_of("-o", "-O", "-w", "-L", "-out", "-Logfile", "-C"),
        *invocation.value_of("--output", "--output-file", "--out", "--outfile", "--log-file"),
        *invocation.value_of("--logfile", "--write", "--save", "--dest", "--directory", "--target"),
    ]


def _puts(*families: str) -> Callable[[Invocation], bool]:
    return lambda invocation: any(
        written_family(path, invocation.cwd) in families for path in _puts_out(invocation)
    )


def _converts(invocation: Invocation) -> bool:
    operands = invocation.operands
    return len(operands) > 1 and bool(written_family(operands[-1], invocation.cwd))


_VAULTS = {
    "secret-tool": r"^(?:lookup|search)\b",
    "gh": r"^auth token\b",
    "pass": r"^(?:show\b|-c\b|[\w@.-]+/\S)",
    "gopass": r"^show\b",
    "vault": r"^(?:kv get|read)\b",
    "aws": r"\bsecretsmanager get-secret-value\b|\bssm get-parameters?\b.*--with-decryption",
    "gcloud": r"\bsecrets versions access\b|\bauth print-\w+-token\b",
    "az": r"^keyvault secret show\b|^account get-access-token\b",
    "kubectl": r"\bget\s+secrets?\b.*(?:-o|--output)",
    "op": r"^(?:read|item get)\b",
    "bw": r"^get\b",
    "keyring": r"^get\b",
    "cmdkey": r"/list",
}
"""What shows secrets that are kept for others to use, by program."""


def _opens_vault(invocation: Invocation) -> bool:
    return bool(re.search(_VAULTS[invocation.name], invocation.text))


_METADATA = re.compile(r"\b169\.254\.(?:169\.254|170\.2)\b|\bmetadata\.google\.internal\b")
_OWN_CHANGES = frozenset(
    {
        ("config", "set"),
        ("config", "unset"),
        ("config", "edit"),
        ("budget", "set"),
        ("home", "import"),
        ("memory", "undo"),
        ("pairing", "approve"),
        ("tools", "enable"),
        ("approvals", "approve"),
        ("approvals", "deny"),
    }
)


ACCESS_RULES: tuple[Rule, ...] = (
    Rule("credential-files", _READERS, unless_asking(_reads_secret), "cat ~/.ssh/id_rsa"),
    Rule("credential-files", "*", _names_secret, "frobnicate /etc/shadow"),
    Rule(
        "credential-files",
        "curl curlie wget wget2 http xh lynx",
        lambda i: bool(_METADATA.search(i.text)),
        "curl http://169.254.169.254/latest/meta-data/iam/security-credentials/",
    ),
    Rule(
        "own-config",
        "hermes",
        lambda i: (i.operand(0), i.operand(1)) in _OWN_CHANGES,
        "hermes config set approvals.mode off",
    ),
    Rule("system-config", "*", _puts("system-config"), "frobnicate --output /etc/passwd"),
    Rule("startup-files", "*", _puts("startup-files"), "frobnicate -o ~/.bashrc"),
    Rule("persistence", "*", _puts("persistence"), "frobnicate -o /etc/cron.d/x"),
    Rule(
        "system-config",
        "dos2unix unix2dos csplit iconv uniq arj cpio convert ffmpeg docker pandoc",
        _converts,
        "dos2unix -n a /etc/passwd",
    ),
    Rule("credential-files", "grep egrep rg ag", _searches_secrets, "grep -r password /etc"),
    Rule("credential-files", "cat strings grep tr xargs", _dumps_memory, "cat /proc/1/environ"),
    Rule(
        "credential-files",
        "secretdump mimikatz lazagne unshadow pwdump",
        lambda i: True,
        "unshadow a b",
    ),
    Rule(
        "credential-files",
        "security",
        lambda i: (
            "find-generic-password" in i.args
            or "dump-keychain" in i.args
            or "find-internet-password" in i.args
        ),
        "security dump-keychain",
    ),
    Rule(
        "credential-files",
        "gpg gpg2",
        lambda i: any(arg.startswith("--export-secret") for arg in i.args),
        "gpg --export-secret-keys -a",
    ),
    Rule("credential-files", " ".join(_VAULTS), _opens_vault, "secret-tool lookup service mail"),
    Rule("credential-files", "getent", lambda i: "shadow" in i.args, "getent shadow"),
    Rule("credential-files", _WRITERS, _writes("credential-files"), "tee ~/.netrc"),
    Rule("startup-files", _WRITERS, _writes("startup-files"), "cp evil ~/.bashrc"),
    Rule("persistence", _WRITERS, _writes("persistence"), "cp job /etc/cron.d/job"),
    Rule("own-config", _WRITERS, _writes("own-config"), "tee ~/.hermes/.env"),
    Rule("system-config", _WRITERS, _writes("system-config"), "sed -i s/a/b/ /etc/hosts"),
)
"""Rules for access to what is not the session's."""
