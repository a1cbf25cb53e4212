"""System calls that Python's standard library does not offer."""

from __future__ import annotations

import os
from _ctypes import call_function, dlopen, dlsym

from executor_service.supervisor.light import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2
_FILTER_STEP_BYTES = 8

# The package ctypes takes a quarter of a box's start.
_PRCTL = dlsym(dlopen(None, os.RTLD_NOW), "prctl")  # pyright: ignore[reportArgumentType]


def _prctl(option: int, value: int, address: object = 0) -> None:
    if call_function(_PRCTL, (option, value, address, 0, 0)) != 0:
        raise OSError(f"the kernel refuses prctl {option}")


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
    import ctypes

    class Filter(ctypes.Structure):
        _fields_ = (("step_count", ctypes.c_ushort), ("steps", ctypes.c_char_p))

    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    filter_ = Filter(len(program) // _FILTER_STEP_BYTES, program)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(filter_))
