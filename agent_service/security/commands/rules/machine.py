"""Rules for devices, services, processes, accounts and the kernel."""

import re
from collections.abc import Callable

from agent_service.security.commands.invocation import Invocation, listed
from agent_service.security.commands.marks import EVERY_PROCESS, UNKNOWN
from agent_service.security.commands.paths import is_critical, is_trace
from agent_service.security.commands.rules.base import Rule, asks_only, verb
from agent_service.security.commands.scene import Reach


def _shuts_down(invocation: Invocation) -> bool:
    if asks_only(invocation) or invocation.has("-c", "-k") or invocation.short("w"):
        return False
    return not (invocation.name == "halt" and invocation.long("wtmp-only"))


_EVERY_NUMBER = re.compile(r"(?:/proc/)?(?:\[[01]-9\]|[*?])+")


def _kills_all(invocation: Invocation) -> bool:
    if invocation.name == "killall5":
        return True
    if not asks_only(invocation) and not invocation.has("-0", "-l", "-CONT", "-18"):
        every = (EVERY_PROCESS in arg or _EVERY_NUMBER.fullmatch(arg) for arg in invocation.args)
        if any(every):
            return True
    args = [arg for arg in invocation.args if arg != "--"]
    signal = bool(args) and args[0].startswith("-") and args[0] not in ("-1", "-l", "-L")
    targets = [arg for arg in args[1:] if not arg.startswith("-s")] if signal else args
    if args[:1] == ["-s"] or args[:1] == ["-n"]:
        targets = args[2:]
    return targets != [] and ("-1" in targets[-1:] or targets == ["1"])


def _kills_every(invocation: Invocation) -> bool:
    return any(
        operand in (".", ".*", "*", "", "^", "[a-z]") for operand in invocation.operands
    ) or (any(user in ("root",) for user in invocation.value_of("-u", "-U", "--euid", "--uid")))


def _is_kill_signal(invocation: Invocation) -> bool:
    return any(
        re.fullmatch(r"-(?:9|(?:SIG)?KILL)", arg, re.IGNORECASE) for arg in invocation.args
    ) or any(
        value.upper().removeprefix("SIG") in ("9", "KILL")
        for value in invocation.value_of("-s", "--signal")
    )


def _kills_by_name(invocation: Invocation) -> bool:
    if asks_only(invocation) or invocation.has("-l", "-L", "-0", "-i", "--list", "--interactive"):
        return False
    return bool(invocation.operands) or bool(
        invocation.value_of("-u", "-U", "--euid", "--uid", "--user", "-g", "-t")
    )


def _kills_list(invocation: Invocation) -> bool:
    return any(UNKNOWN in arg or "*" in arg for arg in invocation.args) and _is_kill_signal(
        invocation
    )


def _stops(invocation: Invocation) -> bool:
    words = "stop disable mask kill isolate try-restart condstop"
    operands = invocation.without_options(
        ("-H", "-M", "-t", "-p", "-n", "-o", "-s", "--host", "--machine", "--signal", "--type")
    )
    if invocation.name in ("service", "invoke-rc.d", "rc-service"):
        return any(word in ("stop",) for word in operands[1:])
    if invocation.name == "sc":
        return bool(operands) and operands[0] in ("stop", "delete")
    if invocation.name == "launchctl":
        return bool(operands) and operands[0] in ("unload", "bootout", "remove", "disable", "stop")
    if invocation.name in ("update-rc.d", "chkconfig"):
        return any(word in ("remove", "disable", "off") for word in operands)
    return bool(operands) and operands[0] in words.split() and not asks_only(invocation)


_POWER = listed("poweroff reboot halt kexec soft-reboot emergency rescue")


def _powers_off(invocation: Invocation) -> bool:
    operands = [operand for operand in invocation.operands if operand]
    if not operands or asks_only(invocation):
        return False
    targets = ("poweroff.target", "reboot.target", "halt.target", "emergency.target")
    return operands[0] in _POWER or (
        operands[0] in ("isolate", "start") and any(each in targets for each in operands[1:])
    )


