#!/usr/bin/env python3
"""wheel.py [FOLDER]: packs FOLDER/prefix and packaging/python as a wheel in FOLDER.

The wheel has the programs and the shared libraries, and no static library: who links with Keel
takes another package. The same prefix gives the same bytes.
"""
import base64
import hashlib
import os
import stat
import subprocess
import sys
import time
import zipfile
from pathlib import Path

try:
    import tomllib
except ImportError:  # before Python 3.11
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / "packaging/python"
# What the programs and the module need, below the prefix.
CONTENTS = ["bin/keel", "lib/keel/**/*", "lib/libkeel*.so", "share/doc/keel/*"]
API = "libkeel_api", "libkeel_record.so"  # for linking only


def settings():
    project = tomllib.loads((PYTHON / "pyproject.toml").read_text())["project"]
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    return project, os.environ.get("KEEL_VERSION", workspace["version"])


def metadata(project, version):
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {version}",
             f"Summary: {project['description']}", f"License: {project['license']}",
             f"Requires-Python: {project['requires-python']}",
             "Keywords: " + ",".join(project["keywords"])]
    lines += [f"Classifier: {one}" for one in project["classifiers"]]
    for extra, needed in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {one}; extra == "{extra}"' for one in needed]
    lines += ["Description-Content-Type: text/markdown", "", (PYTHON / "README.md").read_text()]
    return "\n".join(lines)


def files(prefix):
    """Each file of the wheel: its name in it, its contents, and whether it is a program."""
    for path in sorted((PYTHON / "keel").iterdir()):
        if path.suffix in (".py", ".typed") or path.name == "py.typed":
            yield f"keel/{path.name}", path.read_bytes(), False
    found = sorted({path for pattern in CONTENTS for path in prefix.glob(pattern)})
    for path in found:
        if path.is_file() and not path.name.startswith(API):
            executable = bool(path.stat().st_mode & stat.S_IXUSR)
            yield f"keel/prefix/{path.relative_to(prefix)}", path.read_bytes(), executable


def main(out):
    project, version = settings()
    machine = os.environ.get("KEEL_MACHINE", os.uname().machine)
    major, minor = 2, 28
    tag = f"py3-none-manylinux_{major}_{minor}_{machine}"
    name = project["name"].replace("-", "_")
    information = f"{name}-{version}.dist-info"
    contents = list(files(out / "prefix"))
    contents += [
        (f"{information}/METADATA", metadata(project, version).encode(), False),
        (f"{information}/WHEEL", f"Wheel-Version: 1.0\nGenerator: keel\nRoot-Is-Purelib: false\n"
                                 f"Tag: {tag}\n".encode(), False),
        (f"{information}/entry_points.txt", "\n".join(["[console_scripts]"] + [
            f"{command} = {place}" for command, place in project["scripts"].items()]
            + [""]).encode(), False),
        (f"{information}/licenses/LICENSE", (ROOT / "LICENSE").read_bytes(), False),
    ]
    record = f"{information}/RECORD"
    lines = []
    for path, data, _ in contents:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}\n")
    contents.append((record, ("".join(lines) + f"{record},,\n").encode(), False))
    when = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    wheel = out / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, data, executable in contents:
            entry = zipfile.ZipInfo(path, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
            archive.writestr(entry, data)
    print(wheel)


if __name__ == "__main__":
    if "SOURCE_DATE_EPOCH" not in os.environ:
        os.environ["SOURCE_DATE_EPOCH"] = subprocess.run(
            ["git", "-C", ROOT, "log", "-1", "--format=%ct"], check=True, capture_output=True,
            text=True).stdout.strip()
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/packages"))
