"""Rules for repositories, containers, clusters and providers."""

import re

from agent_service.security.commands.invocation import Invocation, listed
from agent_service.security.commands.rules.base import Rule, asks_only, unless_asking

_GIT_VALUED = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env")
_ENGINES = "docker podman nerdctl docker-compose podman-compose crictl ctr"
_CLUSTERS = "kubectl oc k3s minikube kind helm k3d eksctl kubeadm microk8s"
_RUNNING = "argocd flux nomad vault consul nats rpk pulsar-admin kafkactl istioctl linkerd velero"
"""What has its own verbs for parts of a cluster."""


def _git(invocation: Invocation) -> list[str]:
    """The subcommand of git and what follows it."""
    args = list(invocation.args)
    while args and args[0].startswith("-"):
        taken = 2 if args[0] in _GIT_VALUED else 1
        args = args[taken:]
    return args


def _pushes_over(invocation: Invocation) -> bool:
    args = _git(invocation)
    if args[:1] != ["push"] or "--dry-run" in args or "-n" in args:
        return False
    return (
        any(arg.startswith(("--force", "--mirror", "--delete", "--prune")) for arg in args)
        or any(re.fullmatch(r"-[a-zA-Z]*[fd][a-zA-Z]*", arg) for arg in args)
        or any(re.match(r"[+:]\S", arg) for arg in args[1:])
    )


def _letters(args: list[str]) -> str:
    return "".join(arg[1:] for arg in args if re.fullmatch(r"-[A-Za-z]+", arg))


def _discards(invocation: Invocation) -> bool:
    args = _git(invocation)
    if not args or "--dry-run" in args or "--help" in args:
        return False
    verb, rest = args[0], args[1:]
    letters = _letters(rest)
    checks = {
        "reset": "--hard" in rest or "--merge" in rest or any("--har" in arg for arg in rest),
        "clean": ("f" in letters or "--force" in rest) and "n" not in letters,
        "branch": "D" in letters
        or (("--delete" in rest or "d" in letters) and ("--force" in rest or "f" in letters)),
        "checkout": _checks_all_out(rest),
        "switch": "-f" in rest or "--force" in rest or "--discard-changes" in rest,
        "restore": "." in rest or ":/" in rest or "*" in rest,
        "stash": rest[:1] in (["clear"], ["drop"]),
        "reflog": rest[:1] in (["expire"], ["delete"])
        and bool(re.search(r"=(?:now|all|0)|--all", " ".join(rest)) or rest[0] == "delete"),
        "gc": any("--prune=" in arg for arg in rest),
        "filter-branch": True,
        "filter-repo": "--analyze" not in rest,
        "update-ref": "-d" in rest,
        "rm": "r" in letters
        and ("f" in letters or rest[-1:] in (["."], ["*"]))
        and "--cached" not in rest,
        "worktree": rest[:1] == ["remove"] and ("--force" in rest or "f" in letters),
        "submodule": rest[:1] == ["deinit"] and ("--force" in rest or "f" in letters),
        "lfs": rest[:1] == ["prune"] and "--force" in rest,
    }
    return bool(checks.get(verb, False))


def _checks_all_out(rest: list[str]) -> bool:
    forced = "-f" in rest or "--force" in rest
    return forced or (rest[-1:] in (["."], ["*"], [":/"]) and "-b" not in rest)


def _git_runs(invocation: Invocation) -> bool:
    text = " ".join(invocation.args)
    return bool(
        re.search(
            r"(?:core\.(?:pager|sshCommand|editor|fsmonitor|hooksPath)|"
            r"alias\.\w+)=!?.*(?:sh\b|rm\s|curl|/tmp)",
            text,
        )
        or re.search(r"--upload-pack=.*[;|`$]|ext::", text)
    )


_RUN_BY_GIT = re.compile(
    r"\bconfig\b.*\s(?:core\.(?:hooksPath|sshCommand)|core\.fsmonitor\s+(?!true|false)|"
    r"diff\.external|gpg\.(?:\w+\.)?program|init\.templateDir)\s+\S",
    re.IGNORECASE,
)


def _keeps_program(invocation: Invocation) -> bool:
    """Whether git is told a program that it runs from now on, or where its hooks are."""
    reads = invocation.long("get", "unset", "unset-all", "get-all", "list")
    return not reads and bool(_RUN_BY_GIT.search(invocation.text))


_PARTS = listed(
    "container containers image images volume network system pod context plugin builder machine "
    "task tasks snapshot snapshots namespace namespaces content"
)
"""What engines have subcommands for."""


