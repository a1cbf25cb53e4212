"""Compiles the sandboxes' system call profile to the kernel's filter language.

The profile (seccomp.json) has the format of container engines, so that all backends share one. Here
it becomes classic BPF, for programs that load a filter themselves. A call in another architecture's
convention kills the process, because its number means another call.
"""

import errno
import json
import platform
import struct
from collections.abc import Iterator
from importlib import resources
from itertools import groupby
from operator import itemgetter
from typing import Any

_LOAD, _JUMP_EQUAL, _JUMP_GREATER, _AND, _RETURN = 0x20, 0x15, 0x25, 0x54, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_KILL_PROCESS, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_HIGHEST_NUMBER = 0xFFFFFFFF
_X32_BIT = 0x40000000
_LOW_32 = 0xFFFFFFFF
_AUDIT_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_INSTRUCTION = struct.Struct("=HBBI")


class ProfileError(ValueError):
    """The profile uses something that this compiler does not know."""


def sandbox_filter(machine: str = "") -> bytes:
    """The sandboxes' profile, compiled for this machine or another (x86_64, aarch64)."""
    files = resources.files("executor_service.backends")
    profile = json.loads((files / "seccomp.json").read_text("utf-8"))
    numbers = json.loads((files / "syscall_numbers.json").read_text("utf-8"))
    machine = machine or platform.machine()
    if machine not in numbers:
        raise ProfileError(f"no system call numbers are known for {machine}")
    return compile_filter(profile, machine, numbers[machine])


def compile_filter(profile: dict[str, Any], machine: str, numbers: dict[str, int]) -> bytes:
    """Compile a profile to an array of struct sock_filter, as seccomp(2) takes it.

    Calls that the machine lacks are left out. The first rule that applies to a call counts; without
    one, the profile's default does.
    """
    default = [_step(_RETURN, _result(profile["defaultAction"], profile.get("defaultErrnoRet")))]
    entries: dict[int, list[dict[str, Any]]] = {}
    for entry in profile["syscalls"]:
        if entry.get("includes") or entry.get("excludes"):
            raise ProfileError("rules that depend on the system are not known")
        for name in entry["names"]:
            if name in numbers:
                entries.setdefault(numbers[name], []).append(entry)
    program = [
        _step(_LOAD, _ARCHITECTURE_AT),
        _step(_JUMP_EQUAL, _AUDIT_ARCHITECTURES[machine], if_true=1),
        _step(_RETURN, _KILL_PROCESS),
        _step(_LOAD, _NUMBER_AT),
    ]
    treatments = {number: _treatment(rules, default) for number, rules in entries.items()}
    for last, treatment in _ranges(treatments, default):
        if last < _HIGHEST_NUMBER:
            program.append(_step(_JUMP_GREATER, last, if_true=len(treatment)))
        program += treatment
    return b"".join(program)


def _step(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """One step of a filter; jumps are relative, in steps."""
    return _INSTRUCTION.pack(code, if_true, if_false, operand)


def _ranges(
    treatments: dict[int, list[bytes]], default: list[bytes]
) -> Iterator[tuple[int, list[bytes]]]:
    """The space of call numbers as (last number, treatment), ascending and without a gap."""
    assert max(treatments, default=0) < _X32_BIT
    every = range(max(treatments, default=0) + 1)
    found = [(number, treatments.get(number, default)) for number in every]
    for treatment, group in groupby([*found, (_HIGHEST_NUMBER, default)], key=itemgetter(1)):
        yield max(number for number, _ in group), treatment


def _treatment(entries: list[dict[str, Any]], default: list[bytes]) -> list[bytes]:
    """The treatment of a call: one rule after the other, up to the first without conditions."""
    steps: list[bytes] = []
    for entry in entries:
        result = _step(_RETURN, _result(entry["action"], entry.get("errnoRet")))
        if not entry.get("args"):
            return [*steps, result]
        steps += _when(entry["args"], result)
    return steps + default


def _when(arguments: list[dict[str, Any]], result: bytes) -> list[bytes]:
    """Return the result if all conditions hold, otherwise continue after these steps."""
    steps = [result]
    for argument in reversed(arguments):
        mask, value = _condition(argument)
        low_at = _ARGUMENTS_AT + 8 * argument["index"]
        for offset, shift in ((4, 32), (0, 0)):
            steps = [
                _step(_LOAD, low_at + offset),
                _step(_AND, mask >> shift & _LOW_32),
                _step(_JUMP_EQUAL, value >> shift & _LOW_32, if_false=len(steps)),
                *steps,
            ]
    return steps


def _condition(argument: dict[str, Any]) -> tuple[int, int]:
    """Return a mask for an argument, and its expected value."""
    match argument["op"]:
        case "SCMP_CMP_EQ":
            return (1 << 64) - 1, argument["value"]
        case "SCMP_CMP_MASKED_EQ":
            return argument["value"], argument.get("valueTwo", 0)
        case operator:
            raise ProfileError(f"comparison {operator} is not known")


def _result(action: str, errno_value: int | None) -> int:
    match action:
        case "SCMP_ACT_ALLOW":
            return _ALLOW
        case "SCMP_ACT_ERRNO":
            return _ERRNO | (errno.EPERM if errno_value is None else errno_value)
        case _:
            raise ProfileError(f"action {action} is not known")
