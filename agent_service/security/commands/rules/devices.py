"""Rules for disks, their partitions and what is on them."""

import re

from agent_service.security.commands.invocation import Invocation
from agent_service.security.commands.marks import UNKNOWN
from agent_service.security.commands.paths import is_device
from agent_service.security.commands.rules.base import Rule, asks_only


def _device_or_flag(invocation: Invocation) -> bool:
    return any(is_device(operand) for operand in invocation.operands)


def _changes_partition(invocation: Invocation) -> bool:
    if asks_only(invocation) or (invocation.short("l") and invocation.name != "sgdisk"):
        return False
    if invocation.name == "parted":
        verbs = "mklabel mktable mkpart rm resizepart mkfs rescue set name"
        return any(word in verbs.split() for word in invocation.args)
    if invocation.name in ("sgdisk", "sfdisk"):
        return not invocation.short("pdi") or invocation.short("oZ")
    return _device_or_flag(invocation)


def _makes_filesystem(invocation: Invocation) -> bool:
    if asks_only(invocation) or (invocation.short("n") and "mke2fs" in invocation.name):
        return False
    if invocation.name == "zpool":
        return invocation.operand(0) in ("create", "add") and _device_or_flag(invocation)
    return _device_or_flag(invocation) or any(
        operand.startswith(UNKNOWN) for operand in invocation.operands
    )


def _cuts_device(invocation: Invocation) -> bool:
    words = "luksFormat luksErase erase luksKillSlot luksRemoveKey luksHeaderRestore reencrypt"
    return any(word in words.split() for word in invocation.args)


_ERASES = {
    "sgdisk": r"(?:^|\s)(?:-[a-yA-Y]*[zZo]|--zap|--clear)",
    "sfdisk": r"--(?:delete|wipe[ =]always)",
    "parted": r"(?:^|\s)(?:mklabel|mktable|rm)\s",
    "cryptsetup": r"(?:^|\s)(?:luksFormat|luksErase|erase|reencrypt)(?:\s|$)",
    "nvme": r"^(?:format|sanitize|delete-ns|write-zeroes)\b",
    "hdparm": r"--(?:security-erase|trim-sector|make-bad|write-sector)",
    "mdadm": r"--zero-superblock",
    "sg_format": r"--format|(?:^|\s)-\w*F",
    "sg_sanitize": r"--(?:block|crypto|overwrite)|(?:^|\s)-[BCO]",
    **dict.fromkeys(("flash_erase", "flash_eraseall", "flashcp", "nandwrite", "ubiformat"), r""),
}
"""What leaves nothing of a device or of its table of partitions, by program."""


def _erases_device(invocation: Invocation) -> bool:
    if asks_only(invocation) or not _device_or_flag(invocation):
        return False
    # A table that is piped into it takes the place of the one on the device.
    if invocation.name == "sfdisk" and invocation.is_fed:
        return not invocation.short("ldJVn") and not invocation.long("list", "dump", "json")
    return bool(re.search(_ERASES[invocation.name], invocation.text))


_PUTTING = (
    "curl curlie wget wget2 aria2c axel openssl gpg age sort xz zstd genisoimage mkisofs xorriso "
    "qemu-img convert ffmpeg"
)


def _puts_device(invocation: Invocation) -> bool:
    options = ("-o", "-O", "-out", "--output", "--output-document", "--output-file")
    put = invocation.value_of(*options)
    if invocation.name in ("qemu-img", "convert", "ffmpeg"):
        put += invocation.operands[1:][-1:]
    return any(is_device(path) for path in put)


_REMOVES = {
    "mdadm": r"--(?:zero-superblock|stop|fail|remove|create)|-[SC]\b",
    "hdparm": r"--(?:security-erase|trim-sector|make-bad|write-sector)",
    "nvme": r"^(?:format|sanitize|delete-ns|write-zeroes)\b",
    "zpool": r"^(?:create|destroy|labelclear|remove|detach|offline)\b",
    "zfs": r"^(?:destroy|rollback)\b",
    "btrfs": r"subvolume delete|device (?:delete|remove)",
    "lvchange": r"(?:^|\s)-a\s*l?n\b|--activate[ =]l?n",
    "lvresize": r"(?:-L|-l|--size|--extents)[ =]?[^+\s]",
}
"""What takes volumes away or makes them smaller, by program."""


def _removes_volume(invocation: Invocation) -> bool:
    if invocation.name in _REMOVES:
        return bool(re.search(_REMOVES[invocation.name], invocation.text))
    if invocation.name == "wipefs":
        return invocation.short("ao") or invocation.long("all", "offset")
    return not asks_only(invocation)


def _changes_filesystem(invocation: Invocation) -> bool:
    if invocation.name == "debugfs":
        return invocation.short("w")
    if invocation.name == "resize2fs":
        return invocation.short("M")
    return invocation.name == "tune2fs" and any(
        value.startswith("^") for value in invocation.value_of("-O")
    )


DEVICE_RULES: tuple[Rule, ...] = (
    Rule("block-device", "dmsetup", lambda i: "remove_all" in i.args, "dmsetup remove_all"),
    Rule(
        "make-filesystem",
        "mkfs mkfs.ext2 mkfs.ext3 mkfs.ext4 mkfs.xfs mkfs.btrfs mkfs.vfat mkfs.fat "
        "mkfs.msdos mkfs.ntfs mkfs.exfat mkfs.f2fs mkfs.cramfs mkfs.minix mkfs.bfs "
        "mkfs.reiserfs mkfs.jfs mkfs.erofs mke2fs mkdosfs mkntfs mkswap mkexfatfs "
        "newfs newfs_msdos mkreiserfs zpool",
        _makes_filesystem,
        "mkfs.ext4 /dev/sda1",
    ),
    Rule(
        "make-filesystem",
        "format diskutil",
        lambda i: (
            bool(re.match(r"[A-Za-z]:", i.operand(0)))
            or i.operand(0).lower()
            in ("erasedisk", "erasevolume", "reformat", "partitiondisk", "zerodisk", "secureerase")
        ),
        "diskutil eraseDisk JHFS+ X disk2",
    ),
    Rule(
        "make-filesystem",
        "wipefs blkdiscard",
        lambda i: _device_or_flag(i) and (i.name == "blkdiscard" or i.short("a") or i.long("all")),
        "wipefs -a /dev/sda",
    ),
    Rule("device-write", _PUTTING, _puts_device, "curl -o /dev/sda https://example.com/image"),
    Rule("device-write", " ".join(_ERASES), _erases_device, "sgdisk --zap-all /dev/sda"),
    Rule("block-device", "diskpart", lambda i: True, "diskpart /s script.txt"),
    Rule(
        "block-device",
        "fdisk sfdisk cfdisk gdisk cgdisk sgdisk parted partprobe",
        _changes_partition,
        "parted /dev/sda mklabel gpt",
    ),
    Rule("block-device", "cryptsetup", _cuts_device, "cryptsetup luksFormat /dev/sdb1"),
    Rule(
        "block-device",
        "lvremove vgremove pvremove lvreduce vgreduce lvresize lvchange mdadm hdparm nvme zpool "
        "zfs btrfs wipefs blkdiscard",
        _removes_volume,
        "lvremove -f vg0/data",
    ),
    Rule(
        "block-device",
        "resize2fs tune2fs debugfs e2image xfs_admin",
        _changes_filesystem,
        "debugfs -w /dev/sda1",
    ),
)
"""Rules for disks."""
