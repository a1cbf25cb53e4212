"""Rules for files, disks and the machine."""

from agent_service.security.commands.families import Reach
from agent_service.security.commands.rules import effects
from agent_service.security.commands.rules.base import Rule

_DRY = r"--dry-run|(?:^|\s)-\w*n"
_SYNCS = r"(?:^|\s)--del"
_MKFS = (
    "mkfs mkfs.ext2 mkfs.ext3 mkfs.ext4 mkfs.xfs mkfs.btrfs mkfs.vfat mkfs.fat mkfs.msdos "
    "mkfs.ntfs mkfs.exfat mkfs.f2fs mkfs.cramfs mkfs.minix mkfs.bfs mkfs.reiserfs mkfs.jfs "
    "mkfs.erofs mke2fs mkdosfs mkntfs mkswap mkexfatfs newfs newfs_msdos mkreiserfs"
)
_ERASES = (
    r"--(?:security-erase|trim-sector|make-bad|write-sector|zero-superblock|format|block|crypto"
    r"|overwrite)|^(?:format|sanitize|delete-ns|write-zeroes)\b|(?:^|\s)-\w*[FBCO]\b"
)
_UNMAKES_VOLUMES = (
    r"--(?:zero-superblock|stop|fail|remove|create|security-erase|trim-sector|make-bad|write-sector)"
    r"|(?:^|\s)-[SC]\b|^(?:format|sanitize|delete-ns|write-zeroes|create|destroy|labelclear|remove"
    r"|detach|offline)\b"
)
_ENDS = r"poweroff|reboot|halt|kexec|soft-reboot|emergency|rescue"
_EVERYBODY = r"(?:\S*,)?(?:[ugo]*[oa][ugo]*[+=]|\+)[rxXst]*w|0?[0-7]?[0-7]{2}[2367]\b|0+\b"
_ADMINS = (
    r"\b(?:sudo|wheel|root|docker|admin|lxd|disk|adm|shadow|libvirt|kvm)\b|(?:-\w*u|--uid)[ =]?0\b"
)
_OPENS = (
    r"(?:^|\s)-(?:F|X|D)\b|--(?:flush|delete)|(?:-P|--policy)\s+\w+\s+ACCEPT"
    r"|(?:-A|-I|--append|--insert)\s+INPUT\b.*ACCEPT"
)

