"""Rules for disks, their partitions and what is on them."""

import re

from agent_service.security.invocation import Invocation
from agent_service.security.marks import UNKNOWN
from agent_service.security.paths import is_device
from agent_service.security.rules.base import Rule, asks_only


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
    return _device_or_flag(invocation) or any(
        operand.startswith(UNKNOWN) for operand in invocation.operands
    )


def _cuts_device(invocation: Invocation) -> bool:
    words = "luksFormat luksErase erase luksKillSlot luksRemoveKey luksHeaderRestore reencrypt"
    return any(word in words.split() for word in invocation.args)


def _removes_volume(invocation: Invocation) -> bool:
    text = invocation.text
    if invocation.name == "mdadm":
        return bool(re.search(r"--(?:zero-superblock|stop|fail|remove|create)|-[SC]\b", text))
    if invocation.name == "hdparm":
        return bool(re.search(r"--(?:security-erase|trim-sector|make-bad|write-sector)", text))
    if invocation.name == "nvme":
        return bool(re.match(r"(?:format|sanitize|delete-ns|write-zeroes)\b", text))
    if invocation.name in ("zpool", "zfs"):
        return bool(re.match(r"(?:destroy|labelclear|rollback)\b", text))
    if invocation.name == "btrfs":
        return bool(re.search(r"subvolume delete|device (?:delete|remove)", text))
    if invocation.name == "wipefs":
        return invocation.short("ao") or invocation.long("all", "offset")
    return not asks_only(invocation)


DEVICE_RULES: tuple[Rule, ...] = (
    Rule("block-device", "dmsetup", lambda i: "remove_all" in i.args, "dmsetup remove_all"),
    Rule(
        "make-filesystem",
        "mkfs mkfs.ext2 mkfs.ext3 mkfs.ext4 mkfs.xfs mkfs.btrfs mkfs.vfat mkfs.fat "
        "mkfs.msdos mkfs.ntfs mkfs.exfat mkfs.f2fs mkfs.cramfs mkfs.minix mkfs.bfs "
        "mkfs.reiserfs mkfs.jfs mkfs.erofs mke2fs mkdosfs mkntfs mkswap mkexfatfs "
        "newfs newfs_msdos mkreiserfs",
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
    Rule(
        "block-device",
        "fdisk sfdisk cfdisk gdisk cgdisk sgdisk parted partprobe",
        _changes_partition,
        "parted /dev/sda mklabel gpt",
    ),
    Rule("block-device", "cryptsetup", _cuts_device, "cryptsetup luksFormat /dev/sdb1"),
    Rule(
        "block-device",
        "lvremove vgremove pvremove lvreduce mdadm hdparm nvme zpool zfs btrfs wipefs blkdiscard",
        _removes_volume,
        "lvremove -f vg0/data",
    ),
    Rule(
        "block-device",
        "resize2fs tune2fs debugfs e2image xfs_admin",
        lambda i: i.name == "debugfs" and i.short("w"),
        "debugfs -w /dev/sda1",
    ),
)
"""Rules for disks."""
