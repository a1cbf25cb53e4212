"""Classifies paths: system, home, credentials or harmless."""

import posixpath
import re
from collections.abc import Iterable
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from agent_service.security.commands.invocation import listed
from agent_service.security.commands.marks import UNKNOWN, without_marks

HOME = "/home/user"
"""The assumed value of `~` and `$HOME`."""
WORKSPACE = "/workspace"

_TOP = listed(
    "bin boot dev etc home lib lib32 lib64 libx32 media mnt opt proc root run sbin srv sys usr var "
    "Applications Library System Users Volumes private nix snap"
)
_WHOLE = re.compile(
    r"/(?:usr/(?:bin|lib|lib32|lib64|libexec|sbin|share|local|include|local/bin|local/lib)"
    r"|var/(?:lib|log|db|spool|mail|www|cache|lib/(?:dpkg|docker|rpm|mysql|postgresql))"
    r"|etc/(?:ssl|ssh|pam\.d|systemd|init\.d|apt|security|passwd|shadow|fstab|sudoers)"
    r"|lib/modules|lib/systemd|boot/efi|boot/grub2?|System/Library|home/[^/]+|Users/[^/]+"
    r"|proc/sys|mnt/[a-z]|[a-zA-Z]:(?:/(?:Windows|Users)?)?)"
)
_TMP = re.compile(r"/(?:var/)?tmp(?:/|$)|/dev/shm(?:/|$)|/private/tmp(?:/|$)|/run/user/")
_SYSTEM = re.compile(
    r"/(?:etc|usr|bin|sbin|lib|lib32|lib64|libx32|boot|opt|root|srv|sys|proc|nix|System|Library"
    r"|Applications|var/(?!tmp(?:/|$)|folders))(?:/|$)|/var/?$|/private/(?:etc|var)(?:/|$)"
)
_CONFIG = re.compile(
    r"(?:/private)?/etc(?:/|$)|/(?:usr(?!/local/(?:share|src|etc|var)(?:/|$))|bin|sbin|lib|lib32"
    r"|lib64|libx32|boot)(?:/|$)|/proc/sys/(?!vm/drop_caches)|/proc/\d+/mem|/sys/(?!fs/cgroup/?$)"
    r"|/var/lib/(?:dpkg|rpm|apt|docker|kubelet)/|/System/|/Library/"
)
_DEVICE = re.compile(
    r"/dev/(?:[shv]d[a-z*?\[]|a?da\d|xvd|nvme|mmcblk|r?disk\d|mapper/|md\d|dm-|loop\d|sr\d|vg|zd\d|nbd\d"
    r"|pmem|mtd|sg\d|by-|disk/|block/|mem$|kmem$|port$|sd|source|dest|drive|device)"
)
# On case-insensitive file systems `.SSH` is `.ssh`.
_CREDENTIAL = re.compile(
    r"(?:^|/)(?:\.ssh(?:/(?!config$).*)?|\.gnupg(?:/.*)?|\.netrc|_netrc|\.pgpass|\.my\.cnf|"
    r"\.git-credentials|\.aws(?:/.*)?|\.(?:cache/)?huggingface/(?:stored_)?tokens?"
    r"|\.credentials(?:\.json)?|\.azure(?:/.*)?|\.config/gcloud(?:/.*)?|\.kube/config"
    r"|\.docker/config\.json|\.npmrc|\.pypirc|\.vault-token|\.config/gh/hosts\.yml|\.password-store"
    r"|\.password-store/.*|\.config/rclone/rclone\.conf|\.s3cfg|\.boto|\.terraform\.d/credentials.*"
    r"|\.cargo/credentials(?:\.toml)?|\.gem/credentials|\.local/share/keyrings(?:/.*)?|\.msmtprc"
    r"|\.mozilla/firefox(?:/.*)?(?:logins\.json|key[34]\.db|cookies\.sqlite)|Login Data|"
    r"\.irssi/config|(?:\.config/)?(?:google-chrome|chromium|BraveSoftware)/.*(?:Cookies"
    r"|Login Data)|wallet\.dat|\.electrum(?:/.*)?|\.bitcoin(?:/.*)?|\.ethereum/keystore(?:/.*)?"
    r"|\.env(?:\.[\w.*-]+)?|Library/Keychains(?:/.*)?|auth\.json)$|^/etc/(?:g?shadow-?"
    r"|sudoers(?:\.d(?:/.*)?)?|master\.passwd|security/opasswd|krb5\.keytab|ssh/ssh_host_\w+_key"
    r"|ssl/private(?:/.*)?|ppp/(?:chap|pap)-secrets|wireguard(?:/.*)?"
    r"|NetworkManager/system-connections(?:/.*)?|kubernetes/admin\.conf|rancher/k3s/k3s\.yaml)$"
    r"|^/proc/[^/]+/(?:task/[^/]+/)?(?:environ|mem|maps)$|^/(?:var/)?run/secrets(?:/.*)?$"
    r"|^/var/lib/kubelet/pki|^/etc/letsencrypt/(?:.*/)?(?:keys/.*|privkey[\w*]*\.pem)$"
    r"|^/root/\.(?:ssh|aws|gnupg|kube)(?:/.*)?$",
    re.IGNORECASE,
)
_PUBLIC = re.compile(
    r"\.pub$|/known_hosts(?:\.old)?$|\.(?:example|sample|template|tpl|dist|defaults?|schema)$"
)
_STARTUP = re.compile(
    r"(?:^|/)\.(?:bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv"
    r"|zprofile|zlogin|zlogout|kshrc|cshrc|tcshrc|login|logout|inputrc|xinitrc|xprofile|xsession"
    r"|xsessionrc|pam_environment|mkshrc|config/fish/(?:config\.fish|conf\.d/.*)|"
    r"config/autostart/.*|config/environment\.d/.*|config/systemd/user/.*"
    r"|local/share/systemd/user/.*|vimrc|emacs|gitconfig|config/git/config|ssh/rc|curlrc"
    r"|config/curlrc|wget2?rc|pythonrc\.py|Rprofile|irbrc|psqlrc|gdbinit)$|^/etc/(?:profile"
    r"|profile\.d/.*|bash\.?bashrc|bashrc|zsh/.*|zshrc|zshenv|environment|rc\.local|rc\d?\.d/.*"
    r"|init\.d/.*|skel/.*|xdg/autostart/.*|X11/Xsession\.d/.*|update-motd\.d/.*)$"
    r"|Library/Launch(?:Agents|Daemons)/",
    re.IGNORECASE,
)
_PERSISTENCE = re.compile(
    r"^/etc/(?:cron[\w.-]*(?:/.*)?|anacrontab|at\.allow|systemd/(?:system|user)(?:/.*)?|"
    r"ld\.so\.preload|ld\.so\.conf(?:\.d/.*)?|modules-load\.d/.*|udev/rules\.d/.*"
    r"|apt/apt\.conf\.d/.*|inittab|NetworkManager/dispatcher\.d/.*|logrotate\.d/.*|incron\.d/.*)$"
    r"|^/var/spool/(?:cron|at|anacron)|^/(?:usr/)?(?:local/)?lib/systemd/system/|(?:^"
    r"|/)\.git/hooks/(?!.*\.sample$)|(?:^|/)\.ssh/(?:authorized_keys2?|rc|config)$|(?:^"
    r"|/)\.config/systemd/user/",
    re.IGNORECASE,
)
_TRACE = re.compile(
    r"^/var/log/(?:auth\.log|syslog|messages|secure|wtmp|btmp|lastlog|faillog|kern\.log|audit/)"
    r"|(?:^|/)\.(?:\w+_history|histfile)$"
)
_OWN = re.compile(r"(?:^|/)\.hermes(?:/(?!workspaces?(?:/|$)).*)?$", re.IGNORECASE)
_SAME_ROOT = re.compile(r"/proc/[^/]+(?:/task/[^/]+)?/root(?=/)")
"""Another path to the root."""
_WORKED_IN = re.compile(r"/workspaces?(?:/|$)")
_REBUILT = re.compile(
    r"^(?:\./)?(?:[\w@./-]+/)?(?:build|dist|node_modules|target|__pycache__|\.venv|venv|coverage"
    r"|out|tmp|temp|\.cache|\.next|\.nuxt|\.tox|\.nox|\.pytest_cache|\.mypy_cache|\.ruff_cache|"
    r"htmlcov|\.gradle|\.parcel-cache|[\w.-]+\.egg-info|bin/Debug|obj|_build|site|\.turbo)/?\*?$"
)
_TAIL = re.compile(r"(?:/(?:\*+|\.\*?|\.\[[^]]*\]\*|\.\?\?\*|\{[^}]*\}|\*\.\*))+/*$")


