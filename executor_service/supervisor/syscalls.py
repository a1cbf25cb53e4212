"""System calls that Python's standard library does not offer."""

from __future__ import annotations

import ctypes
import os

from executor_service.supervisor.light import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2
_FILTER_STEP_BYTES = 8

_libc = ctypes.CDLL(None, use_errno=True)


class _Filter(ctypes.Structure):
    _fields_ = (("step_count", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def _prctl(option: int, value: int, address: int = 0) -> None:
    unsigned = ctypes.c_ulong
    if _libc.prctl(option, unsigned(value), unsigned(address), unsigned(0), unsigned(0)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def hide_from_same_user() -> None:
    """Keep processes of the same user out of this one's memory, environment and descriptors."""
    _prctl(_PR_SET_DUMPABLE, 0)


def die_with_parent(parent: int) -> bool:
    """Be killed when the parent process ends; False if it has already ended."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has ended."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def filter_system_calls(program: bytes) -> None:
    """Restrict this process and its children to the system calls that a BPF program allows."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    filter_ = _Filter(len(program) // _FILTER_STEP_BYTES, program)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(filter_))
