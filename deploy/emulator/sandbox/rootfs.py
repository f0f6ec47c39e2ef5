"""What an emulated board's root holds besides its disk: configuration, /proc and /sys texts, board commands."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

from deploy.board.profiles import Emulation
from deploy.board.protocol import Profile
from deploy.emulator.sandbox.tools import EXTRA_APPLETS, Tools, copy_marked
from toolchains.arch import ARCHES, Arch

FOLDERS = (
    *("system/bin", "system/etc", "system/lib", "system/lib64", "system/emulator/proc", "vendor/bin", "usr/local"),
    *("config", "mnt", "storage", "dev", "proc", "sys", "tmp", "data"),
)
LINKS = {"bin": "system/bin", "etc": "system/etc", "lib": "system/lib", "usr/bin": "../system/bin"}
DISK_FOLDERS = ("local/tmp", "log/hilog", "log/faultlog/faultlogger", "log/faultlog/temp")
BOARD_LOG = "/data/log/hilog/hilog.log"
PROGRAM_FAULTS_FILE = "/data/log/faultlog/.program-faults"
"""While it is there, programs have the faults that it names: assignments of a shell."""
PARAMETERS_SET = "/data/.emulator-param"
"""Where the board's ``param`` keeps what was set."""
INIT, DAEMON_SHOWN = "system/emulator/init", "system/emulator/hdcd"
"""What the board's programs see as its first process and as its daemon: both only wait."""
BOOT = "sys/kernel/random/boot_id"
"""In /proc."""
SCRIPTS = Path(__file__).parent / "scripts"
PAGE_KIB = 4


@dataclass(frozen=True, kw_only=True)
class RootFiles:
    """Texts by path on the board; `proc` are shown over a fresh /proc."""

    plain: dict[str, str]
    proc: dict[str, str]
    executable: dict[str, str]
    links: dict[str, str]


def describe_root(
    profile: Profile,
    shown: Emulation,
    tools: Tools,
    hidden: tuple[str, ...] = (),
    hollow: tuple[str, ...] = (),
    swapping: bool = False,
) -> RootFiles:
    """All files of the board's root, from its profile.

    `hidden` names commands that it shall lack, `hollow` those that it shall have as links only; with `swapping` the
    counts of its pages are its own, and not this computer's.
    """
    gone = {*hidden, *shown.missing_tools}
    scripts = {f"system/bin/{path.stem}": path.read_text() for path in SCRIPTS.glob("*.sh") if path.stem not in gone}
    scripts |= {f"system/bin/{name}": _HOLLOW.format(name=name) for name in hollow}
    emulators = {f"system/emulator/run-{arch}": _run_script(arch, shown) for arch in tools.emulators}
    emulators["system/emulator/run-foreign"] = _FOREIGN.replace("CASES", _cases(tools))
    links = {f"system/bin/{name}": "toybox" for name in tools.applets if name not in gone}
    if tools.busybox is not None:
        links |= {f"system/bin/{n}": "../emulator/busybox" for n in EXTRA_APPLETS if n not in gone | {*tools.applets}}
    links |= {f"sys/devices/system/cpu/cpu{index}/cpufreq": "../cpufreq/policy0" for index in range(profile.cores)}
    return RootFiles(
        plain=_configuration(shown) | _sys_files(profile, shown),
        proc=_proc_files(profile, shown) | ({"vmstat": paging_text(0)} if swapping else {}),
        executable=scripts | emulators,
        links={**LINKS, **{path: to for path, to in links.items() if path not in scripts}},
    )


_FOREIGN = """#!/system/emulator/sh
# proot calls this in place of every program of another CPU: [-E NAME=VALUE]... -0 ARGV0 PROGRAM ARGUMENTS
while [ "$1" != -0 ]; do shift; done
name=$2 program=$3; shift 3
# What proot adds for emulators of its own kind would be seen by the board's programs.
own=
IFS=:; for folder in $LD_LIBRARY_PATH; do
  case $folder in /host-rootfs*) ;; *) own=$own${own:+:}$folder ;; esac
done; unset IFS
if [ -n "$own" ]; then LD_LIBRARY_PATH=$own; else unset LD_LIBRARY_PATH; fi
IFS= read -r -N 5 start <"$program"
case $start in
CASES
esac
echo "$name: not executable" >&2; exit 126
"""
_CASE = """*$'\\00{bits}')
  # The first or the second segment of a dynamic program names its loader.
  if [ ! -e {loader} ]; then
    for at in {offsets}; do
      if [ "$(od -An -tx1 -j $at -N 1 "$program")" = ' 03' ]; then
        echo "/bin/sh: $name: No such file or directory" >&2; exit 126
      fi
    done
  fi
  exec /system/emulator/run-{arch} "$program" "$name" "$@" ;;"""