class PathClass(StrEnum):
    """What deleting a path destroys."""

    ROOT = "root"
    SYSTEM = "system"
    HOME = "home"
    TMP = "tmp"
    WORKSPACE = "workspace"
    REBUILT = "rebuilt"
    UNKNOWN = "unknown"


def resolve(path: str, cwd: str = "") -> str:
    """The normalized path, relative to `cwd`."""
    path = path.replace("\\", "/") if re.match(r"[A-Za-z]:", path) else path
    path = path.removeprefix("file://")
    if cwd and not path.startswith(("/", UNKNOWN)) and not re.match(r"[A-Za-z]:", path):
        path = f"{cwd}/{path}"
    if not path:
        return ""
    end = "/" if path.endswith("/") else ""
    found = posixpath.normpath(path)
    if found.startswith("//"):
        found = found[1:]
    if found.startswith("/proc/"):
        found = _SAME_ROOT.sub("", found, count=1)
    return found if found == "/" else found + end


def is_critical(path: str, cwd: str = "") -> bool:
    """Whether it is the root, a system folder or a whole home."""
    found = resolve(path, cwd)
    if UNKNOWN in found:
        return without_marks(found).rstrip("/*") == "" and found.startswith("/")
    for spelling in (found, _TAIL.sub("", found) or "/" if found.startswith("/") else found):
        if _is_whole(spelling.rstrip("/") or spelling):
            return True
    return False


