"""What a call does to files: deletes, writes, reads and copies."""

import re
from collections.abc import Iterator, Sequence

from agent_service.security.commands.interpreters import SHELLS
from agent_service.security.commands.invocation import Invocation, listed, program_name
from agent_service.security.commands.marks import EVERY_PROCESS, UNKNOWN
from agent_service.security.commands.outputs import roots_of
from agent_service.security.commands.paths import (
    PathClass,
    is_below,
    is_credential,
    is_critical,
    is_outside,
    is_own,
    is_trace,
    place,
    replaced_family,
    resolve,
    written_family,
)
from agent_service.security.commands.rules.base import path_arguments

# Deletes

DELETERS = "rm rimraf srm find rmdir del rd deltree unlink shred Remove-Item"
_ALWAYS_DEEP = listed("rimraf trash-rm srm del rd Remove-Item deltree")
_FIND_VALUED = listed("-name -iname -path -regex -type -maxdepth -mindepth")


def deletes_folders(call: Invocation) -> bool:
    """Whether it deletes folders with all their content."""
    if call.name == "find":
        return "-delete" in call.args or bool(
            re.search(
                r"-(?:exec|ok)(?:dir)? (?:\S+ )?(?:\S*/)?(?:rm|unlink|shred|srm)\b", call.text
            )
        )
    if call.name == "rmdir":
        return "/s" in call.text.lower().split()
    if call.name in _ALWAYS_DEEP:
        return True
    return call.short("rR") or call.long("recursive", "no-preserve-root")


def _deleted(call: Invocation) -> Sequence[str]:
    if call.name == "Remove-Item":
        return [*call.operands, *call.stdin.split()]
    return roots_of(call) if call.name == "find" else call.operands


def deletes_root(call: Invocation) -> bool:
    """Whether it deletes the root, a system folder or a home."""
    if not deletes_folders(call):
        return False
    targets, args = _deleted(call), call.args
    is_narrow = call.name == "find" and any(
        arg in _FIND_VALUED
        and args[number + 1] not in ("*", ".*", "**")
        and args[number : number + 2] != ("-mindepth", "1")
        for number, arg in enumerate(args[:-1])
    )
    if is_narrow:
        return "/" in targets and not call.has("-name", "-iname", "-path", "-regex")
    return any(is_critical(target, call.cwd) for target in targets) or (
        call.long("no-preserve-root")
        and any(place(each, call.cwd) in (PathClass.SYSTEM, PathClass.UNKNOWN) for each in targets)
    )


def deletes_session(call: Invocation) -> bool:
    """Whether it deletes folders of the session, or unknown folders."""
    elsewhere = {PathClass.TMP, PathClass.REBUILT, PathClass.SYSTEM, PathClass.ROOT}
    return deletes_folders(call) and not (
        {place(target, call.cwd) for target in _deleted(call)} <= elsewhere
    )


# Writes

_LAST = listed(
    "cp mv install ln rsync scp dos2unix unix2dos csplit iconv uniq arj cpio convert ffmpeg "
    "pandoc qemu-img ddrescue"
)
"""Programs that write their last operand."""
_ALL = listed(
    "tee touch truncate sponge patch rm unlink shred ed ex dd vi vim nano crudini augtool mv"
)
"""Programs that write or remove all of their operands."""
_IN_PLACE = listed("sed perl ruby gawk awk")
_OUTPUTS = (
    *("-o", "-O", "-w", "-L", "-out", "-Logfile", "--output", "--output-document", "--out"),
    *("--output-file", "--outfile", "--log-file", "--logfile", "--write", "--save", "--dest"),
    *("--directory", "--target", "--target-directory", "--directory-prefix", "--output-dir"),
)
_MOVED = listed("rm unlink mv ln touch patch")
"""Programs that only add or remove names, which harms no device."""


