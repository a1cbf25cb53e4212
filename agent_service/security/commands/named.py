"""Addresses that stand among the arguments of a program, whatever program it is."""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from agent_service.security.commands.addresses import is_local
from agent_service.security.commands.containers import image_at
from agent_service.security.commands.invocation import Invocation, listed
from agent_service.security.commands.marks import is_known, marks

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
_PULLS = {"pull": 0, "manifest inspect": 0}
_REMOTES = {"remote add": 1, "remote set-url": 1, "submodule add": 0, "submodule set-url": 1}
_FETCHING = {
    "git": {"clone": 0, "fetch": 0, "ls-remote": 0, "pull": 0, **_REMOTES},
    "hg": {"clone": 0, "incoming": 0, "pull": 0},
    "svn": dict.fromkeys(["checkout", "co", "export", "info", "list"], 0),
    **dict.fromkeys(["docker", "podman", "nerdctl", "buildah"], _PULLS),
    "skopeo": dict.fromkeys(["inspect", "copy", "list-tags", "sync"], 0),
    "crane": dict.fromkeys(["pull", "manifest", "digest", "ls", "config", "export"], 0),
}
"""Verbs with which programs are told what to fetch, and which operand behind them says it."""
_FETCH = (
    "-j -o --depth --deepen --filter --jobs --negotiation-tip --refmap --server-option "
    "--shallow-exclude --shallow-since --upload-pack"
)
_REGISTRY = "--arch --authfile --cert-dir --creds --os --platform --variant"
_VALUED = {
    "git": listed("-C -c --git-dir --namespace --work-tree"),
    "git clone": listed(
        f"{_FETCH} -b -u --branch --bundle-uri --config --origin --reference --reference-if-able "
        "--separate-git-dir --template"
    ),
    "git fetch": listed(_FETCH),
    "git ls-remote": listed("-o --exec --server-option --sort --upload-pack"),
    "git pull": listed(f"{_FETCH} -s -X --cleanup --strategy --strategy-option"),
    "git remote": listed("-m -t"),
    "git submodule": listed("-b --branch --depth --name --reference"),
    "hg": listed("-B -b -e -R -r --bookmark --branch --config --cwd --remotecmd --rev --ssh"),
    "hg clone": listed("-u --updaterev"),
    "hg incoming": listed("-l -T --bundle --limit --template"),
    "svn": listed("-r --config-dir --config-option --depth --password --revision --username"),
    **dict.fromkeys(
        ["docker", "podman", "buildah"],
        listed(f"{_REGISTRY} -c -H -l --config --connection --context --host --log-level"),
    ),
    "nerdctl": listed(f"{_REGISTRY} -H -n --address --host --namespace"),
    "skopeo": listed(
        f"{_REGISTRY} -d -f -s --command-timeout --dest --dest-creds --format --override-arch "
        "--override-os --override-variant --policy --src --src-creds"
    ),
    "crane": listed("--format --platform"),
}
"""Options of a program, or of its verb alone, that take the next argument as their value."""
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
        found = (each for each in images if each and not _REGISTRIES.fullmatch(each[1]))
        yield from (each[1] if is_known(each[0]) else each[0] for each in found)


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
    return any(marks(source[:1]) for source in _sources(invocation, verbs))


def _sources(invocation: Invocation, verbs: Mapping[str, int]) -> Iterator[str]:
    """What it says it fetches, behind each verb that it has."""
    name, args = invocation.name, invocation.args
    valued = _VALUED[name]
    chosen = "".join(invocation.without_options(valued)[:1])
    starts = "create" if chosen == "create" else "run"
    if name in _IMAGES and starts in args[:3]:
        behind = args[args.index(starts) + 1 :]
        yield "".join(behind[image_at(behind) :][:1])
    told = invocation.without_options(valued | _VALUED.get(f"{name} {chosen}", frozenset()))
    for verb, place in verbs.items():
        words = verb.split()
        if told[: len(words)] == words:
            yield "".join(told[len(words) + place :][:1])


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