def _starts_kernel(invocation: Invocation) -> bool:
    return invocation.short("e") or invocation.long("exec")


def _goes_to_sleep(*modes: str) -> Callable[[Invocation], bool]:
    return lambda invocation: any(
        mode.lstrip("=") in modes for mode in invocation.value_of("-m", "--mode")
    )


def _writes_sysrq(invocation: Invocation) -> bool:
    return any(arg.removeprefix("of=").startswith("/proc/sysrq") for arg in invocation.args)


def _runlevel(invocation: Invocation) -> bool:
    return invocation.operand(0) in ("0", "6")


def _sysctl(invocation: Invocation) -> bool:
    return invocation.short("w") or any(
        re.fullmatch(r"[\w./-]+=.*", arg) for arg in invocation.args
    )


def _changes_account(invocation: Invocation) -> bool:
    if asks_only(invocation):
        return False
    if invocation.name == "passwd":
        return (
            invocation.short("dul")
            or "root" in invocation.args
            or invocation.long("delete", "stdin")
        )
    if invocation.name in ("useradd", "visudo"):
        return not invocation.short("Dc")  # what is new by default, and a check
    if invocation.name in ("chsh", "chfn"):
        shells = invocation.value_of("-s", "--shell")
        return invocation.operand(1) == "root" or any(
            not shell.startswith(("/bin/", "/usr/")) for shell in shells if shell.startswith("/")
        )
    return True


def _locks(invocation: Invocation) -> bool:
    """Whether it shuts an account, opens it to everybody or makes it another."""
    return invocation.short("Lpu") or invocation.long("lock", "password", "uid")


def _shuts_account(invocation: Invocation) -> bool:
    if invocation.name == "smbpasswd":
        return invocation.short("xd")
    ends = invocation.value_of("-E", "--expiredate")
    return any(end in ("0", "1970-01-01") for end in ends)


def _joins_admins(invocation: Invocation) -> bool:
    admins = r"\b(?:sudo|wheel|root|docker|admin|lxd|disk|adm|shadow|libvirt|kvm)\b"
    return bool(re.search(admins, invocation.text)) or "0" in invocation.value_of("-u", "--uid")


_INPUT_ACCEPTED = r"(?:-P|--policy)\s+\w+\s+ACCEPT|(?:-A|-I|--append|--insert)\s+INPUT\b.*ACCEPT"
_OPENS = {
    **dict.fromkeys(
        ("iptables", "ip6tables", "ebtables", "arptables"),
        rf"(?:^|\s)-(?:F|X|D)\b|--(?:flush|delete)|{_INPUT_ACCEPTED}",
    ),
    "nft": r"\b(?:flush|delete|destroy)\b|\binput\s+accept\b",
    "netsh": r"(?i:\bstate\s+off\b|\bdelete\b)",
    "ufw": r"\b(?:disable|reset|allow|limit|delete)\b",
    "setenforce": r"^(?i:0|permissive)\b",
    "firewall-cmd": r"--panic-off|--complete-reload|--(?:add|remove)-(?:port|service|source)",
    "pfctl": r"(?:^|\s)-d\b|-F\s+all",
    "auditctl": r"-e\s*0|-D\b",
}
"""What opens a firewall or ends a protection, by program."""


def _opens_firewall(invocation: Invocation) -> bool:
    if asks_only(invocation):
        return False
    opens = _OPENS.get(invocation.name)
    return opens is None or bool(re.search(opens, invocation.text))


def _kernel(invocation: Invocation) -> bool:
    if invocation.name in ("kexec", "insmod", "rmmod"):
        return not asks_only(invocation)
    if invocation.short("ncD") or invocation.long("show", "show-depends", "showconfig"):
        return False
    return bool(invocation.operands)


def _schedules(invocation: Invocation) -> bool:
    if asks_only(invocation):
        return False
    if invocation.name == "crontab":
        if invocation.short("r"):
            return True
        return bool(invocation.without_options(("-u",))) or (
            invocation.is_fed and not invocation.short("lre")
        )
    return invocation.is_fed or bool(invocation.value_of("-f"))


