"""A seccomp filter that refuses system calls which neither compilers nor kernels need (Linux,
x86-64 and AArch64).

The following are refused with EPERM: the network, the memory of other processes, all signals,
leaving the process group, namespaces and mounts, setting clocks, memory that the process's limits
do not cover or that remains after its end, and the parts of the Linux kernel that are attacked most
often. `clone3` returns ENOSYS, because a filter cannot read its flags. C libraries then use
`clone`, whose namespace flags are refused.
"""

from __future__ import annotations

import ctypes
import platform
import struct
from collections.abc import Collection

_DENIED: dict[str, tuple[int, int]] = {
    # name: number on x86-64, on AArch64
    "socket": (41, 198), "connect": (42, 203), "accept": (43, 202), "sendto": (44, 206),
    "bind": (49, 200), "listen": (50, 201), "socketpair": (53, 199),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kcmp": (312, 272), "process_madvise": (440, 440), "move_pages": (279, 239),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424),
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "setsid": (112, 157), "setpgid": (109, 154),
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "settimeofday": (164, 170), "adjtimex": (159, 171), "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "userfaultfd": (323, 282),
    "bpf": (321, 280), "perf_event_open": (298, 241), "fanotify_init": (300, 262),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "personality": (135, 92), "acct": (163, 89), "quotactl": (179, 60), "swapon": (167, 224),
    "swapoff": (168, 225), "reboot": (169, 142), "sethostname": (170, 161),
    "setdomainname": (171, 162), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
}  # fmt: skip
_CLONE, _CLONE3 = (56, 220), (435, 435)
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32 = 0x4000_0000
_NAMESPACES = 0x7E02_0080  # CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET} and NEWTIME

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
_EPERM, _ENOSYS = 1, 38
_INSTRUCTION_BYTES = 8
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def denied_numbers(machine: str) -> dict[str, int]:
    """The refused system calls by name, on "x86_64" or "aarch64"."""
    column, _ = _ARCHITECTURES[machine]
    return {name: numbers[column] for name, numbers in _DENIED.items()}


def create_filter(allowed: Collection[str] = ()) -> bytes | None:
    """The filter as BPF instructions; None on an unknown architecture.

    `allowed` names system calls that are not refused.
    """
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        return None
    column, architecture = _ARCHITECTURES[machine]
    code = [
        _instruction(_LOAD, _ARCHITECTURE_AT),
        _instruction(_EQUAL, architecture, 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _NUMBER_AT),
        _instruction(_AT_LEAST, _X32, 0, 1),
        _instruction(_RETURN, _KILL),
    ]
    for name, number in denied_numbers(machine).items():
        if name in allowed:
            continue
        code += [_instruction(_EQUAL, number, 0, 1), _instruction(_RETURN, _ERRNO | _EPERM)]
    code += [
        _instruction(_EQUAL, _CLONE3[column], 0, 1),
        _instruction(_RETURN, _ERRNO | _ENOSYS),
        _instruction(_EQUAL, _CLONE[column], 0, 3),
        _instruction(_LOAD, _FIRST_ARGUMENT_AT),
        _instruction(_ANY_BIT, _NAMESPACES, 0, 1),
        _instruction(_RETURN, _ERRNO | _EPERM),
        _instruction(_RETURN, _ALLOW),
    ]
    return b"".join(code)


def step(code: bytes) -> str:
    """The launcher's step that applies a filter to a command."""
    return f"seccomp={len(code) // _INSTRUCTION_BYTES}:{code.hex()}"


def forbid_new_privileges() -> None:
    """Prevent later programs from gaining rights through set-user-id files, which filter and
    Landlock require.
    """
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")


def install(code: bytes) -> None:
    """Apply a filter permanently to this process and everything that it starts. Raises
    `OSError`.
    """
    filter_program = _Program(len(code) // _INSTRUCTION_BYTES, code)
    if _libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(filter_program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_SECCOMP)")


def _instruction(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, if_true, if_false, value)