def _is_whole(path: str) -> bool:
    if path in ("/", "/*", "/.", "/.."):
        return True
    if not path.startswith("/"):
        return bool(_WHOLE.fullmatch("/" + path)) and ":" in path
    top, _, rest = path[1:].partition("/")
    if not rest:
        return any(fnmatchcase(name, top) for name in _TOP)
    return bool(_WHOLE.fullmatch(path))


def place(path: str, cwd: str = "") -> PathClass:
    """What deleting the path would destroy."""
    found = resolve(path, cwd)
    if is_critical(path, cwd):
        return PathClass.ROOT
    if UNKNOWN in found:
        return PathClass.UNKNOWN
    if _TMP.match(found):
        return PathClass.TMP
    if _SYSTEM.match(found):
        return PathClass.SYSTEM
    if found == WORKSPACE or found.startswith(WORKSPACE + "/"):
        inner = found[len(WORKSPACE) + 1 :]
        return PathClass.REBUILT if _REBUILT.match(inner) else PathClass.WORKSPACE
    if found.startswith("/"):
        return PathClass.HOME if found.startswith(("/home/", "/Users/")) else PathClass.SYSTEM
    return PathClass.REBUILT if _REBUILT.match(found) else PathClass.WORKSPACE


def is_kept(path: str, cwd: str = "") -> bool:
    """Whether the file may be valuable: neither temporary nor generated."""
    if path.startswith(("/dev/", "/proc/", "/sys/")):
        return False
    folder = path.rpartition("/")[0]
    passing = (PathClass.TMP, PathClass.REBUILT)
    return place(path, cwd) not in passing and not (folder and place(folder, cwd) in passing)


