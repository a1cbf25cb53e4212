"""Rules for what keeps a machine going: packages, backups, its own network, its start."""

import re

from agent_service.security.commands.invocation import Invocation
from agent_service.security.commands.paths import is_critical
from agent_service.security.commands.rules.base import Rule, always, unless_asking, verb

_NEEDED = re.compile(
    r"(?:linux|musl|libc6?|glibc|systemd|sudo|bash|coreutils|linux-image\S*|kernel\S*|apt|dpkg|rpm|"
    r"python3?|pip|npm|openssh\S*|openssl|grub\S*|init|util-linux|base|base-files|alpine-base|core|"
    r"snapd|login|passwd|shadow|dbus|network-?manager|netplan\S*|iproute2?|ca-certificates|"
    r"sys-\w+/\S+|\*|.*\*|~.*)",
    re.IGNORECASE,
)
_REMOVING = re.compile(
    r"(?:^|\s)(?:remove|purge|autoremove|erase|uninstall|-R\w*|-e\w*|-r|-P|-C|--remove|--purge|"
    r"--unmerge|del|rm)(?:\s|$)"
)


def _removes_needed(invocation: Invocation) -> bool:
    if not _REMOVING.search(invocation.text):
        return False
    if invocation.name in ("npm", "pnpm", "yarn") and not invocation.has("-g", "--global"):
        return False
    named = any(_NEEDED.fullmatch(operand) for operand in invocation.operands)
    forced = r"force-remove-essential|--nodeps|--force-(?:all|depends)|-Rdd\b"
    return named or bool(re.search(forced, invocation.text))


def _cuts_network(invocation: Invocation) -> bool:
    """Whether it takes the machine off its network."""
    text, name = invocation.text, invocation.name
    if name == "ip":
        return bool(
            re.search(
                r"\bl(?:ink)?\b.*\b(?:down|del(?:ete)?)\b|\ba(?:ddr\w*)?\b.*\bflush\b"
                r"|\br(?:oute)?\b.*(?:\bflush\b|\bdel(?:ete)?\s+default\b)",
                text,
            )
        )
    if name == "route":
        return bool(re.search(r"\bdel\b.*\bdefault\b", text))
    if name == "ifconfig":
        return invocation.operand(1) == "down"
    if name == "nmcli":
        return bool(
            re.search(r"\bn\w*\s+off\b|\br\w*\s+\w+\s+off\b|\bc\w*\s+del\w*|\bd\w*\s+disc", text)
        )
    if name == "tc":
        return bool(re.search(r"\bnetem\b.*\bloss\b", text))
    return name == "ifdown" or invocation.operand(0) in ("block", "disconnect", "terminate")


def _drops_backups(invocation: Invocation) -> bool:
    """Whether it removes what was kept to go back to."""
    if invocation.long("dry-run") or invocation.short("n"):
        return False
    text = invocation.text
    if invocation.name == "timeshift":
        return bool(re.search(r"--delete", text))
    if invocation.name == "rdiff-backup":
        return bool(re.search(r"--remove-older-than|\bremove\b", text))
    if invocation.name == "proxmox-backup-client":
        return bool(re.search(r"\bforget\b|\bprune\b", text))
    words = ("delete", "forget", "prune", "purge", "remove", "cleanup")
    return any(each.startswith(words) for each in invocation.operands[:1])


def _covers(invocation: Invocation) -> bool:
    """Whether something is mounted where the system's own folders are, or they are moved."""
    operands = invocation.without_options(("-t", "-o", "--types", "--options", "-O", "-L", "-U"))
    text = invocation.text
    if re.search(r"remount,r[ow]|r[ow],remount", text):
        return bool(operands) and is_critical(operands[-1])
    folders = operands if re.search(r"--?move\b|-M\b", text) else operands[1:]
    return any(
        is_critical(folder) and not re.match(r"/(?:mnt|media|proc|sys|dev|run)\b", folder)
        for folder in folders
        if not re.match(r"/dev/|[A-Z]+=", folder)
    )


def _changes_start(invocation: Invocation) -> bool:
    if invocation.name == "efibootmgr":
        return invocation.short("BDON") or invocation.long(
            "delete-bootnum", "remove-dups", "delete-bootorder", "delete-bootnext"
        )
    if invocation.name == "bootctl":
        return invocation.operand(0) == "remove"
    return invocation.operand(0) in ("set-default", "set-ntp") and invocation.operand(1) in (
        "rescue.target",
        "emergency.target",
        "poweroff.target",
        "reboot.target",
        "false",
        "no",
        "0",
        "off",
    )


UPKEEP_RULES: tuple[Rule, ...] = (
    Rule(
        "package-removal",
        "apt apt-get aptitude yum dnf pacman zypper dpkg rpm apk pkg emerge snap brew npm nala",
        unless_asking(_removes_needed),
        "apt remove sudo",
    ),
    Rule(
        "system-config",
        "ip route ifconfig ifdown nmcli tc rfkill wpa_cli",
        unless_asking(_cuts_network),
        "ip link set eth0 down",
    ),
    Rule(
        "services",
        "ansible",
        lambda i: "state=stopped" in i.text,
        "ansible all -m service -a state=stopped",
    ),
    Rule("mass-kill", "xkill", lambda i: i.long("all") or "-a" in i.args, "xkill -a"),
    Rule(
        "firewall",
        "iptables-restore ip6tables-restore",
        lambda i: not i.long("test", "noflush") and not i.short("tn"),
        "iptables-restore rules.v4",
    ),
    Rule(
        "cloud-destructive",
        "lftp",
        lambda i: bool(
            re.search(r"\bmirror\b.*(?:--delete|\s-e)\b|\brm\s+-r|\bmrm\b", f"{i.text}\n{i.stdin}")
        ),
        "lftp -c 'mirror -R --delete . /www' ftp.example.com",
    ),
    Rule(
        "traces",
        "restic borg duplicity kopia rdiff-backup timeshift snapper proxmox-backup-client",
        unless_asking(_drops_backups),
        "borg delete repo",
    ),
    Rule("traces", "tmutil", verb("delete", "disable", "deletelocalsnapshots"), "tmutil disable"),
    Rule("system-config", "mount", unless_asking(_covers), "mount -t tmpfs none /etc"),
    Rule(
        "system-config",
        "efibootmgr bootctl systemctl timedatectl",
        unless_asking(_changes_start),
        "efibootmgr -b 2 -B",
    ),
    Rule(
        "system-config",
        "grub-install grub2-install update-grub update-grub2 dpkg-divert",
        unless_asking(always),
        "grub-install /dev/sda",
    ),
)
"""Rules for upkeep."""
