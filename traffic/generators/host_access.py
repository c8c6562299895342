"""What the processes of emulated hosts may do with the machine: words before their commands.

They are root's processes in namespaces of their own. The emulator chooses once what they may do,
and leaves its choice in the environment, where its generators and the shell find it.
"""

from __future__ import annotations

import os

from dcgym.native import program_path

__all__ = ["HOST_ACCESS", "KEPT_CAPABILITIES", "choose_access", "chosen_access", "host_words"]

HOST_ACCESS = ("limited", "read-only", "full")
"""Without the capabilities that reach beyond the network; moreover with files to read only, but for
the working folder and a /tmp of their own; everything that root may do."""

HOST_ACCESS_VARIABLE = "DCGYM_HOST_ACCESS"

KEPT_CAPABILITIES = (
    *("chown", "dac_override", "fowner", "fsetid", "setfcap"),
    *("setgid", "setuid", "setpcap", "sys_chroot", "kill", "audit_write"),
    *("net_admin", "net_bind_service", "net_broadcast", "net_raw"),
    *("ipc_lock", "ipc_owner", "sys_nice", "sys_resource"),
)
"""Capabilities (capabilities(7)) of a host's processes, unless they have full access."""

# "$1" is the program that comes next. Its folder may be one of the /tmp that becomes empty.
_READ_ONLY = """
programs=${1%/*}
exec 9< "$programs"
mount -t tmpfs -o mode=1777 tmpfs /tmp
mkdir -p "$programs" && mount -c --bind /proc/self/fd/9 "$programs"
exec 9<&-
mkdir -p "$PWD" && mount -c --bind . "$PWD"
while read -r _ _ _ _ place _; do
    case $place in
        /proc*|/sys*|/dev*|/run*|/tmp|"$PWD") ;;
        *) mount -o remount,bind,ro "$place" ;;
    esac
done < /proc/self/mountinfo
cd "$PWD"
"""
_MOUNTS = {
    "limited": "mount -t sysfs -o ro sysfs /sys",
    "read-only": f"mount -t sysfs -o ro sysfs /sys\n{_READ_ONLY}",
    "full": "mount -t sysfs sysfs /sys",
}


def choose_access(access: str) -> None:
    """Choose for this process and for those that it starts.

    Args:
        access: One of `HOST_ACCESS`.
    """
    os.environ[HOST_ACCESS_VARIABLE] = access


def chosen_access() -> str:
    """Return what was chosen, or the first of `HOST_ACCESS`."""
    return os.environ.get(HOST_ACCESS_VARIABLE, HOST_ACCESS[0])


def host_words(*, dies_with_parent: bool = False, is_ours: bool = False) -> list[str]:
    """Return the words that, before a command in a host's network, limit what it may do.

    Args:
        dies_with_parent: Whether it ends when its parent does.
        is_ours: Whether it is a program of ours, which needs neither a /sys that shows the host's
            own interfaces, to read only, nor protection of files: these cost milliseconds, and what
            the words read would count as read by the program.

    Raises:
        FeatureNotSupported: The filter of system calls is not built.
    """
    access = chosen_access()
    words = []
    if not is_ours:
        script = f'set -e\n{_MOUNTS[access]}\nexec "$@"'
        words += ["unshare", "--mount", "sh", "-c", script, "sh"]
    kept = [f"+{name}" for name in KEPT_CAPABILITIES]
    # With full access too: a program's counters then begin with the same bytes read.
    capabilities = "+all" if access == "full" else ",".join(["-all", *kept])
    limits = ["--pdeathsig", "KILL"] if dies_with_parent else []
    # Before the capability goes that loading the filter takes.
    words += [] if access == "full" else [str(program_path("dcgym-confine"))]
    return [*words, "setpriv", *limits, f"--bounding-set={capabilities}", "--"]
