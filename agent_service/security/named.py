"""Addresses that stand among the arguments of a program, whatever program it is."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from agent_service.security.addresses import is_local
from agent_service.security.invocation import Invocation, listed
from agent_service.security.marks import is_known, marks

ADDRESS = re.compile(r"(?<![\w+.-])[a-z][a-z0-9+.-]{0,20}://[^\s'\"<>`\\)\]}]+", re.IGNORECASE)
"""An address of any scheme."""
_SILENT = listed(
    "echo printf grep egrep fgrep rg ag sed awk gawk mawk jq yq tr cut sort uniq head tail cat tee "
    "ls mkdir rm cp mv touch test [ [[ true : basename dirname expr logger notify-send export set "
    "read local declare man apropos xsel xclip pbcopy wl-copy figlet cowsay diff cmp wc find fd "
    "ln less more vim vi nano emacs code"
)
"""Programs to which an address is text like any other."""
_SILENT_VERBS = {"git": listed("commit log grep tag show notes blame diff merge rebase")}
_FETCHING = {
    "git": listed("clone fetch ls-remote pull"),
    "hg": listed("clone incoming pull"),
    "svn": listed("checkout co export info list"),
}
"""With which verbs programs are told first what to fetch."""
_VALUED = (
    *("-b", "-c", "-C", "-j", "-o", "-r", "-u", "--branch", "--config", "--depth", "--filter"),
    *("--git-dir", "--jobs", "--origin", "--reference", "--template", "--work-tree"),
)
_HERE = re.compile(r"(?:file|unix|data|about|chrome|npipe|mem|cid|fd|jar|memory|sqlite\d?):", re.I)
_STORES = re.compile(r"(?:s3|gs|az|hdfs|docker-daemon|dir|oci-archive)a?:", re.IGNORECASE)
"""Schemes whose first part names no host."""
_IMAGES = listed("docker podman nerdctl skopeo crane buildah")
_IMAGE = re.compile(r"(?:docker://)?((?:[\w-]+\.)+[a-z]{2,}(?::\d+)?)/\S+", re.IGNORECASE)
_REGISTRIES = re.compile(
    r"(?:[\w-]+\.)*(?:docker\.io|ghcr\.io|quay\.io|gcr\.io|pkg\.dev|mcr\.microsoft\.com|"
    r"registry\.k8s\.io|public\.ecr\.aws|nvcr\.io|registry\.gitlab\.com|amazonaws\.com)"
)
"""Registries of everybody's images, which tell nobody who asks for one."""


def told(invocation: Invocation) -> Iterator[str]:
    """The addresses elsewhere among its arguments and settings, known or not."""
    if _is_silent(invocation):
        return
    for word in (*invocation.args, *(value for _, value in invocation.settings)):
        if "://" in word:
            yield from (each[0] for each in ADDRESS.finditer(word) if not _stays(each[0]))
    if invocation.name in _IMAGES and "pull" in invocation.args[:3]:
        images = map(_IMAGE.fullmatch, invocation.args)
        yield from (each[1] for each in images if each and not _REGISTRIES.fullmatch(each[1]))


def is_told_whole(invocation: Invocation) -> bool:
    """Whether every address among its arguments says nothing but what the command itself says."""
    return not _is_source_untold(invocation) and all(
        is_known(each) and not any(part in each for part in invocation.guesses)
        for each in told(invocation)
    )


def _is_source_untold(invocation: Invocation) -> bool:
    """Whether it fetches from where the command does not say, not even by which scheme."""
    verbs = _FETCHING.get(invocation.name)
    if verbs is None:
        return False
    verb, source, *_ = (*invocation.without_options(_VALUED), "", "")
    return verb in verbs and marks(source[:1]) != ""


def new_hosts(invocation: Invocation) -> Iterator[str]:
    """The addresses among its arguments that name a host."""
    return (each for each in told(invocation) if not _STORES.match(each))


def _is_silent(invocation: Invocation) -> bool:
    if invocation.name in _SILENT:
        return True
    verbs = _SILENT_VERBS.get(invocation.name)
    return verbs is not None and next(iter(invocation.operands), "") in verbs


def _stays(address: str) -> bool:
    """Whether it is one of this machine; a user's name is misread in addresses of the web only."""
    if is_local(address) or _HERE.match(address):
        return True
    if address.lower().startswith(("http", "ftp", "ws")):
        return False
    try:
        return is_local(urlsplit(address).hostname or "")
    except ValueError:
        return False
