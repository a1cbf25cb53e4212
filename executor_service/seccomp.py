"""Compiles the sandboxes' system call profile to the kernel's filter language.

The profile (seccomp.json) is in the format that container engines read, so that every backend
holds its boxes to the same one. Here it becomes classic BPF, for programs that load a filter
themselves. A call made in another architecture's convention kills the process: the numbers of
such calls mean something else.
"""

import errno
import json
import platform
import struct
from importlib import resources
from itertools import groupby
from typing import Any, cast

from msgspec import Struct

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


class _Condition(Struct, frozen=True):
    """One argument, after masking, equals a value."""

    index: int
    mask: int
    value: int


class _Rule(Struct, frozen=True):
    """What happens to a call when all conditions hold."""

    conditions: tuple[_Condition, ...]
    result: int


class _Instruction(Struct, frozen=True):
    """One step of a filter; jumps are relative, in instructions."""

    code: int
    operand: int
    if_true: int = 0
    if_false: int = 0

    def to_bytes(self) -> bytes:
        return _INSTRUCTION.pack(self.code, self.if_true, self.if_false, self.operand)


def sandbox_filter(machine: str = "") -> bytes:
    """The sandboxes' profile, compiled for this machine or another (x86_64, aarch64)."""
    files = resources.files("executor_service")
    profile = json.loads((files / "seccomp.json").read_text("utf-8"))
    numbers = json.loads((files / "syscall_numbers.json").read_text("utf-8"))
    machine = machine or platform.machine()
    if machine not in numbers:
        raise ProfileError(f"no system call numbers are known for {machine}")
    return compile_filter(profile, machine, numbers[machine])


def compile_filter(profile: dict[str, Any], machine: str, numbers: dict[str, int]) -> bytes:
    """An array of struct sock_filter, as seccomp(2) takes it.

    Calls that the machine does not have are left out. Of several rules for a call the first one
    that applies counts; with none the profile's default does.
    """
    default = _result(profile["defaultAction"], profile.get("defaultErrnoRet"))
    rules: dict[int, list[_Rule]] = {}
    for entry in profile["syscalls"]:
        rule = _rule(entry)
        for name in entry["names"]:
            if name in numbers:
                rules.setdefault(numbers[name], []).append(rule)
    program = [
        _Instruction(_LOAD, _ARCHITECTURE_AT),
        _Instruction(_JUMP_EQUAL, _AUDIT_ARCHITECTURES[machine], if_true=1),
        _Instruction(_RETURN, _KILL_PROCESS),
        _Instruction(_LOAD, _NUMBER_AT),
    ]
    for last, (alternatives, result) in _ranges(rules, default):
        body = [step for rule in alternatives for step in _rule_steps(rule)]
        body.append(_Instruction(_RETURN, result))
        if last < _HIGHEST_NUMBER:
            program.append(_Instruction(_JUMP_GREATER, last, if_true=len(body)))
        program += body
    return b"".join(instruction.to_bytes() for instruction in program)


_Treatment = tuple[tuple[_Rule, ...], int]
"""Rules with conditions, tried in order, and what happens when none applies."""


def _ranges(rules: dict[int, list[_Rule]], default: int) -> list[tuple[int, _Treatment]]:
    """The space of call numbers as (last number, treatment), ascending and without a hole."""
    treatments: list[tuple[int, _Treatment]] = []
    next_number = 0
    for number in sorted(rules):
        if number > next_number:
            treatments.append((number - 1, ((), default)))
        treatments.append((number, _treatment(rules[number], default)))
        next_number = number + 1
    assert next_number <= _X32_BIT
    treatments.append((_HIGHEST_NUMBER, ((), default)))
    merged = groupby(treatments, key=lambda pair: pair[1])
    return [(max(last for last, _ in group), treatment) for treatment, group in merged]


def _treatment(rules: list[_Rule], default: int) -> _Treatment:
    """A rule without conditions makes the ones after it pointless."""
    conditional: list[_Rule] = []
    for rule in rules:
        if not rule.conditions:
            return tuple(conditional), rule.result
        conditional.append(rule)
    return tuple(conditional), default


def _rule_steps(rule: _Rule) -> list[_Instruction]:
    """Return the rule's result if all conditions hold, else go on after these steps."""
    steps = [_Instruction(_RETURN, rule.result)]
    for condition in reversed(rule.conditions):
        low_at = _ARGUMENTS_AT + 8 * condition.index
        for offset, shift in ((4, 32), (0, 0)):
            check = [
                _Instruction(_LOAD, low_at + offset),
                _Instruction(_AND, condition.mask >> shift & _LOW_32),
            ]
            value = condition.value >> shift & _LOW_32
            check.append(_Instruction(_JUMP_EQUAL, value, if_false=len(steps)))
            steps = check + steps
    return steps


def _rule(entry: dict[str, Any]) -> _Rule:
    if entry.get("includes") or entry.get("excludes"):
        raise ProfileError("rules that depend on the system are not known")
    conditions = tuple(_condition(argument) for argument in entry.get("args") or ())
    return _Rule(conditions, _result(entry["action"], entry.get("errnoRet")))


def _condition(argument: dict[str, Any]) -> _Condition:
    index, value = cast("int", argument["index"]), cast("int", argument["value"])
    match argument["op"]:
        case "SCMP_CMP_EQ":
            return _Condition(index, (1 << 64) - 1, value)
        case "SCMP_CMP_MASKED_EQ":
            return _Condition(index, value, cast("int", argument.get("valueTwo", 0)))
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
