"""Rules for databases, repositories, containers, clusters, providers and packages."""

import re

from agent_service.security.commands.invocation import Invocation
from agent_service.security.commands.rules.base import Rule

_COMMENTS = re.compile(r"/\*!?\d*(.*?)\*/|--[^\n]*|#[^\n]*", re.DOTALL)
# An option before its value looks like an SQL comment.
_OPTION = re.compile(r"^--[a-z][\w-]*=?")
_NAME = r"[\w\"`\[\].]+"
_DROPS = re.compile(
    r"\bdrop\s+(?:temporary\s+)?(?:table|database|schema|view|index|keyspace|user|role|owned"
    r"|tablespace|materialized\s+view|column|collection|stream|dictionary|function|trigger"
    r"|extension)\b|\btruncate\s+(?:table\s+)?[\w\"`\[.]"
    r"|\balter\s+table\s+\S+\s+(?:on\s+cluster\s+\S+\s+)?(?:drop|delete)\b"
    rf"|\bdelete\s+from\s+(?:only\s+)?{_NAME}(?:\s+(?:as\s+)?(?!where\b|using\b)\w+)?\s*(?:;|$|\\|'|\")"
    rf"|\bupdate\s+{_NAME}\s+set\s+(?:(?!\bwhere\b)[^;])*(?:;|$)"
    rf"|\b(?:delete\s+from\s+{_NAME}|update\s+{_NAME}\s+set\s[^;]{{0,400}}?)\s+where\s+"
    r"(?:[^;]{0,400}\bor\s+)?(?:true|not\s+false|1|(\S+)\s*=\s*\1)(?=\s*(?:;|$|\\|'|\"|or\b))",
    re.IGNORECASE,
)


def _drops(call: Invocation) -> bool:
    args = (_OPTION.sub("", arg) for arg in call.args)
    sql = _COMMENTS.sub(r" \1 ", f"{' '.join(args)}\n{call.stdin}")
    return _DROPS.search(sql) is not None


_SQL_PROGRAMS = (
    "psql mysql mariadb sqlite3 sqlite sqlcmd sqlplus duckdb cqlsh clickhouse-client clickhouse "
    "cockroach pgcli mycli litecli usql bq snowsql trino presto impala-shell hive beeline "
    "spark-sql isql osql tsql db2 vsql influx dbt rails php python python3 node ruby perl deno bun "
    "surreal turso wrangler d1 supabase prisma heroku sqlite-utils docker"
)
_GIT = "-C -c --git-dir --work-tree --namespace --exec-path --config-env"
_ENGINES = "docker podman nerdctl docker-compose podman-compose crictl ctr"
_CLUSTER = "-n --namespace --context --cluster --kubeconfig -s --user --kube-context"
_ENDS = r"delete|destroy|remove|rm|terminate|purge|deprovision"
_UNMAKES = rf"{_ENDS}|reset|wipe|uninstall|forget|undeploy|unpublish|down"
_PRIVILEGES = (
    r"(?i)--privileged(?:=true)?(?:\s|$)|--cap-add[= ](?:all|(?:CAP_)?sys_(?:admin|ptrace|module"
    r"|rawio)|dac_read_search)|--(?:pid|userns|ipc|uts|cgroupns)[= ]host"
    r"|--security-opt[= ](?:seccomp|apparmor|systempaths)[=:]unconfined|(?:-v|--volume"
    r"|--mount)[= ]\S*(?:docker|containerd|podman)\.sock|--device[= ]/dev/(?:sd|nvme|mem|kmsg)"
    r"|(?:-v|--volume)[= ]?(?:/|/etc|/root|/home|/var|/proc|/sys|/dev|/boot|/usr|\$HOME):|(?:source"
    r"|src)=/(?:,|etc|root|\s)|\"privileged\"\s*:\s*true|hostPID\"?\s*:\s*true"
    r"|security\.privileged=true"
)
_NEEDED = (
    r"(?:linux|musl|libc6?|glibc|systemd|sudo|bash|coreutils|linux-image\S*|kernel\S*|apt|dpkg|rpm"
    r"|python3?|pip|npm|openssh\S*|openssl|grub\S*|init|util-linux|base|base-files|alpine-base|core"
    r"|snapd|login|passwd|shadow|dbus|network-?manager|netplan\S*|iproute2?|ca-certificates"
    r"|sys-\w+/\S+|\S*\*|~\S*)"
)
_REMOVES = (
    r"(?:^|\s)(?:remove|purge|autoremove|erase|uninstall|-R\w*|-e\w*|-r|-P|-C|--remove|--purge"
    r"|--unmerge|del|rm)(?:\s|$)"
)