def _cases(tools: Tools) -> str:
    cases = []
    for name in tools.emulators:
        arch = ARCHES[name]
        bits, offsets = (2, "64 120") if arch.elf_bits == 64 else (1, "52 84")
        cases.append(_CASE.format(bits=bits, loader=arch.loader, offsets=offsets, arch=name))
    return "\n".join(cases)


_HOLLOW = "#!/bin/sh\necho 'toybox: Unknown command {name}' >&2; exit 127\n"


def lay_out(root: Path, files: RootFiles, tools: Tools, libraries: dict[str, Path]) -> None:
    """Writes the board's root into an empty folder; `libraries` are folders of board libraries by arch."""
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for path, target in files.links.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).symlink_to(target)
    for path, text in (files.plain | files.executable).items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if path in files.executable else 0o644)
    for name, text in files.proc.items():
        place = root / "system/emulator/proc" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    for name, program in _programs(tools).items():
        copy_marked(program, root / name)
    for path, library in tools.libraries.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)
    for arch, library_folder in libraries.items():
        _lay_out_libraries(root, ARCHES[arch], library_folder)


def _programs(tools: Tools) -> dict[str, Path]:
    programs = dict.fromkeys(("system/bin/sh", "system/emulator/sh", DAEMON_SHOWN), tools.shell)
    programs |= dict.fromkeys(("system/bin/toybox", INIT), tools.toybox)
    if tools.busybox is not None:
        programs["system/emulator/busybox"] = tools.busybox
    return programs | {f"system/emulator/qemu-{arch}": path for arch, path in tools.emulators.items()}


def _lay_out_libraries(root: Path, arch: Arch, folder: Path) -> None:
    place = "system/lib64" if arch.elf_bits == 64 else "system/lib"
    for library in sorted(folder.iterdir()):
        shutil.copy(library, root / place / library.name)
    loader = root / arch.loader.lstrip("/")
    if not loader.exists() and (folder / "libc.so").exists():
        # In OpenHarmony the loader is the C library itself.
        loader.symlink_to(f"/{place}/libc.so")
        # OpenHarmony's loader knows its folders by a file of namespaces; plain musl reads them here.
        (root / "system/etc" / f"{loader.name.removesuffix('.so.1')}.path").write_text(f"/{place}\n")


def _run_script(arch: str, shown: Emulation) -> str:
    """Called by the kernel as: script, full path of the program, its argv[0], its arguments."""
    cpu = shown.qemu_cpu.get(arch, "max")
    start = f'/system/emulator/qemu-{arch} -cpu {cpu} -r {shown.kernel} -0 "$name" "$program" "$@"'
    return _RUN.format(start=start, faults=PROGRAM_FAULTS_FILE)


_RUN = """#!/system/emulator/sh
program=$1 name=$2; shift 2
[ -e {faults} ] || exec {start}
# What runs programs for ohforge is no program whose faults are of interest.
case $program in */ohforge-agent-*) exec {start} ;; esac
_crash_log= _flood= _reads_stdin= _orphan=
. {faults}
[ -z "$_reads_stdin" ] || cat >/dev/null
[ -z "$_orphan" ] || {{ trap '' TERM; sleep 600 & trap - TERM; }}
[ -z "$_flood" ] || {{ printf '\\377\\376'; head -c $((_flood - 2)) /dev/zero; }}
[ -n "$_crash_log" ] || exec {start}
{start} &
wait $!; status=$?
if [ $status -gt 128 ]; then
  cat >/data/log/faultlog/temp/cppcrash-$!-$(date +%s)000 <<END
Generated by the emulated board: what crashed, without registers and stack
================================================================
Module name:$name
Pid:$!
Uid:0
Reason:Signal:SIG$(kill -l $((status - 128)))
END
  kill -$((status - 128)) $$
fi
exit $status
"""


