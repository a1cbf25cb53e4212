"""Rules for what deletes, overwrites, copies and opens files."""

import re

from agent_service.security.commands.invocation import Invocation
from agent_service.security.commands.marks import UNKNOWN
from agent_service.security.commands.paths import (
    Place,
    is_critical,
    is_device,
    is_kept,
    is_own,
    is_trace,
    place,
    resolve,
    written_family,
)
from agent_service.security.commands.rules.base import Rule, always, unless_asking
from agent_service.security.commands.scene import Reach

_FIND_VALUED = frozenset({"-name", "-iname", "-path", "-regex", "-type", "-maxdepth", "-mindepth"})


def _recursive(invocation: Invocation) -> bool:
    if invocation.name in ("rimraf", "trash-rm", "srm", "del", "rd", "Remove-Item", "deltree"):
        return True
    if invocation.name == "find":
        return _find_deletes(invocation)
    if invocation.name == "rmdir":
        return "/s" in invocation.text.lower().split()
    return invocation.short("rR") or invocation.long("recursive", "no-preserve-root")


def _find_deletes(invocation: Invocation) -> bool:
    args = invocation.args
    if "-delete" in args:
        return True
    for number, arg in enumerate(args[:-1]):
        if arg in ("-exec", "-execdir", "-ok", "-okdir"):
            inner = [word.rpartition("/")[2] for word in args[number + 1 : number + 4]]
            if {"rm", "unlink", "shred", "srm"} & set(inner):
                return True
    return False


def _targets(invocation: Invocation) -> list[str]:
    if invocation.name == "Remove-Item":
        return [*invocation.operands, *invocation.stdin.split()]
    if invocation.name != "find":
        return invocation.operands
    roots: list[str] = []
    for arg in invocation.args:
        if arg in ("-L", "-H", "-P"):
            continue
        if arg.startswith(("-", "(", "!")):
            break
        roots.append(arg)
    return roots or ["."]


def _is_narrow(invocation: Invocation) -> bool:
    """Whether a find looks for some files of a name only, not too near to the root."""
    args = invocation.args
    return invocation.name == "find" and any(
        arg in _FIND_VALUED
        and args[number + 1] not in ("*", ".*", "**")
        and args[number : number + 2] != ("-mindepth", "1")
        for number, arg in enumerate(args[:-1])
    )


def _deletes_root(invocation: Invocation) -> bool:
    if not _recursive(invocation):
        return False
    targets = _targets(invocation)
    if _is_narrow(invocation):
        named = invocation.has("-name", "-iname", "-path", "-regex")
        return not named and any(target == "/" for target in targets)
    return any(is_critical(target, invocation.cwd) for target in targets) or (
        invocation.long("no-preserve-root")
        and any(place(t, invocation.cwd) in (Place.SYSTEM, Place.UNKNOWN) for t in targets)
    )


def _deletes_session(invocation: Invocation) -> bool:
    if not _recursive(invocation):
        return False
    kinds = {place(target, invocation.cwd) for target in _targets(invocation)}
    return not kinds <= {Place.TMP, Place.REBUILT, Place.SYSTEM, Place.ROOT}


def _deletes_all(invocation: Invocation) -> bool:
    """Whether every file of a folder is deleted, if not the folders in it."""
    return any(
        re.fullmatch(r"(?:\.{1,2}/)*(?:\*|\*\*|\*\.\*|\.\*)", target)
        and place(f"{target.rstrip('*.')}x", invocation.cwd) is Place.WORKSPACE
        for target in invocation.operands
    )


def _deletes_much(invocation: Invocation) -> bool:
    return any(
        is_critical(target, invocation.cwd) and target.rstrip("*") != target
        for target in invocation.operands
    )


def _open_mode(invocation: Invocation) -> bool:
    mode = invocation.operand(0)
    if re.fullmatch(r"0?[0-7]?[0-7]{2}[2367]", mode):
        return True
    if (mode.lstrip("0") == "" and mode) or re.fullmatch(r"0?000", mode):
        return True
    return bool(re.search(r"(?:^|,)[ugo]*[oa][ugo]*[+=][rxXst]*w|(?:^|,)\+[rxst]*w", mode))


def _wide_mode(invocation: Invocation) -> bool:
    is_all = invocation.short("R") or invocation.long("recursive")
    return is_all and any(
        is_critical(target, invocation.cwd)
        or place(target, invocation.cwd) in (Place.SYSTEM, Place.HOME, Place.ROOT)
        for target in invocation.operands[1:]
    )