# fmt: off
SERVICE_RULES: tuple[Rule, ...] = (
    # Databases
    Rule("sql-destructive", _SQL_PROGRAMS, when=_drops),
    Rule("sql-destructive", "dropdb dropuser"),
    Rule("hidden-command", "psql mysql mariadb sqlcmd sqlite3",
         r"(?i)\bcopy\s+\S+\s+(?:from|to)\s+program\b|\binto\s+(?:out|dump)file\b|xp_cmdshell"
         r"|sys_exec\s*\(|\bload_extension\s*\(|lo_export\s*\(", reads_stdin=True),
    Rule("database-destructive", "redis-cli valkey-cli keydb-cli mongosh mongo",
         r"(?i)\bflush(?:all|db)\b|dropDatabase|\.drop\(\)|\.remove\(\s*\{\s*\}"
         r"|deleteMany\(\s*\{\s*\}\s*\)|\b(?:del|unlink)\b[^\n]*[*\x91]|config\s+set\s+dir"
         r"|\bdebug\s+segfault|\bshutdown\b", reads_stdin=True),
    Rule("database-destructive", "mysqladmin mariadb-admin", r"\b(?:drop|shutdown)\b"),
    Rule("database-destructive", "curl", r"^(?=.*:9200/).*(?:-X\s*|--request[= ])DELETE"),
    Rule("database-destructive", "rails rake", r"\bdb:(?:drop|reset|purge|schema:load)\b"),
    Rule("database-destructive", "prisma npx",
         r"migrate reset|db push.*--force-reset|--accept-data-loss"),
    Rule("database-destructive", "manage.py django-admin",
         r"(?:^|\s)(?:flush|reset_db|migrate\s+\w+\s+zero)(?:\s|$)"),
    Rule("database-destructive", "python python3",
         r"manage\S* (?:\S+ )*(?:flush|reset_db|migrate\s+\w+\s+zero)(?:\s|$)"),
    Rule("database-destructive", "etcdctl consul", r"\bdel\b.*--prefix|kv delete --?recurse"),
    Rule("database-destructive", "kafka-topics kafka-topics.sh rabbitmqctl",
         r"--delete|\breset\b|delete_queue|purge_queue"),
    Rule("database-destructive",
         "php artisan symfony console sequelize knex typeorm mix ecto dotnet sqlx diesel flask "
         "alembic liquibase sequelize-cli hasura drizzle-kit",
         r"migrate:(?:fresh|reset|refresh)|db:(?:wipe|drop|migrate:undo:all)|schema:drop|drop-all"
         r"|database:drop|migrate:rollback --all|ecto\.(?:drop|reset)|database (?:drop|reset)"
         r"|downgrade base|metadata clear"),
    Rule("database-destructive", "goose migrate dbmate flyway",
         r"(?:^|\s)(?:reset|down-to 0|drop|clean)(?:\s|$)"),
    Rule("database-destructive", "ldapdelete pg_dropcluster pg_resetwal mongodrop"),
    Rule("database-destructive", "influx", verb=r"(?:bucket |org )?delete\b"),
    # Repositories
    Rule("git-force-push", "git",
         r"\bpush\b.*\s(?:--(?:force|mirror|delete|prune)|-[a-zA-Z]*[fd]|[+:]\S)",
         unless=r"--dry-run|\s-n\b", verb=r"push\b", valued=_GIT),
    Rule("git-discard", "git", r"\breset\b.*\s--(?:hard?|merge)\b|\bclean\b.*\s(?:-\w*f|--force)"
         r"|\bbranch\b.*\s(?:-\w*D|(?=.*(?:--delete|-\w*d)).*(?:--force|-\w*f))|\b(?:checkout"
         r"|switch)\b.*\s(?:-f|--force|--discard-changes)(?:\s|$)|\bcheckout\b(?!.* -b).*\s(?:\.|\*"
         r"|:/)$|\brestore\b.*\s(?:\.|:/|\*)(?:\s|$)|\bgc\b.*--prune="
         r"|\brm\b(?!.*--cached)(?=.*\s-\w*r).*\s(?:-\w*f|\.$|\*$)|\bupdate-ref\b.* -d\b",
         unless=r"\b(?:push|commit|log|grep|config)\b|--dry-run|\bclean\b.*\s-\w*n",
         verb="reset|clean|branch|checkout|switch|restore|gc|rm|update-ref", valued=_GIT),
    Rule("git-discard", "git",
         r"\bstash (?:clear|drop)\b|\breflog (?:delete|expire .*(?:=(?:now|all|0)|--all))"
         r"|\bfilter-(?:branch|repo)\b(?!.*--analyze)|\bworktree remove .*(?:--force|-f)"
         r"|\bsubmodule deinit .*(?:--force|-f)|\blfs prune .*--force",
         verb="stash|reflog|filter-|worktree|submodule|lfs", valued=_GIT),
    Rule("persistence", "git",
         r"(?i)\bconfig\b.*\s(?:core\.(?:hooksPath|sshCommand)|core\.fsmonitor\s+(?!true|false)"
         r"|diff\.external|gpg\.(?:\w+\.)?program|init\.templateDir)\s+\S",
         unless=r"--(?:get|unset|list)"),
    Rule("hidden-command", "git",
         r"(?:core\.(?:pager|sshCommand|editor|fsmonitor|hooksPath)|alias\.\w+)=!?.*(?:sh\b|rm\s|curl"
         r"|/tmp)|--upload-pack=.*[;|`$]|ext::"),
    Rule("system-config", "git", r"^(?=.*\bapply\b).*--unsafe-paths"),
    # Containers and clusters
    Rule("container-lifecycle", _ENGINES, verb=r"(?:rm|rmi|kill|stop|restart)\b"
         r"|(?:compose|stack|swarm|service|secret|config|node) (?:down|rm|kill|stop|leave|reset)\b"
         r"|(?:containers?|images?|volume|network|system|pod|context|plugin|machine|tasks?|snapshots?"
         r"|namespaces?|content|builder) (?:rm|kill|stop|remove|reset|restart)\b"
         r"|(?:containers?|volume|network|system|pod|plugin) prune\b",
         valued="-H --host -c --context -f --file -p --project-name -l --env-file"),
    Rule("container-lifecycle", _ENGINES, options="a all", verb="(?:image|builder) prune"),
    Rule("container-lifecycle", "docker-compose podman-compose", verb=r"(?:down|rm|kill|stop)\b",
         valued="-p -f"),
    Rule("privilege-flags", f"{_ENGINES} kubectl lxc incus buildah", _PRIVILEGES),
    Rule("cluster-destructive", "kubectl oc k3s microk8s",
         verb=r"(?:kubectl |oc )?(?:(?:delete|drain)\b|(?:\S+ )?delete-)", valued=_CLUSTER),
    Rule("cluster-destructive", "kubectl oc k3s microk8s",
         r"\bscale\b.*--replicas=0|--replicas=0.*\bscale\b|\btaint\b.*NoExecute"),
    Rule("cluster-destructive", "helm", verb=r"(?:uninstall|delete|del|un)\b", valued=_CLUSTER),
    Rule("cluster-destructive", "kubeadm", verb="reset"),
    Rule("cluster-destructive", "minikube kind k3d eksctl", verb=r"(?:cluster )?delete\b"),
    Rule("cluster-destructive",
         "argocd flux nomad vault consul nats rpk pulsar-admin kafkactl istioctl linkerd velero",
         verb=rf"(?:\S+ ){{0,3}}(?:{_UNMAKES}|disable|seal|revoke|drain|del)(?:\s|$)"
         r"|(?:job )?stop\b"),
    Rule("cluster-destructive", "virsh VBoxManage vboxmanage qm pct lxc incus multipass",
         r"\b(?:destroy|undefine|vol-delete|pool-delete|vol-wipe|unregistervm\b.*--delete"
         r"|snapshot-delete)\b|^delete\b|controlvm \S+ poweroff"),
    # Providers
    Rule("cloud-destructive", "terraform tofu terragrunt pulumi cdk vagrant sam sls serverless",
         r"^(?:-\S+ )*(?:destroy|remove|delete|run-all destroy|state rm|workspace delete|stack rm"
         r"|apply .*-destroy)\b"),
    Rule("cloud-destructive", "aws",
         r"\bs3 (?:rb|rm .*--recursive|sync .*--delete|mv .*--recursive)|\bschedule-key-deletion"
         r"|(?:^|\s)(?:\w+-)?(?:delete|terminate|purge|deregister|detach|revoke|disable|remove"
         r"|release|cancel|stop)-\w|--desired-count[ =]0\b", unless=r"--dryrun|\bhelp$"),
    Rule("cloud-destructive",
         "gcloud az doctl hcloud linode-cli ibmcloud oci scw yc flyctl fly heroku",
         rf"^(?:\S+ ){{0,8}}(?:{_ENDS})(?:\s|$)"
         r"|\b(?:apps?|addons|pg|config|domains):(?:destroy|reset|remove)\b", unless=r"\bhelp$"),
    Rule("cloud-destructive", "gsutil", r"\brm\b.*-[a-z]*r|\brb\b|rsync .*-d\b"),
    Rule("cloud-destructive", "rclone", r"^(?:purge|delete|sync)\b"),
    Rule("cloud-destructive", "mc s3cmd", r"\brb\b|\b(?:rm|del)\b.*--(?:recursive|force)"),
    Rule("cloud-destructive", "gh glab",
         r"^(?:\w+ ){0,2}(?:delete|delete-asset|archive)\b|(?:-X|--method)[ =]?DELETE\b"),
    Rule("cloud-destructive",
         "vercel netlify wrangler firebase supabase railway render bq hub surge amplify eb exo "
         "civo vultr-cli ovhcloud qovery dokku cf wasmer zeet porter",
         rf"^(?:[^\s:]+[\s:-]+){{0,3}}-?(?:{_UNMAKES})(?:[\s:-]|$)"),
    Rule("cloud-destructive", "npm pnpm yarn gem cargo",
         verb=r"(?:unpublish|yank|owner remove|access revoke)\b"),
    Rule("cloud-destructive", "lftp", r"\bmirror\b.*(?:--delete|\s-e)\b|\brm\s+-r|\bmrm\b",
         reads_stdin=True),
    # Packages, networks and backups
    Rule("package-removal",
         "apt apt-get aptitude yum dnf pacman zypper dpkg rpm apk pkg emerge snap brew nala",
         rf"^(?=.*{_REMOVES})(?:.*\s)?{_NEEDED}(?:\s|$)"),
    Rule("package-removal", "npm",
         rf"^(?=.*{_REMOVES})(?=.*(?:-g|--global)\b)(?:.*\s)?{_NEEDED}(?:\s|$)"),
    Rule("package-removal", "apt apt-get dpkg rpm pacman apk",
         r"force-remove-essential|--nodeps|--force-(?:all|depends)|-Rdd\b"),
    Rule("system-config", "ip",
         r"\bl(?:ink)?\b.*\b(?:down|del(?:ete)?)\b|\ba(?:ddr\w*)?\b.*\bflush\b"
         r"|\br(?:oute)?\b.*(?:\bflush\b|\bdel(?:ete)?\s+default\b)"),
    Rule("system-config", "route", r"\bdel\b.*\bdefault\b"),
    Rule("system-config", "ifconfig", verb=r"\S+ down\b"),
    Rule("system-config", "ifdown"),
    Rule("system-config", "rfkill wpa_cli", verb="block|disconnect|terminate"),
    Rule("system-config", "nmcli",
         r"\bn\w*\s+off\b|\br\w*\s+\w+\s+off\b|\bc\w*\s+del\w*|\bd\w*\s+disc"),
    Rule("system-config", "tc", r"\bnetem\b.*\bloss\b"),
    Rule("traces", "restic borg duplicity kopia snapper",
         verb="delete|forget|prune|purge|remove|cleanup", unless=r"(?:^|\s)-\w*n"),
    Rule("traces", "timeshift rdiff-backup proxmox-backup-client tmutil",
         r"--(?:delete|remove)|\b(?:remove|forget|prune|delete|disable|deletelocalsnapshots)\b"),
)
# fmt: on