def written_paths(call: Invocation) -> list[str]:
    """The paths that it writes."""
    operands, name = call.operands, call.name
    found = call.value_of(*_OUTPUTS)
    is_copy = name in _LAST or (name in ("docker", "podman") and operands[:1] == ["cp"])
    if is_copy and len(operands) > 1:
        target = operands[-1]
        found.append(target + operands[-2].rpartition("/")[2] if target[-1:] == "/" else target)
        found += call.value_of("-t") if name in ("cp", "mv", "ln") else []
    if name in _ALL:
        found += [arg.removeprefix("of=") for arg in operands if not arg.startswith("if=")]
    if name in _IN_PLACE and (call.short("i") or call.long("in-place") or call.has("inplace")):
        found += operands
    return found


def write_families(call: Invocation) -> Iterator[str]:
    """The families of its writes."""
    no_devices = call.value_of("-w", "-L")
    for path in written_paths(call):
        if call.name in _MOVED or path in no_devices:
            yield "traces" if is_trace(path) else written_family(path, call.cwd)
        else:
            yield replaced_family(path, call.cwd)


def copies_raw(call: Invocation) -> bool:
    """Whether dd does anything but copy between files of the workspace."""
    inside = (PathClass.WORKSPACE, PathClass.REBUILT, PathClass.TMP)
    return any(
        not path
        or path.startswith(("/dev/", "/proc/", UNKNOWN))
        or place(path, call.cwd) not in inside
        or resolve(path, call.cwd).startswith("..")
        for path in _ends_of_dd(call)
    )


def _ends_of_dd(call: Invocation) -> tuple[str, str]:
    values = dict(arg.split("=", 1) for arg in call.args if "=" in arg)
    return (
        values.get("if") or _redirected(call.feeds, "<"),
        values.get("of") or _redirected(call.fed, ">"),
    )


def _redirected(entries: frozenset[str], sign: str) -> str:
    """The file of a redirection; empty if a program comes first."""
    is_piped = any(not entry.startswith(sign) for entry in entries)
    return "" if is_piped else next((entry[1:] for entry in entries), "")


# Reads

_TELLING_NOTHING = listed(
    "ssh ssh-copy-id ssh-add ssh-agent sshfs autossh mosh ls stat test [ mkdir chmod chown sftp "
    "git echo printf rm keychain export cd getfacl namei realpath readlink basename dirname docker "
    "podman aws gh which dotenv docker-compose ansible ansible-playbook wg-quick kubectl visudo "
    "virt-copy-in vagrant exec du df"
)
"""Programs that may be given paths of keys, since they neither show nor change them."""
_SEARCHERS = listed("grep egrep fgrep rg ag sed awk gawk")
_SHOWERS = listed(
    "cat tac less more most bat batcat head tail nl od xxd hexdump strings base64 base32 basenc cp "
    "mv tar zip 7z 7za gzip bzip2 xz zstd cpio pax rsync scp curl wget nc ncat socat grep egrep "
    "fgrep rg ag sed awk gawk cut sort uniq rev vi vim nano emacs view ed ex tee dd install ln "
    "openssl gpg age pbcopy xclip xsel wl-copy diff cmp comm paste fold fmt pr iconv jq yq python "
    "python3 perl ruby node php mapfile readarray read xargs split column file"
)
"""Programs that show or copy content, even of an `.env` that others only load."""


def reads_secret(call: Invocation) -> bool:
    """Whether it is given a file with keys or passwords."""
    if call.name in _TELLING_NOTHING:
        return False
    pattern = call.operand(0) if call.name in _SEARCHERS else ""
    shows = call.name in _SHOWERS
    return any(
        is_credential(path, call.cwd) and (shows or not path.endswith(".env"))
        for path in path_arguments(call)
        if path and path != pattern
    ) or any(entry[:1] == "<" and is_credential(entry[1:]) for entry in call.feeds)


def touches_own(call: Invocation, own: tuple[str, ...]) -> bool:
    """Whether it is given a path in the agent's home."""
    if call.name in ("echo", "printf"):
        return False
    parts = [re.split(r"[=@:]", arg)[-1] for arg in call.args]
    return any(is_own(part, call.cwd) or (own and is_below(part, own, call.cwd)) for part in parts)


# Copies to and from other machines