# fmt: off
SYSTEM_RULES: tuple[Rule, ...] = (
    # Files
    Rule("delete-root", effects.DELETERS, when=effects.deletes_root),
    Rule("delete-root", "rm shred unlink", operands="whole"),
    Rule("delete-root", "tar gtar bsdtar", options="remove-files", operands="critical"),
    Rule("delete-root", "rsync", _SYNCS, _DRY, operands="last critical"),
    Rule("delete-root", "mv", operands="last null"),
    Rule("delete-root", "mv", operands="first critical"),
    Rule("recursive-delete", effects.DELETERS, when=effects.deletes_folders),
    Rule("recursive-delete", "fd fdfind", r"(?:-x|-X|--exec\S*) (?:\S*/)?(?:rm|unlink|shred)\b"),
    Rule("recursive-delete", "gio", r"^trash --empty$"),
    Rule("workspace-delete", effects.DELETERS, when=effects.deletes_session),
    Rule("workspace-delete", "rm unlink shred", operands="every-file"),
    Rule("workspace-delete", "rsync", _SYNCS, _DRY),
    Rule("overwrite", "shred wipe srm scrub nwipe bcwipe"),
    Rule("overwrite", "truncate", r"(?:-s|--size)[ =]*0[KM]?(?:\s|$)", reach=Reach.OUTSIDE),
    Rule("overwrite", "cp install", r"^(?:-\S+ )*/dev/null ", operands="last kept"),
    Rule("overwrite", "tee", feeds="^</dev/null$", operands="kept"),
    Rule("overwrite", "fallocate", options="p c z punch-hole collapse-range"),
    Rule("overwrite", "cipher", "(?i)/w"),
    Rule("overwrite", "tar bsdtar gtar", options="remove-files"),
    Rule("overwrite", "tar bsdtar gtar", r"^-?[a-zA-Z]*x|--extract|\s-[a-zA-Z]*x",
         operands="-C --directory critical"),
    Rule("device-write", "shred wipe scrub nwipe", operands="device"),
    Rule("device-write", "badblocks", options="w", operands="device"),
    Rule("raw-copy", "dd dcfldd dc3dd gdd", when=effects.copies_raw),
    Rule("permissions", "chmod gchmod", verb=_EVERYBODY),
    Rule("permissions", "chmod gchmod", options="R recursive", operands="machine"),
    Rule("permissions", "chmod gchmod", operands="system"),
    Rule("permissions", "setfacl", r"(?:other|o)::?rw"),
    Rule("permissions", "setfacl", options="R", operands="critical"),
    Rule("permissions", "chattr", r"(?:^|\s)[-+=]\w*[ia]\w*(?:\s|$)", operands="guarded"),
    Rule("permissions", "chattr", r"(?:^|\s)[-+=]\w*[ia]\w*(?:\s|$)", options="R"),
    Rule("privilege-flags", "chmod gchmod",
         r"^(?:-\S+ )?(?:\S*,)?[ugoa]*(?:[+=][rwxXt]*s|0?[2467][0-7]{3}\b)"),
    Rule("ownership", "chown chgrp gchown", options="R recursive"),
    Rule("ownership", "chown chgrp gchown", operands="guarded"),
    # Secrets
    Rule("credential-files", "*", when=effects.reads_secret),
    Rule("credential-files", "curl curlie wget wget2 http xh lynx",
         r"\b169\.254\.(?:169\.254|170\.2)\b|\bmetadata\.google\.internal\b"),
    Rule("credential-files", "grep egrep rg ag", "(?i)passw|secret|api.?key|token|private key",
         options="r R", operands="critical"),
    Rule("credential-files", "secretdump mimikatz lazagne unshadow pwdump"),
    Rule("credential-files", "security", r"find-(?:generic|internet)-password|dump-keychain"),
    Rule("credential-files", "gpg gpg2", "--export-secret"),
    Rule("credential-files", "getent", r"\bshadow\b"),
    Rule("credential-files", "find",
         r"-i?name \S*(?:id_rsa|id_ed25519|\.pem$|shadow|credentials|wallet\.dat|\.kdbx)"),
    Rule("credential-files", "secret-tool gopass vault gcloud az op bw keyring cmdkey",
         r"^(?:lookup|search|show|kv get|read|item get|get|keyvault secret show)\b|/list"
         r"|secrets versions access|auth print-\w+-token|account get-access-token"),
    Rule("credential-files", "gh", r"^auth token\b"),
    Rule("credential-files", "pass", r"^(?:show\b|-c\b|[\w@.-]+/\S)"),
    Rule("credential-files", "aws",
         r"\bsecretsmanager get-secret-value\b|\bssm get-parameters?\b.*--with-decryption"),
    Rule("credential-files", "kubectl", r"\bget\s+secrets?\b.*(?:-o|--output)"),
    Rule("own-config", "hermes",
         verb=r"(?:config (?:set|unset|edit)|budget set|home import|memory undo|pairing approve"
         r"|tools enable|approvals (?:approve|deny))\b"),
    # Disks
    Rule("make-filesystem", _MKFS, operands="device-or-untold"),
    Rule("make-filesystem", "zpool", verb="create|add", operands="device"),
    Rule("make-filesystem", "format diskutil",
         verb="[A-Za-z]:|(?i:erasedisk|erasevolume|reformat|partitiondisk|zerodisk|secureerase)"),
    Rule("make-filesystem", "wipefs", options="a all", operands="device"),
    Rule("make-filesystem", "blkdiscard", operands="device"),
    Rule("device-write", "sgdisk", r"(?:^|\s)(?:-[a-yA-Y]*[zZo]|--zap|--clear)", operands="device"),
    Rule("device-write", "sfdisk", r"--(?:delete|wipe[ =]always)", operands="device"),
    Rule("device-write", "sfdisk", unless=r"(?:^|\s)-\w*[ldJVn]|--(?:list|dump|json)", is_fed=True,
         operands="device"),
    Rule("device-write", "parted", r"(?:^|\s)(?:mklabel|mktable|rm)\s", operands="device"),
    Rule("device-write", "cryptsetup", r"luks(?:Format|Erase)|\berase|reencrypt",
         operands="device"),
    Rule("device-write", "hdparm nvme mdadm sg_format sg_sanitize", _ERASES, operands="device"),
    Rule("device-write", "flash_erase flash_eraseall flashcp nandwrite ubiformat",
         operands="device"),
    Rule("block-device", "diskpart lvremove vgremove pvremove lvreduce vgreduce blkdiscard"),
    Rule("block-device", "dmsetup", r"\bremove_all\b"),
    Rule("block-device", "fdisk cfdisk gdisk cgdisk partprobe", operands="device", unless="-l"),
    Rule("block-device", "sgdisk", unless=r"(?:^|\s)-\w*[pdi]|--(?:print|info)"),
    Rule("block-device", "sfdisk", unless=r"(?:^|\s)-\w*[pdil]|--(?:list|dump)"),
    Rule("block-device", "parted",
         r"(?:^|\s)(?:mklabel|mktable|mkpart|rm|resizepart|mkfs|rescue|set|name)(?:\s|$)",
         unless=r"(?:^|\s)-\w*l"),
    Rule("block-device", "cryptsetup",
         r"\b(?:luks(?:Format|Erase|KillSlot|RemoveKey|HeaderRestore)|erase|reencrypt)\b"),
    Rule("block-device", "mdadm hdparm nvme zpool", _UNMAKES_VOLUMES),
    Rule("block-device", "zfs", verb=r"(?:destroy|rollback)\b"),
    Rule("block-device", "btrfs", r"subvolume delete|device (?:delete|remove)"),
    Rule("block-device", "lvchange", r"(?:^|\s)-a\s*l?n\b|--activate[ =]l?n"),
    Rule("block-device", "lvresize", r"(?:-L|-l|--size|--extents)[ =]?[^+\s]"),
    Rule("block-device", "wipefs", options="a o all offset"),
    Rule("block-device", "debugfs", options="w"),
    Rule("block-device", "resize2fs", options="M"),
    Rule("block-device", "tune2fs", r"-O ?\^"),
    # The machine's power and processes
    Rule("shutdown", "shutdown reboot halt poweroff Restart-Computer Stop-Computer",
         unless=r"(?:^|\s)(?:-\w*w\w*|-[ck]|--wtmp-only)(?:\s|$)"),
    Rule("shutdown", "init telinit", verb="[06]$"),
    Rule("shutdown", "systemctl loginctl",
         verb=rf"(?:{_ENDS})\b|(?:isolate|start)\b.*\b(?:poweroff|reboot|halt|emergency)\.target"),
    Rule("shutdown", "kexec", options="e exec"),
    Rule("shutdown", "rtcwake", r"(?:-m|--mode)[ =]*(?:off|disk)"),
    Rule("services", "rtcwake", r"(?:-m|--mode)[ =]*(?:mem|standby|freeze)"),
    Rule("shutdown", "busctl dbus-send gdbus qdbus",
         r"login1.*(?:PowerOff|Reboot|Halt)|ConsoleKit.*(?:Stop|Restart)"),
    Rule("kill-all", "kill killall5", when=effects.kills_all),
    Rule("kill-all", "pkill killall skill slay",
         r"(?:^|\s)(?:\.\*?|\*|\^|\[a-z\])(?:\s|$)|(?:-[uU]|--e?uid)[ =]?root\b|\s$"),
    Rule("mass-kill", "pkill killall skill slay", r"(?:^|\s)[^-\s]|-[uUgt]|--(?:euid|uid|user)",
         unless=r"(?:^|\s)(?:-[lL0i]|--list|--interactive)(?:\s|$)"),
    Rule("mass-kill", "kill", r"(?i)^(?=.*[*\x91]).*(?:-|-s |--signal[ =])(?:9|(?:SIG)?KILL)\b"),
    Rule("mass-kill", "loginctl", verb="terminate-(?:user|session|seat)|kill-(?:user|session)"),
    Rule("mass-kill", "fuser", options="k kill"),
    Rule("mass-kill", "taskkill Stop-Process", r"(?i)[/-]f(?:orce)?\b"),
    Rule("mass-kill", "xkill", options="a all"),
    # Services and start
    Rule("services", "systemctl", verb=r"(?:stop|disable|mask|kill|isolate|try-restart|condstop)\b",
         valued="-H -M -t -p -n -o -s --host --machine --signal --type"),
    Rule("services", "service rc-service invoke-rc.d", verb=r"\S+ (?:\S+ )*stop\b"),
    Rule("services", "launchctl sc", verb=r"(?:stop|delete|unload|bootout|remove|disable)\b"),
    Rule("services", "update-rc.d chkconfig", r"\b(?:remove|disable|off)\b"),
    Rule("services", "sv initctl supervisorctl pm2 monit rc-update s6-rc brew pg_ctl pg_ctlcluster",
         verb=r"(?:services )?(?:stop|kill|delete|del|shutdown|down|exit)\b"),
    Rule("services", "ansible", "state=stopped"),
    Rule("persistence", "crontab", options="r"),
    Rule("persistence", "crontab", verb=".", valued="-u"),
    Rule("persistence", "crontab", is_fed=True, unless=r"(?:^|\s)-\w*[lre]"),
    Rule("persistence", "at batch", is_fed=True),
    Rule("persistence", "at batch", r"(?:^|\s)-f"),
    Rule("persistence", "schtasks", "(?i)/create"),
    Rule("persistence", "systemctl", verb=r"(?:link|edit|enable)\b.* /"),
    Rule("persistence", "launchctl", verb=r"(?:load|bootstrap|submit|enable)\b"),
    Rule("system-config", "sysctl", r"(?:^|\s)(?:-w|[\w./-]+=)"),
    Rule("system-config", "timedatectl systemctl", verb=r"set-time\b"),
    Rule("system-config", "timedatectl systemctl",
         verb=r"set-(?:default|ntp) (?:(?:rescue|emergency|poweroff|reboot)\.|false|no|0|off)"),
    Rule("system-config", "update-alternatives", r"^(?=.*--install).*--force"),
    Rule("system-config", "date hwclock", r"(?:^|\s)(?:-s|--set|--systohc)"),
    Rule("system-config", "umount", options="a"),
    Rule("system-config", "umount", options="l", operands="critical"),
    Rule("system-config", "swapoff", options="a"),
    Rule("system-config", "ldconfig", r"(?:^|\s)-f"),
    Rule("system-config", "mount", unless=r"move\b|-M\b|remount,rw|rw,remount", operands="covered"),
    Rule("system-config", "mount", r"move\b|-M\b|remount,r[ow]|r[ow],remount", operands="critical"),
    Rule("system-config", "efibootmgr", options="B D O N delete-bootnum remove-dups"),
    Rule("system-config", "bootctl", verb="remove"),
    Rule("system-config", "grub-install grub2-install update-grub update-grub2 dpkg-divert"),
    # Accounts and protections
    Rule("accounts", "userdel deluser groupdel delgroup adduser groupadd addgroup chpasswd vipw"),
    Rule("accounts", "newusers"),
    Rule("accounts", "passwd", r"(?:^|\s)(?:-\w*[dul]|--delete|--stdin|root\b)"),
    Rule("accounts", "useradd visudo", unless=r"(?:^|\s)-\w*[Dc]"),
    Rule("accounts", "chsh", r"\broot\b|(?:-s|--shell)[ =]?/(?!bin/|usr/)"),
    Rule("accounts", "usermod gpasswd", _ADMINS),
    Rule("accounts", "usermod", options="L p u lock password uid"),
    Rule("accounts", "groupmod", r"(?:-g|--gid)[ =]?0\b"),
    Rule("accounts", "smbpasswd", options="x d"),
    Rule("accounts", "chage", r"(?:-E|--expiredate)[ =]?(?:0|1970-01-01)(?:\s|$)"),
    Rule("privilege-flags", "usermod gpasswd adduser addgroup useradd", _ADMINS),
    Rule("privilege-flags", "setcap", unless=r"(?:^|\s)-\w*[rv]", text=r"\S"),
    Rule("privilege-flags", "nsenter", r"(?:-t|--target)[ =]?1\b|(?:^|\s)-\w*a"),
    Rule("privilege-flags", "capsh", r"--[gu]id=0\b"),
    Rule("firewall", "iptables ip6tables ebtables", _OPENS),
    Rule("firewall", "nft", r"\b(?:flush|delete|destroy)\b|\binput\s+accept\b"),
    Rule("firewall", "netsh", r"(?i)\bstate\s+off\b|\bdelete\b"),
    Rule("firewall", "ufw", r"\b(?:disable|reset|allow|limit|delete)\b"),
    Rule("firewall", "setenforce", r"^(?i:0|permissive)\b"),
    Rule("firewall", "firewall-cmd", r"--panic-off|--complete-reload|--(?:add|remove)-[ps]"),
    Rule("firewall", "pfctl", r"(?:^|\s)-d\b|-F\s+all"),
    Rule("firewall", "auditctl", r"-e\s*0|-D\b"),
    Rule("firewall", "aa-teardown aa-disable aa-complain"),
    Rule("firewall", "Set-MpPreference spctl csrutil", "(?i)disable|true"),
    Rule("firewall", "iptables-restore ip6tables-restore",
         unless=r"(?:^|\s)-\w*[tn]|--(?:test|noflush)"),
    Rule("kernel", "kexec insmod rmmod"),
    Rule("kernel", "modprobe", r"(?:^|\s)[^-\s]", unless=r"(?:^|\s)-\w*[ncD]|--show"),
    # Traces
    Rule("traces", "history", options="c d w"),
    Rule("traces", "journalctl", r"--vacuum-(?:time|size|files)=?\s*[01][sKM]?\b"),
    Rule("traces", "wevtutil", r"\bcl\b"),
    Rule("traces", "vssadmin", r"\bdelete\b"),
    Rule("traces", "unset", r"\bHISTFILE\b"),
    Rule("traces", "set", r"^\+o history$"),
)
# fmt: on
