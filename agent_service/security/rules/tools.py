"""Rules for repositories, containers, clusters and providers."""

import re

from agent_service.security.invocation import Invocation, listed
from agent_service.security.rules.base import Rule, asks_only, unless_asking

_GIT_VALUED = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env")
_ENGINES = "docker podman nerdctl docker-compose podman-compose crictl"
_CLUSTERS = "kubectl oc k3s minikube kind helm k3d eksctl kubeadm microk8s"


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
        any(arg.startswith(("--force", "--mirror", "--delete")) for arg in args)
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
    if verb in ("compose", "stack", "swarm", "service", "secret", "config", "node", "machine"):
        return any(word in ("down", "rm", "kill", "stop", "leave", "reset") for word in rest[:1])
    if verb == "image" and rest[:1] == ["prune"]:
        return invocation.short("a") or invocation.long("all")
    if verb in ("container", "image", "volume", "network", "system", "pod"):
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
        return verb in ("delete", "drain")
    if invocation.name == "helm":
        return verb in ("uninstall", "delete", "del", "un")
    if invocation.name == "kubeadm":
        return verb == "reset"
    return verb == "delete" or words[:2] == ["cluster", "delete"]


_PLANS = listed("terraform tofu terragrunt pulumi cdk vagrant sam sls serverless")
_PROVIDERS = listed("gcloud az doctl hcloud linode-cli ibmcloud oci scw yc flyctl fly heroku")


_UNMAKES = listed("delete destroy remove rm reset terminate purge wipe")


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
    if asks_only(invocation) or "--dryrun" in text:
        return False
    if invocation.name in _PLANS:
        verb = invocation.operand(0)
        return (
            verb in ("destroy", "remove", "delete")
            or (
                verb == "apply"
                and ("-destroy" in invocation.args or "--destroy" in invocation.args)
            )
            or text.startswith(("state rm", "run-all destroy", "workspace delete"))
        )
    if invocation.name == "aws":
        return bool(
            re.search(
                r"\bs3 (?:rb|rm .*--recursive)|terminate-instances|delete-\w|"
                r"s3 sync .*--delete",
                text,
            )
        )
    if invocation.name in _PROVIDERS:
        return bool(
            re.search(
                r"\b(?:projects|instances|sql|clusters|group|vm|storage|disks?|buckets?|"
                r"droplet|server|apps|database|volume)\S* (?:\S+ )?(?:delete|destroy|"
                r"remove)\b|apps:destroy|pg:reset|apps destroy",
                text,
            )
        )
    if invocation.name == "gsutil":
        return bool(re.search(r"\brm\b.*-[a-z]*r|\brb\b|rsync .*-d\b", text))
    if invocation.name == "rclone":
        return bool(re.match(r"(?:purge|delete|sync)\b", text)) and not invocation.long("dry-run")
    if invocation.name in ("mc", "s3cmd"):
        return bool(re.search(r"\brb\b|\brm\b.*--(?:recursive|force)|\bdel\b.*--recursive", text))
    return bool(re.search(r"repo delete|release delete|secret delete", text))


def _hypervisor(invocation: Invocation) -> bool:
    text = invocation.text
    return bool(
        re.search(
            r"\b(?:destroy|undefine|vol-delete|pool-delete|vol-wipe|"
            r"unregistervm\b.*--delete|qm destroy)\b|^delete\b|controlvm \S+ poweroff",
            text,
        )
    ) and not asks_only(invocation)


TOOL_RULES: tuple[Rule, ...] = (
    Rule("git-force-push", "git", _pushes_over, "git push --force origin main"),
    Rule("git-discard", "git", unless_asking(_discards), "git reset --hard HEAD~1"),
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
        "doctl hcloud linode-cli heroku flyctl fly gsutil rclone mc s3cmd gh glab",
        _cloud,
        "terraform destroy",
    ),
    Rule(
        "cloud-destructive",
        "vercel netlify wrangler firebase supabase railway render bq hub surge amplify eb",
        unless_asking(_unmakes),
        "firebase projects:delete shop",
    ),
    Rule(
        "cloud-destructive",
        "npm pnpm yarn gem cargo",
        unless_asking(_withdraws),
        "npm unpublish left-pad",
    ),
    Rule(
        "cluster-destructive",
        "virsh VBoxManage vboxmanage qm pct lxc incus multipass",
        _hypervisor,
        "virsh destroy vm",
    ),
)
"""Rules for tools."""
