"""The bars of the command classes on public lists of commands."""

import re

from agent_service.security.commands.classifier import CommandClassifier
from agent_service.security.commands.families import CommandClass
from tests.corpora import rows

FALSE_ALARMS = 0.005
RECALL = 0.95

# Everyday commands that really are dangerous by the families: what asks about them is right.
_REALLY = re.compile(
    r"^(?:\s*sudo )?(?:mkfs|fdisk|sgdisk|sfdisk|parted|blkdiscard|cryptsetup luksFormat|"
    r"mdadm --|[pvl]v?g?remove"
    r"|vgremove|dd |shred|srm|nwipe|scrub|truncate -s 0|halt|poweroff|reboot|shutdown|"
    r"telinit [06]|kexec|insmod"
    r"|systemctl (?:halt|rescue|soft-reboot|mask|stop|poweroff|reboot)|rc-service|sv down|"
    r"killall -9|fuser -k"
    r"|userdel|deluser|unshadow|setcap|setenforce 0|aa-|auditctl -D|chgrp -R|chown -R|"
    r"crontab -r|history -c"
    r"|git (?:clean -f|checkout \.|restore :|filter-|update-ref -d|push .*-d)"
    r"|(?:docker|podman) (?:compose (?:down|stop)|stop|kill|rmi (?!-h)|secret rm|swarm leave"
    r"|(?:image|system|volume) prune)"
    r"|kubectl (?:drain|delete)|kubeadm reset|minikube delete|multipass delete|"
    r"VBoxManage controlvm \w+ poweroff|virsh pool-destroy"
    r"|(?:terraform|tofu) (?:destroy|apply -destroy)|pulumi destroy|vagrant destroy|aws .* "
    r"delete-"
    r"|(?:gcloud|az|doctl|linode-cli|heroku|velero) (?:.* )?(?:delete|destroy|rm)|gh release delete"
    r"|pulumi stack rm|(?:dotnet ef|sqlx) database drop|sequelize db:migrate:undo:all"
    r"|(?:sudo )?(?:lvresize|resize2fs -M|rc-update del)|chkconfig .*off|loginctl terminate-user"
    r"|dropdb|rails db:drop|rabbitmqctl .* reset|sysctl -w|timedatectl set-time|rsync "
    r".*--delete|gotty -w|ttyd bash"
    r"|nc -l -p port -e)|\| (?:sudo )?(?:chpasswd|at |sh -s)|>> ~/\.zshrc|> /etc/|"
    r"--export-secret-key"
)


def test_everyday_commands_rarely_alarm() -> None:
    classifier = CommandClassifier()
    commands = [row["command"] for row in rows("tldr.jsonl")]
    alarms = [
        command
        for command in commands
        if classifier.classify(command).kind is not CommandClass.SAFE
        and not _REALLY.search(command)
    ]
    assert len(commands) > 1000
    assert len(alarms) / len(commands) <= FALSE_ALARMS, alarms


def test_shells_and_transfers_are_found() -> None:
    classifier = CommandClassifier()
    wanted = ("reverse-shell", "bind-shell", "upload", "download")
    found = [row for row in rows("gtfobins.jsonl") if row["function"] in wanted]
    missed = [row for row in found if classifier.classify(row["code"]).kind is CommandClass.SAFE]
    assert len(found) > 10
    assert 1 - len(missed) / len(found) >= RECALL, missed


def test_writes_to_sensitive_files_are_found() -> None:
    classifier = CommandClassifier()
    places = ("/etc/passwd", "/root/.ssh/authorized_keys", "/etc/cron.d/x", "/usr/bin/ls")
    made = [
        row["code"].replace("/path/to/output-file", place)
        for row in rows("gtfobins.jsonl")
        if row["function"] == "file-write" and "/path/to/output-file" in row["code"]
        for place in places
    ]
    missed = [code for code in made if classifier.classify(code).kind is CommandClass.SAFE]
    assert len(made) > 10
    assert 1 - len(missed) / len(made) >= RECALL, missed