def _configuration(shown: Emulation) -> dict[str, str]:
    parameters = "".join(f"{key} = {value}\n" for key, value in sorted(shown.parameters.items()))
    uname = [shown.host_name, shown.kernel, shown.kernel_build, shown.machine]
    return {
        "system/etc/passwd": "root:x:0:0:::/bin/false\nshell:x:2000:2000:::/bin/false\n",
        "system/etc/group": "root:x:0:\nshell:x:2000:\n",
        "system/etc/hosts": "127.0.0.1 localhost\n",
        "system/etc/param.txt": parameters,
        "system/etc/uname.txt": "\n".join(uname) + "\n",
    }


def _proc_files(profile: Profile, shown: Emulation) -> dict[str, str]:
    memory = shown.memory_kib
    return {
        "cpuinfo": _cpu_info(profile, shown),
        "meminfo": memory_text(memory["total"], memory["available"], memory["swap"]),
        "version": f"Linux version {shown.kernel} (emulated board, programs run under qemu-user) {shown.kernel_build}\n",
        "cmdline": shown.boot_line + "\n",
        BOOT: boot_text(),
    }


def boot_text() -> str:
    """/proc/sys/kernel/random/boot_id, another one after each start."""
    return f"{uuid.uuid4()}\n"


def memory_text(total: int, available: int, swap: int, swap_free: int | None = None) -> str:
    """/proc/meminfo; sizes in KiB. Without `swap_free` all swap is."""
    values = {
        "MemTotal": total,
        "MemFree": available * 3 // 4,
        "MemAvailable": available,
        "Buffers": 8192,
        "Cached": available // 4,
        "SwapCached": 0,
        "SwapTotal": swap,
        "SwapFree": swap if swap_free is None else swap_free,
    }
    return "".join(f"{name + ':':<16}{value:>8} kB\n" for name, value in values.items())


def paging_text(moved: int) -> str:
    """/proc/vmstat, of which `moved` pages went to swap; always of the same length, so that it is never read in part."""
    return "".join(f"{name} {count:010}\n" for name, count in (("pgmajfault", 0), ("pswpin", 0), ("pswpout", moved)))


def _cpu_info(profile: Profile, shown: Emulation) -> str:
    info = shown.cpu_info
    lines = []
    for index in range(profile.cores):
        lines += [
            f"processor\t: {index}",
            f"BogoMIPS\t: {info['bogomips']:.2f}",
            f"Features\t: {' '.join(info['features'])}",
            f"CPU implementer\t: {info['implementer']}",
            f"CPU architecture: {info['architecture']}",
            f"CPU variant\t: {info['variant']}",
            f"CPU part\t: {info['part']}",
            f"CPU revision\t: {info['revision']}",
            "",
        ]
    return "\n".join([*lines, f"Hardware\t: {info['hardware']}", ""])


def _sys_files(profile: Profile, shown: Emulation) -> dict[str, str]:
    cpu = "sys/devices/system/cpu"
    files = {f"{cpu}/{name}": f"0-{profile.cores - 1}\n" for name in ("online", "possible", "present")}
    frequencies = shown.frequencies_khz
    values = {
        "affected_cpus": " ".join(str(index) for index in range(profile.cores)),
        "cpuinfo_cur_freq": frequencies[-1],
        "cpuinfo_max_freq": frequencies[-1],
        "cpuinfo_min_freq": frequencies[0],
        "scaling_available_frequencies": " ".join(str(value) for value in frequencies),
        "scaling_available_governors": " ".join(shown.governors),
        "scaling_cur_freq": frequencies[-1],
        "scaling_driver": "cpufreq-dt",
        "scaling_governor": shown.governor,
        "scaling_max_freq": frequencies[-1],
        "scaling_min_freq": frequencies[0],
    }
    files |= {f"{cpu}/cpufreq/policy0/{name}": f"{value}\n" for name, value in values.items()}
    for index, (kind, temperature) in enumerate(shown.thermal_zones.items()):
        zone = f"sys/class/thermal/thermal_zone{index}"
        files |= {f"{zone}/type": f"{kind}\n", f"{zone}/temp": f"{temperature}\n"}
    return files
