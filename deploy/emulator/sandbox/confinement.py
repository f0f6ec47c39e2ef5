"""What programs on the emulated board may ask of the kernel: few capabilities, and no call that leads out of a sandbox.

A capability or a call that no program of a board needs is one more way to a fault of the kernel, and namespaces
share the kernel with this machine.
"""

from __future__ import annotations

import errno
import socket

import pyseccomp as seccomp

from deploy.emulator.sandbox import syscalls as sys

CAPABILITIES = {
    "CAP_CHOWN": 0,
    "CAP_DAC_OVERRIDE": 1,
    "CAP_FOWNER": 3,
    "CAP_FSETID": 4,
    "CAP_KILL": 5,
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
    "CAP_NET_BIND_SERVICE": 10,
}
"""Capabilities that programs keep, as capability.h numbers them."""
REFUSED = (
    *("mount", "umount2", "pivot_root", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick"),
    *("mount_setattr", "swapon", "swapoff", "quotactl", "chroot"),
    *("unshare", "setns", "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd"),
    *("keyctl", "add_key", "request_key"),
    *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register"),
    *("open_by_handle_at", "name_to_handle_at", "lookup_dcookie", "fanotify_init"),
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "acct", "syslog"),
    *("settimeofday", "clock_settime", "clock_settime64", "adjtimex", "clock_adjtime", "clock_adjtime64", "stime"),
    *("sethostname", "setdomainname", "iopl", "ioperm", "vhangup", "nfsservctl"),
)
"""System calls that are answered with EPERM."""
_NEW_NAMESPACES = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)


def confine() -> None:
    """Confines this thread and all that it will start. Raises OSError when the kernel or libseccomp refuses."""
    sys.keep_capabilities(CAPABILITIES.values())
    _filter().load()


def _filter() -> seccomp.SyscallFilter:
    refused = seccomp.ERRNO(errno.EPERM)
    calls = seccomp.SyscallFilter(seccomp.ALLOW)
    for name in REFUSED:
        if seccomp.resolve_syscall(seccomp.system_arch(), name) >= 0:
            calls.add_rule(refused, name)
    for flag in _NEW_NAMESPACES:
        calls.add_rule(refused, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, flag, flag))
    # Its flags lie in memory, where no filter can look; libraries then fall back to clone.
    calls.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
    for request in (_TIOCSTI, _TIOCLINUX):
        calls.add_rule(refused, "ioctl", seccomp.Arg(1, seccomp.MASKED_EQ, 0xFFFFFFFF, request))
    # Families in between and beyond, such as packets, vsock and the kernel's own ciphers.
    calls.add_rule(refused, "socket", seccomp.Arg(0, seccomp.GT, max(_FAMILIES)))
    for family in range(max(_FAMILIES)):
        if family not in _FAMILIES:
            calls.add_rule(refused, "socket", seccomp.Arg(0, seccomp.EQ, family))
    return calls
