#!/usr/bin/env python3
"""contents.py [--licenses FILE] [--sbom FILE]: lists what a package contains besides Keel's code.

Reads `cargo metadata` of the lab and of each peer. --licenses writes the name, version and licence
of each crate, with the texts of the licences; --sbom writes the same as CycloneDX 1.5. Fails if a
licence is not in ALLOWED.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import uuid
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ["keel-cli", "keel-player", "keel-workloads"]
# Of an expression such as `MIT OR Apache-2.0`, one licence must be here; of one with AND, all.
ALLOWED = {"MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause",
           "ISC", "Zlib", "Unlicense", "CC0-1.0", "0BSD", "MIT-0", "Unicode-3.0", "BSL-1.0",
           "OFL-1.1", "Ubuntu-font-1.0", "LicenseRef-UFL-1.0"}
TEXT = re.compile(r"(LICEN[SC]E|COPYING|NOTICE|UNLICENSE)", re.I)


def metadata(manifest):
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--manifest-path",
               manifest, "--filter-platform",
               os.environ.get("KEEL_MACHINE", os.uname().machine) + "-unknown-linux-gnu"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def linked(description, roots):
    """The packages that the roots contain, without those that only build scripts and tests use."""
    nodes = {node["id"]: node for node in description["resolve"]["nodes"]}
    packages = {package["id"]: package for package in description["packages"]}
    macros = {package["id"] for package in description["packages"]
              if any("proc-macro" in target["kind"] for target in package["targets"])}
    seen, waiting = set(), [key for key, package in packages.items() if package["name"] in roots]
    while waiting:
        one = waiting.pop()
        if one in seen or one in macros:
            continue
        seen.add(one)
        waiting += [dependency["pkg"] for dependency in nodes[one]["deps"]
                    if any(kind["kind"] is None for kind in dependency["dep_kinds"])]
    return [packages[one] for one in seen if packages[one]["source"]]


def is_allowed(expression):
    text = expression.replace("/", " OR ")
    text = re.sub(r"[()]", " ", text)
    return all(any(choice.strip() in ALLOWED for choice in part.split(" OR "))
               for part in text.split(" AND "))


def crates():
    """Every crate in the packages, by name and version, and the files that contain it."""
    found = {}
    sources = [(ROOT / "Cargo.toml", PROGRAMS, "keel")]
    for manifest in sorted(ROOT.glob("lab/peers/*/Cargo.toml")):
        if "optional = true" not in manifest.read_text():
            name = manifest.parent.name
            sources.append((manifest, [f"keel-peer-{name}"], f"peers/{name}.so"))
    for manifest, roots, file in sources:
        for package in linked(metadata(str(manifest)), roots):
            key = package["name"], package["version"]
            found.setdefault(key, (package, []))[1].append(file)
    return [found[key] for key in sorted(found)]


def write_licenses(path, listed):
    lines = ["# Third-party code", "",
             "Keel's own code has the MIT licence (LICENSE). The programs and the peers contain "
             "these crates.", "", "| crate | licence | in |", "| --- | --- | --- |"]
    texts = {}
    for package, places in listed:
        name = f"{package['name']} {package['version']}"
        lines.append(f"| {name} | {package['license']} | {', '.join(places)} |")
        folder = Path(package["manifest_path"]).parent
        # The licence of an allocator may be in the folder of its own sources.
        files = [file for depth in ("*", "*/*", "*/*/*") for file in sorted(folder.glob(depth))]
        for file in files:
            if file.is_file() and TEXT.match(file.name) and file.suffix not in (".rs", ".py", ".h"):
                text = file.read_text(errors="replace").strip()
                texts.setdefault(text, []).append(name)
    without = [f"{package['name']} {package['version']} ({', '.join(package['authors']) or '-'})"
               for package, _ in listed
               if not any(f"{package['name']} {package['version']}" in names
                          for names in texts.values())]
    lines += ["", "These crates contain no text of their licence (authors in brackets): "
              + "; ".join(without) + ".", ""]
    for text, names in texts.items():
        lines += ["## " + ", ".join(dict.fromkeys(names)), "", "```", text, "```", ""]
    Path(path).write_text("\n".join(lines))


def write_sbom(path, listed):
    version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M).group(1)
    when = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), timezone.utc)
    components = [{
        "type": "library", "name": package["name"], "version": package["version"],
        "purl": f"pkg:cargo/{package['name']}@{package['version']}",
        "bom-ref": f"{package['name']}@{package['version']}",
        "licenses": [{"expression": package["license"].replace("/", " OR ")}],
        "properties": [{"name": "keel:file", "value": file} for file in files],
    } for package, files in listed]
    names = json.dumps([one["purl"] for one in components] + [version, when.isoformat()])
    bom = {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, names)}",
        "metadata": {"timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
                     "component": {"type": "application", "name": "keel", "version": version,
                                   "bom-ref": "keel", "licenses": [{"license": {"id": "MIT"}}]}},
        "components": components,
    }
    Path(path).write_text(json.dumps(bom, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--licenses")
    parser.add_argument("--sbom")
    arguments = parser.parse_args()
    listed = crates()
    refused = [f"{package['name']}: {package['license']}" for package, _ in listed
               if not package["license"] or not is_allowed(package["license"])]
    if refused:
        sys.exit("contents: licences that packaging/contents.py does not allow:\n"
                 + "\n".join(refused))
    if arguments.licenses:
        write_licenses(arguments.licenses, listed)
    if arguments.sbom:
        write_sbom(arguments.sbom, listed)
    print(f"contents: {len(listed)} crates", file=sys.stderr)


if __name__ == "__main__":
    main()