def _set_user_mode(invocation: Invocation) -> bool:
    mode = " ".join(invocation.args[:2])
    return bool(re.search(r"(?:^|[\s,])[ugoa]*[+=][rwxXt]*s|(?:^|\s)0?[2467][0-7]{3}\b", mode))


def _system_mode(invocation: Invocation) -> bool:
    return any(
        written_family(target, invocation.cwd)
        in ("system-config", "credential-files", "persistence")
        and not target.endswith((".sh", ".service"))
        and not target.startswith(("/usr/local", "~", "/home", "/Users"))
        for target in invocation.operands[1:]
    )


def _changes_owner(invocation: Invocation) -> bool:
    if invocation.short("R") or invocation.long("recursive"):
        return True
    return any(
        written_family(target, invocation.cwd) or target.endswith("/docker.sock")
        for target in invocation.operands[1:]
    )


def _dd(invocation: Invocation) -> tuple[str, str]:
    """Where dd reads and where it writes: what it is told, else its input and its output."""
    values = dict(arg.split("=", 1) for arg in invocation.args if "=" in arg)
    return (
        values.get("if") or _redirected(invocation.feeds, "<"),
        values.get("of") or _redirected(invocation.fed, ">"),
    )


def _redirected(entries: frozenset[str], sign: str) -> str:
    """The file of a redirection; empty where a program is there before."""
    is_piped = any(not entry.startswith(sign) for entry in entries)
    return "" if is_piped else next((entry[1:] for entry in entries), "")


def _dd_copies(invocation: Invocation) -> bool:
    """Whether it does anything but to copy a file of the workspace to another."""
    inside = (Place.WORKSPACE, Place.REBUILT, Place.TMP)
    return any(
        not path
        or path.startswith(("/dev/", "/proc/", UNKNOWN))
        or place(path, invocation.cwd) not in inside
        or resolve(path, invocation.cwd).startswith("..")
        for path in _dd(invocation)
    )


def _dd_device(invocation: Invocation) -> bool:
    return is_device(_dd(invocation)[1])


def _last_is_device(invocation: Invocation) -> bool:
    operands = invocation.operands
    return len(operands) > 1 and is_device(operands[-1])


def _any_device(invocation: Invocation) -> bool:
    return any(is_device(operand) for operand in invocation.operands)


def _moves_away(invocation: Invocation) -> bool:
    operands = invocation.operands
    sources = operands[:-1]
    return len(operands) > 1 and (
        any(is_critical(source, invocation.cwd) for source in sources)
        or (operands[-1] == "/dev/null")
    )


def _syncs_nothing(invocation: Invocation) -> bool:
    deletes = any(arg.startswith(("--delete", "--del")) for arg in invocation.args)
    return deletes and not invocation.long("dry-run") and not (invocation.letters & {"n"})


def _syncs_root(invocation: Invocation) -> bool:
    return _syncs_nothing(invocation) and any(
        is_critical(operand, invocation.cwd) for operand in invocation.operands[1:]
    )


def _empties(invocation: Invocation) -> bool:
    return any(
        value.lstrip("=") in ("0", "0K", "0M") for value in invocation.value_of("-s", "--size")
    )


def _puts_nothing(invocation: Invocation) -> bool:
    """Whether a file is replaced by nothing."""
    operands = invocation.operands
    if invocation.name in ("cp", "install"):
        is_nothing = len(operands) > 1 and operands[0] == "/dev/null"
        return is_nothing and is_kept(operands[-1], invocation.cwd)
    if invocation.name == "tee":
        is_nothing = "</dev/null" in invocation.feeds and not invocation.short("a")
        return is_nothing and any(is_kept(each, invocation.cwd) for each in operands)
    if invocation.name == "fallocate":
        return invocation.short("pcz") or invocation.long("punch-hole", "collapse-range")
    return any(arg.lower().startswith("/w") for arg in invocation.args)


def _truncates_system(invocation: Invocation) -> bool:
    return any(written_family(operand, invocation.cwd) for operand in invocation.operands)


def _packs_root(invocation: Invocation) -> bool:
    return invocation.long("remove-files") and any(
        is_critical(operand, invocation.cwd) for operand in invocation.operands
    )


def _tars_root(invocation: Invocation) -> bool:
    return invocation.long("remove-files") or (
        any(is_critical(folder) for folder in invocation.value_of("-C", "--directory"))
        and (
            invocation.short("x") or invocation.long("extract") or "x" in invocation.operand(0)[:3]
        )
    )


def _own_home(invocation: Invocation) -> bool:
    return any(
        is_own(re.split(r"[=@:]", operand)[-1], invocation.cwd) for operand in invocation.args
    )


