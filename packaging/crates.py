#!/usr/bin/env python3
"""crates.py [FOLDER]: packs the crates of the lab in FOLDER (build/packages/crates).

Each crate of the workspace that the command `keel` needs becomes a package of its own. The names of
the packages begin with `keel-lab`; the sources use the names of the repository. `keel-lab`, made of
lab/cli, also has the player, the workloads and Keel's C sources, so that `cargo install` of it
installs a complete lab. They are made in a copy of the repository's folders, FOLDER/source, where
`cargo publish --workspace` also publishes them.
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Not for users: checks of the repository.
LEFT_OUT = {"tidy", "peers"}
# What keel-lab's build script compiles and contains.
NATIVE = ["CMakeLists.txt", "LICENSE", "cmake", "in_process", "journal", "samples/engine",
          "bench/CMakeLists.txt", "bench/synthetic", "bench/patterns", "tests/programs",
          "tests/support/overseer*", "lab/peers", "lab/allocators/src"]
# What the other crates contain, if they have it.
CONTENTS = ["/src", "/page", "/suite", "/bars.json", "/build.rs", "/native", "/README.md",
            "/LICENSE"]
# What the programs of lab/player and lab/workloads need besides the dependencies of lab/cli.
PROGRAMS = ["keel-player", "hdrhistogram"]


def tracked(*patterns):
    command = ["git", "-C", ROOT, "ls-files", "-z", "--", *patterns]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [name for name in output.split("\0") if name and (ROOT / name).is_file()]


def copy(name, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / name, target)


def crate_manifest(text, crate):
    """A manifest for a registry: without tests, with its name there and the files of the package.
    Other crates use its library by the same name as in the repository."""
    name = "keel-lab" if crate == "cli" else f"keel-lab-{crate}"
    text = text.replace(f'name = "keel-{crate}"', f'name = "{name}"', 1)
    if (ROOT / "lab" / crate / "src/lib.rs").is_file():
        text = text.replace("[dependencies]\n", f'[lib]\nname = "keel_{crate}"\n\n[dependencies]\n')
    text = re.sub(r"^\[dev-dependencies\]\n(.+\n)*\n?", "", text, flags=re.M)
    text = re.sub(r"^(# .*\n)+(?=\[lints\])", "", text, flags=re.M)
    include = ", ".join(f'"{one}"' for one in CONTENTS)
    return text.replace("publish.workspace = true\n", f"include = [{include}]\n")


def lab_manifest(text):
    text = text.replace("include =", 'readme = "README.md"\ninclude =')
    text = text.replace("bundled = []", 'default = ["bundled"]\nbundled = []')
    needed = "".join(f"{name}.workspace = true\n" for name in PROGRAMS)
    return text.replace("[dependencies]\n", f"[dependencies]\n{needed}")


def workspace_manifest(text, crates):
    version = re.search(r'^version = "(.*)"', text, re.M).group(1)
    members = ", ".join(f'"lab/{name}"' for name in crates)
    text = re.sub(r"^members = .*", f"members = [{members}]", text, flags=re.M)
    text = re.sub(r"^exclude = .*\n", "", text, flags=re.M)
    text = text.replace("publish = false\n", "")
    text = re.sub(r"^\[profile\.release\.package.*\n(.+\n)*", "", text, flags=re.M)
    return re.sub(r'^keel-(\w+) = \{ path = "([^"]*)"', r'keel-\1 = { package = "keel-lab-\1", '
                  rf'path = "\2", version = "{version}"', text, flags=re.M)


def stage(source):
    crates = sorted({name.split("/")[1] for name in tracked("lab/*/Cargo.toml")
                     if name.count("/") == 2} - LEFT_OUT)
    for crate in crates:
        for name in tracked(f"lab/{crate}"):
            if name.split("/")[2] not in ("tests", "examples", "samples"):
                copy(name, source / name)
        copy("LICENSE", source / "lab" / crate / "LICENSE")
        path = source / "lab" / crate / "Cargo.toml"
        path.write_text(crate_manifest(path.read_text(), crate))
    lab = source / "lab/cli"
    (lab / "Cargo.toml").write_text(lab_manifest((lab / "Cargo.toml").read_text()))
    for name in tracked(*NATIVE):
        # Cargo packs no folder that has a Cargo.toml; the build script renames them.
        copy(name, lab / "native" / name.replace("/Cargo.toml", "/manifest.toml"))
    for name in "build.rs", "README.md":
        copy(f"packaging/lab/{name}", lab / name)
    copy("lab/player/src/main.rs", lab / "src/bin/keel-player.rs")
    for name in tracked("lab/workloads/src"):
        copy(name, lab / "src/bin/keel-workload" / Path(name).relative_to("lab/workloads/src"))
    copy("Cargo.lock", source / "Cargo.lock")
    manifest = workspace_manifest((ROOT / "Cargo.toml").read_text(), crates)
    (source / "Cargo.toml").write_text(manifest)


def main(out):
    source = out / "source"
    shutil.rmtree(source, ignore_errors=True)
    stage(source)
    # --no-verify: tests/packages/crates.sh compiles what is packed.
    subprocess.run(["cargo", "package", "--quiet", "--workspace", "--no-verify", "--allow-dirty",
                    "--target-dir", out / "target"], cwd=source, check=True)
    for old in out.glob("keel-*.crate"):
        old.unlink()
    for path in sorted((out / "target/package").glob("*.crate")):
        shutil.copy(path, out)
        print(out / path.name)
    shutil.rmtree(out / "target")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/packages/crates").resolve())
