"""Debian systems in the user's cache folder: the root of a suite, and its kernel."""
import lzma
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent / "scripts" / "root.sh"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "keel" / "kernels"
# From the oldest C library to the newest. The test programs are compiled in the first.
SUITES = ["bullseye", "bookworm", "trixie", "testing"]
PACKAGES = ["python3", "perl", "git"]
COMPILER = ["gcc", "libc6-dev"]
# What a virtual machine needs to mount a folder of this machine; the rest comes as dependencies.
MODULES = ["virtio_pci", "9pnet_virtio", "9p", "overlay"]


class Missing(Exception):
    """A system cannot be made; the text says why and what to do."""


def root(suite):
    """The folder of a suite's root, which scripts/root.sh makes once."""
    packages = PACKAGES + (COMPILER if suite == SUITES[0] else [])
    done = subprocess.run([ROOT, "make", suite, *packages], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Missing(f"scripts/root.sh cannot make the root of {suite}")
    return Path(done.stdout.strip())


def enter(place, tools, command, stdout=subprocess.PIPE, seconds=None):
    """Runs a command in a root with `tools` as /keel; what it writes elsewhere is lost."""
    with tempfile.TemporaryDirectory() as mounts:
        words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                 "sh", HERE.parent / "support" / "enter.sh", place, tools, *command]
        return subprocess.run(words, env={**os.environ, "KEEL_PLACE": mounts},
                              stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=seconds)


def unpacked(path):
    data = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(data)
    if path.suffix == ".zst":
        done = subprocess.run(["zstd", "-dc"], input=data, stdout=subprocess.PIPE, check=True)
        return done.stdout
    return data


def load_order(modules):
    """MODULES and what they need, each with its contents, in the order in which they are loaded."""
    found = {path.name.partition(".")[0].replace("-", "_"): path for path in modules}
    order = []

    def add(name):
        path = found.pop(name.replace("-", "_"), None)
        if path is None:
            return  # part of the kernel itself, or already there
        data = unpacked(path)
        needed = re.search(rb"\0depends=([^\0]+)\0", b"\0" + data)
        for other in needed.group(1).decode().split(",") if needed else []:
            add(other)
        order.append((name, data))

    for name in MODULES:
        add(name)
    return order


def kernel(suite):
    """The folder of a suite's newest kernel: `vmlinuz` and the modules, numbered; fetched once."""
    place = CACHE / suite
    if place.is_dir():
        return place
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        fetch = ("cd /keel && apt-get update -qq && depends() { apt-cache depends $1 | sed -n "
                 "\"s/ *Depends: \\(linux-\\($2\\)-[0-9].*\\)/\\1/p\"; } && "
                 "image=$(depends linux-image-amd64 image) && "
                 "apt-get download $image $(depends $image 'binary\\|modules')")
        done = enter(root(suite), scratch, ["bash", "-c", fetch])
        packages = list(Path(scratch).glob("linux-*.deb"))
        if not packages:
            raise Missing(f"cannot fetch the kernel of {suite}: {done.stdout.strip()[-200:]}")
        files = Path(scratch) / "files"
        for package in packages:
            subprocess.run(["dpkg-deb", "-x", package, files], check=True)
        kept = Path(scratch) / "kept"
        kept.mkdir()
        shutil.copy(next(files.rglob("vmlinuz*")), kept / "vmlinuz")
        for number, (name, data) in enumerate(load_order(files.glob("**/kernel/**/*.ko*"))):
            (kept / f"{number:02}-{name}.ko").write_bytes(data)
        kept.rename(place)
    return place
