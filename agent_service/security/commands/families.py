"""The families of dangerous commands, with their names and reach."""

from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct


class CommandClass(StrEnum):
    """What happens to a command."""

    SAFE = "safe"
    DANGEROUS = "dangerous"
    HARDLINE = "hardline"
    UNPARSEABLE = "unparseable"


class Reach(StrEnum):
    """Whether a family matters outside a disposable sandbox."""

    INSIDE = "inside"
    """Harms only the disposable sandbox."""
    OUTSIDE = "outside"
    """Reaches the network, shared data or the session's files."""


class Family(Struct, frozen=True):
    """One family."""

    name: str
    about: str
    hardline: bool = False
    reach: Reach = Reach.INSIDE


SENDS = "sends"
"""The family of sending data, which needs approval only in tainted sessions."""
OF_SESSION = frozenset({"workspace-delete", "git-discard"})
"""Families that reach outside the sandbox only to the session's files."""
_OUT = Reach.OUTSIDE

_TABLE = (
    Family("delete-root", "deletes the root, a system folder or a home", hardline=True),
    Family("make-filesystem", "makes a file system or swap on a device", hardline=True),
    Family("device-write", "writes to a raw block device", hardline=True),
    Family("fork-bomb", "starts itself without end", hardline=True),
    Family("kill-all", "kills every process", hardline=True),
    Family("shutdown", "stops or restarts the machine", hardline=True),
    Family("recursive-delete", "deletes folders with all that is in them"),
    Family("workspace-delete", "deletes files of the session", reach=_OUT),
    Family("overwrite", "overwrites or empties files for good"),
    Family("permissions", "changes who can use files, for everybody"),
    Family("ownership", "changes the owner of folders"),
    Family("block-device", "changes partitions, volumes or encryption of a device"),
    Family("raw-copy", "copies with dd, and not from file to file in the workspace"),
    Family("sql-destructive", "drops, truncates or deletes whole tables", reach=_OUT),
    Family("database-destructive", "drops or flushes a database that is not SQL", reach=_OUT),
    Family("system-config", "changes the system's configuration or programs"),
    Family("services", "stops or disables services"),
    Family("mass-kill", "kills processes by name, user or list"),
    Family("remote-to-shell", "runs code from the network", reach=_OUT),
    Family("decode-to-shell", "runs encoded or hidden code", reach=_OUT),
    Family("hidden-command", "hides which program it runs", reach=_OUT),
    Family("reverse-shell", "gives another machine a shell on this one", reach=_OUT),
    Family("bind-shell", "waits for another machine to open a shell on this one", reach=_OUT),
    Family("remote-access", "opens this machine to access from others", reach=_OUT),
    Family("upload", "sends files to another machine", reach=_OUT),
    Family("download", "writes data from the network outside the workspace", reach=_OUT),
    Family("credential-files", "reads or changes keys and passwords", reach=_OUT),
    Family("startup-files", "changes what a shell or a login runs when it starts"),
    Family("persistence", "makes something run later"),
    Family("own-config", "changes or reads the agent's own home"),
    Family("git-force-push", "overwrites or deletes parts of a remote repository", reach=_OUT),
    Family("git-discard", "discards work in a repository", reach=_OUT),
    Family("container-lifecycle", "stops or removes containers, images or volumes", reach=_OUT),
    Family("cluster-destructive", "removes or drains parts of a cluster", reach=_OUT),
    Family("cloud-destructive", "removes resources at a provider", reach=_OUT),
    Family("privilege-flags", "gives a program or container rights over the machine", reach=_OUT),
    Family("accounts", "changes users, groups or passwords"),
    Family("firewall", "opens the firewall or disables a protection"),
    Family("kernel", "changes the running kernel"),
    Family("traces", "removes logs, history or backups"),
    Family("package-removal", "removes what the system needs"),
    Family(SENDS, "sends data to another machine", reach=_OUT),
)

FAMILIES = MappingProxyType({family.name: family for family in _TABLE})


class Verdict(Struct, frozen=True):
    """The judgement of a command."""

    kind: CommandClass
    families: tuple[str, ...] = ()
    sends: bool = False
    """Whether it sends something elsewhere, which matters in tainted sessions."""
    addresses: tuple[str, ...] = ()
    leaves_sandbox: bool = False
    """Whether its dangerous parts matter outside a disposable sandbox."""
    reaches_only_files: bool = False
    """Whether they matter there only because of the session's files."""
    normalised: tuple[tuple[str, ...], ...] = ()
    """Every program that it runs, with expanded arguments, settings and input, as far as known."""
    certain: bool = True
    """Whether `normalised` is complete and depends on nothing outside the text."""
    ends_in: str = ""
    """The folder that it ends in, as far as known."""
    is_exhausted: bool = False
    """Whether it is too long or complex to judge, so that it may do anything."""