def _clears_traces(invocation: Invocation) -> bool:
    if invocation.name == "history":
        return invocation.short("cdw")
    if invocation.name == "journalctl":
        return bool(
            re.search(r"--vacuum-(?:time|size|files)=?\s*(?:0|1)(?:s|K|M|)?\b", invocation.text)
        )
    if invocation.name == "wevtutil":
        return "cl" in invocation.args
    if invocation.name == "vssadmin":
        return "delete" in invocation.args
    return not asks_only(invocation)


MACHINE_RULES: tuple[Rule, ...] = (
    Rule(
        "shutdown",
        "shutdown reboot halt poweroff Restart-Computer Stop-Computer",
        _shuts_down,
        "shutdown -h now",
    ),
    Rule("shutdown", "init telinit", _runlevel, "init 0"),
    Rule("shutdown", "systemctl loginctl", _powers_off, "systemctl poweroff"),
    Rule("shutdown", "kexec", _starts_kernel, "kexec -e"),
    Rule("shutdown", "rtcwake", _goes_to_sleep("off", "disk"), "rtcwake -m off -s 600"),
    Rule("services", "rtcwake", _goes_to_sleep("mem", "standby", "freeze"), "rtcwake -m mem -s 9"),
    Rule("shutdown", "tee dd cp sponge", _writes_sysrq, "echo b | tee /proc/sysrq-trigger"),
    Rule(
        "shutdown",
        "busctl dbus-send gdbus qdbus",
        lambda i: bool(
            re.search(r"login1.*(?:PowerOff|Reboot|Halt)|ConsoleKit.*(?:Stop|Restart)", i.text)
        ),
        "dbus-send --system --dest=org.freedesktop.login1 /org/freedesktop/login1 "
        "org.freedesktop.login1.Manager.PowerOff boolean:true",
    ),
    Rule("kill-all", "kill killall5", _kills_all, "kill -9 -1"),
    Rule(
        "kill-all",
        "pkill killall skill slay",
        lambda i: _kills_every(i) and not asks_only(i),
        "pkill -9 '.*'",
    ),
    Rule("mass-kill", "pkill killall skill slay", _kills_by_name, "pkill -9 nginx"),
    Rule("mass-kill", "kill", _kills_list, "kill -9 $(pgrep nginx)"),
    Rule(
        "mass-kill",
        "loginctl",
        verb("terminate-user", "terminate-session", "kill-user", "kill-session", "terminate-seat"),
        "loginctl terminate-user bob",
    ),
    Rule("mass-kill", "fuser", lambda i: i.short("k") or i.long("kill"), "fuser -k 80/tcp"),
    Rule(
        "mass-kill",
        "taskkill Stop-Process",
        lambda i: bool(re.search(r"[/-]f(?:orce)?\b", i.text, re.IGNORECASE)),
        "taskkill /F /IM explorer.exe",
    ),
    Rule(
        "services",
        "systemctl service rc-service invoke-rc.d launchctl sc update-rc.d chkconfig",
        _stops,
        "systemctl stop nginx",
    ),
    Rule(
        "services",
        "sv initctl supervisorctl pm2 monit rc-update s6-rc brew pg_ctl pg_ctlcluster",
        lambda i: (
            i.operand(0) in ("stop", "kill", "delete", "del", "shutdown", "down", "exit")
            or i.text.startswith("services stop")
        ),
        "supervisorctl stop all",
    ),
    Rule("system-config", "sysctl", _sysctl, "sysctl -w vm.swappiness=10"),
    Rule("system-config", "timedatectl", verb("set-time"), "timedatectl set-time 2020-01-01"),
    Rule(
        "system-config",
        "update-alternatives",
        lambda i: i.long("install") and i.long("force"),
        "update-alternatives --force --install /etc/x x /tmp/x 0",
    ),
    Rule(
        "system-config",
        "date hwclock",
        lambda i: bool(i.value_of("-s", "--set")) or i.long("systohc"),
        "date -s '2020-01-01'",
    ),
    Rule(
        "system-config",
        "umount",
        lambda i: i.short("al") and (i.short("a") or any(is_critical(o) for o in i.operands)),
        "umount -a",
    ),
    Rule("system-config", "swapoff", lambda i: i.short("a"), "swapoff -a"),
    Rule(
        "system-config",
        "git",
        lambda i: i.long("unsafe-paths") and "apply" in i.args,
        "git apply --unsafe-paths --directory / x.patch",
    ),
    Rule(
        "system-config",
        "setfacl ldconfig",
        lambda i: i.name == "ldconfig" and bool(i.value_of("-f")),
        "ldconfig -f /tmp/conf",
    ),
    Rule(
        "accounts",
        "userdel deluser groupdel delgroup usermod useradd adduser groupadd addgroup passwd "
        "chpasswd chsh vipw visudo gpasswd newusers",
        lambda i: (
            _changes_account(i)
            and (i.name not in ("usermod", "gpasswd") or _joins_admins(i) or _locks(i))
        ),
        "userdel -r alice",
    ),
    Rule(
        "accounts",
        "groupmod",
        lambda i: "0" in i.value_of("-g", "--gid"),
        "groupmod -g 0 users",
    ),
    Rule("accounts", "chage smbpasswd", _shuts_account, "chage -E 0 alice"),
    Rule(
        "privilege-flags",
        "usermod gpasswd adduser addgroup useradd",
        lambda i: _joins_admins(i) and not asks_only(i),
        "usermod -aG sudo alice",
    ),
    Rule(
        "privilege-flags",
        "setcap",
        lambda i: not i.short("rv") and bool(i.operands),
        "setcap cap_setuid+ep tool",
    ),
    Rule(
        "privilege-flags",
        "nsenter",
        lambda i: "1" in i.value_of("-t", "--target") or i.short("a"),
        "nsenter -t 1 -m sh",
    ),
    Rule(
        "privilege-flags",
        "capsh",
        lambda i: "--gid=0" in i.args or "--uid=0" in i.args,
        "capsh --gid=0 --uid=0 --",
    ),
    Rule(
        "firewall",
        "iptables ip6tables ebtables nft ufw setenforce firewall-cmd pfctl netsh aa-teardown "
        "aa-disable aa-complain auditctl",
        _opens_firewall,
        "iptables -F",
    ),
    Rule(
        "firewall",
        "Set-MpPreference spctl csrutil",
        lambda i: bool(re.search(r"disable|true", i.text, re.IGNORECASE)),
        "spctl --master-disable",
    ),
    Rule("kernel", "insmod rmmod kexec modprobe", _kernel, "rmmod loop"),
    Rule("persistence", "crontab at batch", _schedules, "crontab jobs.txt"),
    Rule(
        "persistence",
        "schtasks",
        lambda i: bool(re.search(r"/create", i.text, re.IGNORECASE)),
        "schtasks /create /tn x /tr y",
    ),
    Rule(
        "persistence",
        "systemctl",
        lambda i: (
            i.operand(0) in ("link", "edit", "enable")
            and any(o.startswith("/") for o in i.operands[1:])
        ),
        "systemctl link /tmp/evil.service",
    ),
    Rule(
        "persistence",
        "launchctl",
        verb("load", "bootstrap", "submit", "enable"),
        "launchctl load ~/Library/LaunchAgents/x.plist",
    ),
    Rule(
        "traces",
        "history journalctl wevtutil vssadmin logrotate",
        lambda i: i.name != "logrotate" and _clears_traces(i),
        "history -c",
        Reach.INSIDE,
    ),
    Rule(
        "traces",
        "rm unlink ln cp mv shred truncate tee dd",
        lambda i: any(is_trace(arg.removeprefix("of=")) for arg in i.args),
        "rm ~/.bash_history",
    ),
    Rule("traces", "unset", lambda i: i.has("HISTFILE"), "unset HISTFILE"),
    Rule("traces", "set", lambda i: i.args[:2] == ("+o", "history"), "set +o history"),
)
"""Rules for the machine."""