def is_device(path: str) -> bool:
    """Whether it is a raw block device or the machine's memory."""
    return bool(_DEVICE.match(resolve(path)))


def is_outside(path: str, cwd: str = "") -> bool:
    """Whether it is absolute, and neither in the workspace nor temporary."""
    found = resolve(path, cwd)
    return (
        found.startswith("/")
        and not _TMP.match(found)
        and not found.startswith((WORKSPACE, "/dev/", "/proc/self/fd"))
    )


_LONGEST = 64
"""Longest pattern that is compared with well-known files."""
_WELL_KNOWN = (
    *("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/root/.ssh/id_rsa", "/root/.ssh/id_ed25519"),
    *(f"{HOME}/.ssh/id_rsa", f"{HOME}/.ssh/id_ed25519", f"{HOME}/.ssh/authorized_keys"),
    *(f"{HOME}/.aws/credentials", f"{HOME}/.netrc", f"{HOME}/.git-credentials"),
)


def _may_be_credential(pattern: str) -> bool:
    """Whether a shell pattern, unless it is open to any name, matches a well-known secret."""
    if len(pattern) > _LONGEST or not set(pattern) & set("*?["):
        return False
    if not pattern.rpartition("/")[2].strip("*?"):
        return False
    return any(fnmatchcase(known, pattern.lower()) for known in _WELL_KNOWN)


def is_credential(path: str, cwd: str = "") -> bool:
    """Whether the path holds keys or passwords."""
    found = resolve(path, cwd).rstrip("/")
    return _may_be_credential(found) or (
        bool(_CREDENTIAL.search(found)) and not _PUBLIC.search(found)
    )


def is_trace(path: str, cwd: str = "") -> bool:
    """Whether it records activity: a system log or a shell history."""
    return bool(_TRACE.search(resolve(path, cwd)))


def is_own(path: str, cwd: str = "") -> bool:
    """Whether it belongs to the agent's own home."""
    return bool(_OWN.search(resolve(path, cwd).rstrip("/")))


def is_below(path: str, homes: Iterable[str], cwd: str = "") -> bool:
    """Whether it is in one of the agent's homes, but not in a workspace."""
    found = resolve(path, cwd).casefold().rstrip("/")
    return any(
        found == home or (found.startswith(f"{home}/") and not _WORKED_IN.match(found, len(home)))
        for home in map(str.casefold, homes)
    )


def own_places(home: Path) -> tuple[str, ...]:
    """The agent's home as paths name it, also starting with `~`."""
    user = Path.home()
    if home == user or not home.is_relative_to(user):
        return (str(home),)
    return (str(home), f"{HOME}/{home.relative_to(user)}")


def read_family(path: str, cwd: str = "") -> str:
    """The family of reading a path; empty if harmless."""
    if is_credential(path, cwd):
        return "credential-files"
    return "own-config" if is_own(path, cwd) else ""


def replaced_family(path: str, cwd: str = "") -> str:
    """The family of replacing or removing a path; empty if harmless."""
    if is_device(path):
        return "device-write"
    if path.startswith("/proc/sysrq-trigger"):
        return "shutdown"
    return "traces" if is_trace(path, cwd) else written_family(path, cwd)


def written_family(path: str, cwd: str = "") -> str:
    """The family of writing to a path; empty if harmless."""
    found = resolve(path, cwd)
    if not found or found in ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"):
        return ""
    bare = found.rstrip("/")
    if _PERSISTENCE.search(found):
        return "persistence"
    if _STARTUP.search(bare):
        return "startup-files"
    if _OWN.search(bare):
        return "own-config"
    if _CREDENTIAL.search(bare) and not _PUBLIC.search(bare) and not bare.endswith(".env"):
        return "credential-files" if not re.search(r"\.env[\w.*-]*$", bare) else ""
    if _CONFIG.match(found) and not is_device(found):
        return "system-config"
    return ""