def _ends_containers(invocation: Invocation) -> bool:
    if asks_only(invocation):
        return False
    words = invocation.without_options(
        (
            "-H",
            "--host",
            "-c",
            "--context",
            "-f",
            "--file",
            "-p",
            "--project-name",
            "-l",
            "--env-file",
        )
    )
    verb, rest = (words[0], words[1:]) if words else ("", [])
    if invocation.name.endswith("-compose"):
        verb, rest = "compose", words
    if verb in ("rm", "rmi", "kill", "stop", "restart"):
        return True
    if verb in ("compose", "stack", "swarm", "service", "secret", "config", "node"):
        return any(word in ("down", "rm", "kill", "stop", "leave", "reset") for word in rest[:1])
    if verb in ("image", "builder") and rest[:1] == ["prune"]:
        return invocation.short("a") or invocation.long("all")
    if verb in _PARTS:
        return rest[:1] in (
            ["rm"],
            ["prune"],
            ["kill"],
            ["stop"],
            ["remove"],
            ["reset"],
            ["restart"],
        )
    return False


_PRIVILEGES = re.compile(
    r"--privileged(?:=true)?(?:\s|$)|--cap-add[= ](?:all|sys_admin|sys_ptrace|sys_module|"
    r"dac_read_search|CAP_SYS_ADMIN|sys_rawio)"
    r"|--pid[= ]host|--security-opt[= ](?:seccomp|apparmor|systempaths)[=:]unconfined|"
    r"--userns[= ]host"
    r"|(?:-v|--volume|--mount)[= ]\S*(?:docker\.sock|containerd\.sock|podman\.sock)|"
    r"--device[= ]/dev/(?:sd|nvme|mem|kmsg)"
    r"|(?:-v|--volume)[= ]?(?:/|/etc|/root|/home|/var|/proc|/sys|/dev|/boot|/usr|\$HOME):|"
    r"source=/(?:,|etc|root|\s)|src=/(?:,|etc|root)"
    r"|--ipc[= ]host|--uts[= ]host|--cgroupns[= ]host|\"privileged\"\s*:\s*true|"
    r"hostPID\"?\s*:\s*true|security\.privileged=true",
    re.IGNORECASE,
)


def _gives_rights(invocation: Invocation) -> bool:
    return bool(_PRIVILEGES.search(invocation.text))


def _cluster(invocation: Invocation) -> bool:
    if asks_only(invocation):
        return False
    words = invocation.without_options(
        (
            "-n",
            "--namespace",
            "--context",
            "--cluster",
            "--kubeconfig",
            "-s",
            "--user",
            "--kube-context",
        )
    )
    verb = words[0] if words else ""
    if invocation.name in ("kubectl", "oc", "k3s", "microk8s"):
        if verb in ("kubectl", "oc"):
            words, verb = words[1:], words[1] if len(words) > 1 else ""
        if verb == "scale":
            return any(arg in ("--replicas=0",) for arg in invocation.args)
        return (
            verb in ("delete", "drain")
            or (verb == "taint" and "NoExecute" in invocation.text)
            or any(word.startswith("delete-") for word in words[:2])
        )
    if invocation.name == "helm":
        return verb in ("uninstall", "delete", "del", "un")
    if invocation.name == "kubeadm":
        return verb == "reset"
    return verb == "delete" or words[:2] == ["cluster", "delete"]


_PLANS = listed("terraform tofu terragrunt pulumi cdk vagrant sam sls serverless")
_PROVIDERS = listed("gcloud az doctl hcloud linode-cli ibmcloud oci scw yc flyctl fly heroku")


_UNPLANS = re.compile(r"^(?:-\S+ )*(?:state rm|run-all destroy|workspace delete|stack rm)\b")
_ENDS = listed("delete destroy remove rm terminate purge deprovision")
_UNMAKES = listed(
    "delete destroy remove rm reset terminate purge wipe uninstall forget undeploy unpublish down"
)


def _unmakes(invocation: Invocation) -> bool:
    words = [word for arg in invocation.args for word in re.split(r"[:-]", arg)]
    return any(word in _UNMAKES for word in words[:4])


def _withdraws(invocation: Invocation) -> bool:
    return invocation.operand(0) in ("unpublish", "yank") or invocation.operands[:2] in (
        ["owner", "remove"],
        ["access", "revoke"],
    )


