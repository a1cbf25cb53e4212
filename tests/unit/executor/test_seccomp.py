"""The compiled filter decides as the profile says, for every call of both machines."""

import errno
import json
import struct
from importlib import resources
from typing import Any

import pytest

from executor_service.backends.seccomp import ProfileError, compile_filter, sandbox_filter

FILES = resources.files("executor_service.backends")
PROFILE: dict[str, Any] = json.loads((FILES / "seccomp.json").read_text("utf-8"))
NUMBERS: dict[str, dict[str, int]] = json.loads((FILES / "syscall_numbers.json").read_text("utf-8"))
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
I386 = 0x40000003
ALLOW = 0x7FFF0000
KILL = 0x80000000
CLONE_NEWUSER = 0x10000000
THREAD_FLAGS = 0x3D0F00


def refused(code: int) -> int:
    return 0x00050000 | code


def run(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What the kernel would do: classic BPF over struct seccomp_data."""
    padded = [*arguments, *([0] * (6 - len(arguments)))]
    data = struct.pack("=IIQ6Q", number, architecture, 0, *padded)
    steps = list(struct.iter_unpack("=HBBI", program))
    accumulator = position = 0
    while True:
        code, if_true, if_false, operand = steps[position]
        position += 1
        match code:
            case 0x20:
                assert operand % 4 == 0
                (accumulator,) = struct.unpack_from("=I", data, operand)
            case 0x15:
                position += if_true if accumulator == operand else if_false
            case 0x25:
                position += if_true if accumulator > operand else if_false
            case 0x54:
                accumulator &= operand
            case 0x06:
                return operand
            case _:
                pytest.fail(f"no instruction of ours: {code:#x}")


@pytest.mark.parametrize("machine", list(NUMBERS))
def test_every_call_is_treated_as_the_profile_says(machine: str) -> None:
    program = sandbox_filter(machine)
    unconditional = {
        name: entry["action"]
        for entry in PROFILE["syscalls"]
        if "args" not in entry
        for name in entry["names"]
    }
    conditional = {
        name for entry in PROFILE["syscalls"] if "args" in entry for name in entry["names"]
    }
    known = {number: name for name, number in NUMBERS[machine].items()}
    for number in range(600):
        name = known.get(number, "")
        if name in conditional:
            continue
        result = run(program, ARCHITECTURES[machine], number)
        if name == "clone3":
            assert result == refused(errno.ENOSYS)
        elif unconditional.get(name) == "SCMP_ACT_ALLOW":
            assert result == ALLOW, name
        else:
            assert result == refused(errno.EPERM), name


@pytest.mark.parametrize("machine", list(NUMBERS))
def test_what_matters_most(machine: str) -> None:
    program, architecture = sandbox_filter(machine), ARCHITECTURES[machine]

    def result(name: str, *arguments: int) -> int:
        return run(program, architecture, NUMBERS[machine][name], *arguments)

    for name in ("ptrace", "unshare", "setns", "mount", "bpf", "io_uring_setup", "keyctl"):
        assert result(name) == refused(errno.EPERM), name
    assert result("clone", THREAD_FLAGS) == ALLOW
    assert result("clone", CLONE_NEWUSER) == refused(errno.EPERM)
    assert result("clone", CLONE_NEWUSER | THREAD_FLAGS) == refused(errno.EPERM)
    assert result("socket", 1, 1, 0) == ALLOW
    assert result("socket", 40, 1, 0) == refused(errno.EPERM)
    assert result("socket", 1 << 32 | 1, 1, 0) == refused(errno.EPERM)
    assert result("socket", 16, 3, 0) == ALLOW
    assert result("socket", 16, 3, 9) == refused(errno.EPERM)
    assert result("personality", 0xFFFFFFFF) == ALLOW
    assert result("personality", 0x40000) == refused(errno.EPERM)
    assert result("mknodat", 0, 0, 0o010644) == ALLOW
    assert result("mknodat", 0, 0, 0o020644) == refused(errno.EPERM)


def test_other_calling_conventions() -> None:
    program = sandbox_filter("x86_64")
    assert run(program, I386, 1) == KILL
    assert run(program, ARCHITECTURES["aarch64"], 1) == KILL
    assert run(program, ARCHITECTURES["x86_64"], 0x40000000 | 1) == refused(errno.EPERM)


@pytest.mark.parametrize(
    "change",
    [
        {"action": "SCMP_ACT_NOTIFY"},
        {"includes": {"caps": ["CAP_SYS_ADMIN"]}},
        {"args": [{"index": 0, "value": 1, "op": "SCMP_CMP_GT"}]},
    ],
)
def test_a_profile_that_is_not_understood_is_an_error(change: dict[str, Any]) -> None:
    entry = {"names": ["read"], "action": "SCMP_ACT_ALLOW", **change}
    profile = {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [entry]}
    with pytest.raises(ProfileError):
        compile_filter(profile, "x86_64", NUMBERS["x86_64"])
    with pytest.raises(ProfileError):
        sandbox_filter("pdp11")


def test_the_first_rule_that_applies_counts() -> None:
    profile = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [
            {
                "names": ["kill"],
                "action": "SCMP_ACT_ERRNO",
                "errnoRet": 5,
                "args": [
                    {"index": 0, "value": 7, "op": "SCMP_CMP_EQ"},
                    {"index": 1, "value": 0xF0, "valueTwo": 0x10, "op": "SCMP_CMP_MASKED_EQ"},
                ],
            },
            {"names": ["kill"], "action": "SCMP_ACT_ERRNO", "errnoRet": 6},
            {"names": ["kill"], "action": "SCMP_ACT_ALLOW"},
        ],
    }
    program = compile_filter(profile, "x86_64", {"kill": 62})
    x86 = ARCHITECTURES["x86_64"]
    assert run(program, x86, 62, 7, 0x1F) == refused(5)
    assert run(program, x86, 62, 7, 0x2F) == refused(6)
    assert run(program, x86, 62, 8, 0x1F) == refused(6)
    assert run(program, x86, 61) == run(program, x86, 63) == ALLOW