FILE_RULES: tuple[Rule, ...] = (
    Rule(
        "delete-root",
        "rm rimraf srm find rmdir del rd deltree unlink shred Remove-Item",
        _deletes_root,
        "rm -rf /",
    ),
    Rule("delete-root", "tar gtar bsdtar", _packs_root, "tar --remove-files -cf x.tar /etc"),
    Rule("delete-root", "rm shred unlink", _deletes_much, "rm -f /etc/*"),
    Rule("delete-root", "rsync", _syncs_root, "rsync -a --delete empty/ /"),
    Rule("delete-root", "mv", _moves_away, "mv /home/* /dev/null"),
    Rule(
        "recursive-delete",
        "rm rimraf srm find rmdir del rd Remove-Item deltree unlink shred",
        unless_asking(_recursive),
        "rm -r old",
    ),
    Rule(
        "recursive-delete",
        "fd fdfind gio",
        lambda i: (
            (i.has("-x", "-X", "--exec", "--exec-batch") and i.has("rm", "unlink", "shred"))
            or i.args == ("trash", "--empty")
        ),
        "fd -e log -X rm",
    ),
    Rule(
        "workspace-delete",
        "rm rimraf srm find rmdir del rd Remove-Item deltree unlink shred",
        unless_asking(_deletes_session),
        "rm -rf src",
    ),
    Rule("workspace-delete", "rm unlink shred", _deletes_all, "rm -f *"),
    Rule("workspace-delete", "rsync", _syncs_nothing, "rsync -a --delete empty/ src/"),
    Rule(
        "overwrite",
        "shred wipe srm scrub nwipe bcwipe",
        unless_asking(always),
        "shred -u notes.txt",
    ),
    Rule("overwrite", "truncate", _empties, "truncate -s 0 data.db", Reach.OUTSIDE),
    Rule("overwrite", "cp install tee fallocate cipher", _puts_nothing, "cp /dev/null data.db"),
    Rule("system-config", "truncate", _truncates_system, "truncate -s 0 /etc/passwd"),
    Rule("overwrite", "tar bsdtar gtar", _tars_root, "tar -C / -xf backup.tar"),
    Rule(
        "device-write",
        "shred wipe scrub nwipe badblocks",
        lambda i: _any_device(i) and (i.name != "badblocks" or i.short("w")),
        "shred -n 3 /dev/sda",
    ),
    Rule(
        "device-write",
        "dd dcfldd dc3dd gdd ddrescue",
        lambda i: _dd_device(i) or (i.name == "ddrescue" and _last_is_device(i)),
        "dd if=/dev/zero of=/dev/sda",
    ),
    Rule(
        "device-write",
        "cp mv install rsync tee cat pv zcat sponge",
        lambda i: (
            _any_device(i)
            if i.name in ("tee", "sponge")
            else (i.name not in ("cat", "pv", "zcat") and _last_is_device(i))
        ),
        "cp image.iso /dev/sdb",
    ),
    Rule(
        "raw-copy",
        "dd dcfldd dc3dd gdd",
        unless_asking(_dd_copies),
        "dd if=/dev/zero of=big.img bs=1M count=10",
    ),
    Rule("permissions", "chmod gchmod", _open_mode, "chmod 777 run.sh"),
    Rule("permissions", "chmod gchmod", _wide_mode, "chmod -R 755 /etc"),
    Rule(
        "permissions",
        "chmod gchmod chattr setfacl",
        lambda i: i.name.endswith("chmod") and _system_mode(i),
        "chmod 644 /etc/shadow",
    ),
    Rule(
        "permissions",
        "setfacl",
        lambda i: (
            bool(re.search(r"(?:other|o)::?rw", i.text))
            or (i.short("R") and any(is_critical(each, i.cwd) for each in i.operands))
        ),
        "setfacl -m other::rwx data",
    ),
    Rule(
        "permissions",
        "chattr",
        lambda i: (
            any(re.fullmatch(r"[-+=]\w*[ia]\w*", arg) for arg in i.args)
            and (_truncates_system(i) or "-R" in i.args or any(map(is_trace, i.args)))
        ),
        "chattr -i /etc/passwd",
    ),
    Rule("privilege-flags", "chmod gchmod", _set_user_mode, "chmod u+s helper"),
    Rule("ownership", "chown chgrp gchown", unless_asking(_changes_owner), "chown -R nobody /srv"),
    Rule(
        "own-config",
        "cat cp mv rm sed tee vi vim nano less more head tail tar zip base64 ln rsync scp "
        "grep strings ls chmod chown find sqlite3 curl python python3 jq yq xxd od "
        "source . install touch dd truncate",
        _own_home,
        "cat ~/.hermes/config.yaml",
    ),
)
"""Rules for files."""