def _cloud(invocation: Invocation) -> bool:
    text = invocation.text
    if asks_only(invocation) or "--dryrun" in text or "help" in invocation.operands[-1:]:
        return False
    if invocation.name in _PLANS:
        verb = invocation.operand(0)
        return (
            verb in ("destroy", "remove", "delete")
            or (
                verb == "apply"
                and ("-destroy" in invocation.args or "--destroy" in invocation.args)
            )
            or bool(_UNPLANS.search(text))
        )
    if invocation.name == "aws":
        return bool(
            re.search(
                r"\bs3 (?:rb|rm .*--recursive)|\bs3 sync .*--delete|\bs3 mv .*--recursive"
                r"|(?:^|\s)(?:\w+-)?(?:delete|terminate|purge|deregister|detach|revoke|disable|remove"
                r"|release|cancel|stop)-\w|\bschedule-key-deletion|--desired-count[ =]0\b",
                text,
            )
        )
    if invocation.name in _PROVIDERS:
        return bool(
            re.search(r"\b(?:apps?|addons|pg|config|domains):(?:destroy|reset|remove)\b", text)
        ) or any(word in _ENDS for word in invocation.operands[:6])
    if invocation.name == "gsutil":
        return bool(re.search(r"\brm\b.*-[a-z]*r|\brb\b|rsync .*-d\b", text))
    if invocation.name == "rclone":
        return bool(re.match(r"(?:purge|delete|sync)\b", text)) and not invocation.long("dry-run")
    if invocation.name in ("mc", "s3cmd"):
        return bool(re.search(r"\brb\b|\brm\b.*--(?:recursive|force)|\bdel\b.*--recursive", text))
    return bool(
        re.match(r"(?:\w+ )?(?:\w+ )?(?:delete|delete-asset|archive)\b", text)
        or re.search(r"(?:-X|--method)[ =]?DELETE\b", text)
    )


def _ends_parts(invocation: Invocation) -> bool:
    words = invocation.operands[:4]
    return any(
        word in _UNMAKES or word in ("disable", "seal", "revoke", "drain", "del") for word in words
    ) or (words[:1] == ["stop"] or words[:2] == ["job", "stop"])


def _hypervisor(invocation: Invocation) -> bool:
    text = invocation.text
    return bool(
        re.search(
            r"\b(?:destroy|undefine|vol-delete|pool-delete|vol-wipe|"
            r"unregistervm\b.*--delete|qm destroy|snapshot-delete)\b|^delete\b"
            r"|controlvm \S+ poweroff",
            text,
        )
    ) and not asks_only(invocation)


TOOL_RULES: tuple[Rule, ...] = (
    Rule("git-force-push", "git", _pushes_over, "git push --force origin main"),
    Rule("git-discard", "git", unless_asking(_discards), "git reset --hard HEAD~1"),
    Rule("persistence", "git", _keeps_program, "git config core.hooksPath /tmp/hooks"),
    Rule("hidden-command", "git", _git_runs, "git -c core.pager='!sh -c id' log"),
    Rule("container-lifecycle", _ENGINES, _ends_containers, "docker rm -f web"),
    Rule(
        "privilege-flags",
        _ENGINES + " kubectl lxc incus buildah",
        _gives_rights,
        "docker run --privileged -it alpine",
    ),
    Rule("cluster-destructive", _CLUSTERS, _cluster, "kubectl delete namespace shop"),
    Rule(
        "cloud-destructive",
        "terraform tofu terragrunt pulumi cdk vagrant sam sls serverless aws gcloud az "
        "doctl hcloud linode-cli ibmcloud oci scw yc heroku flyctl fly gsutil rclone mc s3cmd gh "
        "glab",
        _cloud,
        "terraform destroy",
    ),
    Rule(
        "cloud-destructive",
        "vercel netlify wrangler firebase supabase railway render bq hub surge amplify eb exo civo "
        "vultr-cli ovhcloud qovery dokku cf wasmer zeet porter",
        unless_asking(_unmakes),
        "firebase projects:delete shop",
    ),
    Rule(
        "cloud-destructive",
        "npm pnpm yarn gem cargo",
        unless_asking(_withdraws),
        "npm unpublish left-pad",
    ),
    Rule("cluster-destructive", _RUNNING, unless_asking(_ends_parts), "argocd app delete shop"),
    Rule(
        "cluster-destructive",
        "virsh VBoxManage vboxmanage qm pct lxc incus multipass",
        _hypervisor,
        "virsh destroy vm",
    ),
)
"""Rules for tools."""