_REMOTE_PATH = re.compile(
    r"(?:s3|gs|az|rsync|s?ftp|ssh|scp|https?)://|(?:[\w.-]+@)?[\w.-]+:(?!//)|\[[0-9a-f:]+\]:"
)
"""A path on another machine or at a provider, in the syntax of copying programs."""
_COPY_VALUED = ("-P", "-i", "-o", "-F", "-e", "--rsh", "--exclude", "-p", "-l")
_DATA = (
    *("-F", "--form", "-d", "--data", "--data-binary", "--data-raw", "--data-ascii", "--json"),
    "--data-urlencode",
)
_TELLING = re.compile(r"tar|cat|zip|mysqldump|pg_dump|env|printenv")


def copies_to_machine(call: Invocation) -> bool:
    """Whether it copies to another machine."""
    operands = call.without_options(_COPY_VALUED)
    return len(operands) > 1 and _REMOTE_PATH.match(operands[-1]) is not None


def copies_out(call: Invocation) -> bool:
    """Whether it copies from outside the workspace to another machine."""
    *sources, target = call.without_options(_COPY_VALUED) or [""]
    return bool(_REMOTE_PATH.match(target)) and any(
        is_outside(path) and not _REMOTE_PATH.match(path) for path in sources
    )


def copies_in(call: Invocation) -> bool:
    """Whether it copies from another machine to outside the workspace."""
    *sources, target = call.without_options(_COPY_VALUED) or [""]
    return is_outside(target) and any(map(_REMOTE_PATH.match, sources))


def posts_file(call: Invocation) -> bool:
    """Whether curl sends a file from outside the workspace, or a program's output."""
    sent = call.value_of(*_DATA)
    files = [value.partition("@")[2] for value in sent if "@" in value[:1] or "=@" in value]
    files += call.value_of("-T", "--upload-file")
    return any(is_outside(path.partition(";")[0]) for path in files) or (
        not {"-", ".", "/dev/stdin"}.isdisjoint(files) and any(map(_TELLING.fullmatch, call.feeds))
    )


def keeps_outside(call: Invocation) -> bool:
    """Whether it saves a download outside the workspace."""
    return any(
        is_outside(path, call.cwd) for path in (*written_paths(call), *call.value_of("-P", "-d"))
    )


def _is_talking(call: Invocation) -> bool:
    return call.name != "openssl" or call.has("s_client", "s_server")


def reads_outside(call: Invocation) -> bool:
    """Whether its input is a file outside the workspace."""
    return _is_talking(call) and any(
        entry[0] == "<" and is_outside(entry[1:]) for entry in call.feeds if entry
    )


def writes_outside(call: Invocation) -> bool:
    """Whether its output goes to a file outside the workspace."""
    return _is_talking(call) and any(
        entry[0] == ">" and is_outside(entry[1:]) for entry in call.fed if entry
    )


def fills_device(call: Invocation) -> bool:
    """Whether it sends anything but the command's own words to the network."""
    if not any(re.match(r">/dev/(?:tcp|udp)/", entry) for entry in call.fed):
        return False
    if call.name in ("echo", "printf"):
        return UNKNOWN in call.text
    return bool(call.operands or call.feeds)


def runs_shell(call: Invocation) -> bool:
    """Whether a shell is among its arguments."""
    return any(program_name(arg.split()[0]) in SHELLS for arg in call.args if arg.split())


# Kills

_EVERY_NUMBER = re.compile(r"(?:/proc/)?(?:\[[01]-9\]|[*?])+")


def kills_all(call: Invocation) -> bool:
    """Whether kill is given every process."""
    if call.name == "killall5":
        return True
    if not call.has("-0", "-l", "-CONT", "-18") and any(
        EVERY_PROCESS in arg or _EVERY_NUMBER.fullmatch(arg) for arg in call.args
    ):
        return True
    args = [arg for arg in call.args if arg != "--"]
    is_signal = args[:1] != [] and args[0].startswith("-") and args[0] not in ("-1", "-l", "-L")
    targets = args[2 if args[:1] in (["-s"], ["-n"]) else 1 :] if is_signal else args
    return targets[-1:] == ["-1"] or targets == ["1"]
