"""A virtual machine with a kernel of Debian, whose root is a folder of this machine."""
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
MEMORY = "3G"
BUSYBOX = Path("/bin/busybox")


def missing():
    """What is missing for virtual machines, or None."""
    if not shutil.which("qemu-system-x86_64"):
        return "qemu-system-x86_64 is missing: apt-get install qemu-system-x86"
    if not BUSYBOX.exists() or b"NEEDED" in subprocess.run(
            ["objdump", "-p", BUSYBOX], capture_output=True).stdout:
        return "a static busybox is missing: apt-get install busybox-static"
    return None


def initial_files(kernel, out):
    """Writes the first file system: busybox, init.sh and the modules of the kernel."""
    with tempfile.TemporaryDirectory() as scratch:
        top = Path(scratch)
        (top / "bin").mkdir()
        (top / "modules").mkdir()
        (top / "dev").mkdir()
        shutil.copy(BUSYBOX, top / "bin" / "busybox")
        shutil.copy(HERE / "init.sh", top / "init")
        (top / "init").chmod(0o755)
        for module in kernel.glob("*.ko"):
            shutil.copy(module, top / "modules")
        names = "\n".join(str(path.relative_to(top)) for path in sorted(top.rglob("*")))
        with out.open("wb") as file:
            subprocess.run([BUSYBOX, "cpio", "-o", "-H", "newc"], cwd=top, input=names.encode(),
                           stdout=file, stderr=subprocess.DEVNULL, check=True)


@functools.cache
def accelerator(kernel):
    """KVM if a kernel reaches the end of its start with it, else emulation (ten times as slow)."""
    emulation = ["-accel", "tcg", "-cpu", "max"]
    hardware = ["-accel", "kvm", "-cpu", "host"]
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return emulation
    command = ["qemu-system-x86_64", "-m", "512M", "-nodefaults", "-no-reboot", "-display", "none",
               "-serial", "stdio", "-kernel", str(kernel / "vmlinuz"), "-append",
               "console=ttyS0 panic=-1"]
    try:
        done = subprocess.run([*command, *hardware], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=30)
        return hardware if b"Kernel panic" in done.stdout else emulation  # it has no root
    except subprocess.TimeoutExpired:
        return emulation


def run(kernel, root, tools, settings, log, seconds):
    """Boots and runs enter.sh inside; `log` gets the console's text. `settings`: see init.sh."""
    with tempfile.TemporaryDirectory() as scratch:
        first = Path(scratch) / "initrd"
        initial_files(kernel, first)
        # A kernel that is emulated on a busy machine finds that its timer does not work.
        words = ["console=ttyS0", "panic=-1", "quiet", "loglevel=3", "no_timer_check", *settings]
        command = ["qemu-system-x86_64", "-m", MEMORY, "-smp", "2", "-nodefaults", "-no-reboot",
                   "-display", "none", "-serial", "stdio", "-kernel", str(kernel / "vmlinuz"),
                   "-initrd", str(first), "-append", " ".join(words)]
        command += accelerator(kernel)
        for name, folder in (("root", root), ("tools", tools)):
            command += ["-virtfs", f"local,path={folder},mount_tag={name},security_model=none,"
                        "readonly=on,multidevs=remap"]
        with log.open("w") as out:
            machine = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=subprocess.STDOUT)
            try:
                machine.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                machine.kill()
                machine.wait()
                out.write(f"machine: stopped after {seconds} seconds\n")
