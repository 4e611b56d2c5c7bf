//! Builds what the crate `keel-lab` contains besides its own programs: Keel's libraries, from the C
//! in `native/`, and the peers, each from its crate. `bundle.rs` in Cargo's output folder then has
//! every file, and `keel` writes them to the user's cache when it first runs.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::fs;
use std::hash::Hasher as _;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The flavours: the build folder, the option of CMake, and the target.
const FLAVOURS: [(&str, &str, &str); 3] = [
    ("plain", "-DKEEL_SECURE=OFF", "libraries"),
    ("secure", "-DKEEL_SECURE=ON", "flavour"),
    ("debug", "-DKEEL_DEBUG=ON", "flavour"),
];
/// What `lib/` contains for programs that run; the rest is for linking.
const LIBRARIES: [&str; 4] =
    ["libkeel.so", "libkeel-secure.so", "libkeel-debug.so", "libkeel_recorder.so"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=native");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets it"));
    let prefix = out.join("prefix");
    // The documentation needs no library, and docs.rs builds without a network.
    let files = if env::var_os("DOCS_RS").is_some() {
        Vec::new()
    } else {
        build(&out, &prefix).unwrap_or_else(|error| fail(&error));
        files(&prefix).unwrap_or_else(|error| fail(&error.to_string()))
    };
    write_table(&out.join("bundle.rs"), &prefix, &files).expect("the output folder is writable");
}

/// Ends the build with an error that Cargo prints.
fn fail(text: &str) -> ! {
    println!("cargo::error=keel-lab: {text}");
    std::process::exit(1);
}

fn build(out: &Path, prefix: &Path) -> Result<(), String> {
    let sources = out.join("native");
    let _ = fs::remove_dir_all(&sources);
    copy(Path::new("native"), &sources).map_err(|error| format!("native: {error}"))?;
    let jobs = env::var("NUM_JOBS").unwrap_or_else(|_| "1".to_owned());
    for (folder, option, target) in FLAVOURS {
        let folder = out.join(folder);
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(&sources).arg("-B").arg(&folder);
        configure.arg(format!("-DKEEL_OUTPUT_DIR={}", prefix.display()));
        configure.args([option, "-DKEEL_TESTS=OFF", "-DCMAKE_BUILD_TYPE=Release"]);
        configure.args(["-DCMAKE_SHARED_LINKER_FLAGS=-s", "-DCMAKE_EXE_LINKER_FLAGS=-s"]);
        run(&mut configure)?;
        let mut make = Command::new("cmake");
        make.arg("--build").arg(&folder).args(["--parallel", &jobs, "--target", target]);
        run(&mut make)?;
    }
    copy(&sources.join("tests/programs"), &prefix.join("lib/keel/programs"))
        .map_err(|error| format!("tests/programs: {error}"))?;
    let mut peers = Command::new(sources.join("lab/peers/build.sh"));
    peers.arg(prefix.join("lib/keel/peers")).env("KEEL_PEERS_TARGET", out.join("peers"));
    peers.env("CARGO_PROFILE_RELEASE_STRIP", "true");
    // Those of the build that this script belongs to.
    for name in ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET", "CARGO_BUILD_TARGET_DIR"] {
        peers.env_remove(name);
    }
    run(&mut peers)
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = Path::new(command.get_program()).display().to_string();
    let output = command.output().map_err(|error| {
        format!("{name}: {error}; it needs CMake, make, bash, and compilers for C and C++")
    })?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(format!("{name} failed:\n{}", String::from_utf8_lossy(&text)))
}

/// Copies a folder. Cargo packs no folder that has a Cargo.toml, so the peers' have another name.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in from.read_dir()? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()))?;
        } else if entry.file_name() == "manifest.toml" {
            fs::copy(entry.path(), to.join("Cargo.toml"))?;
        } else {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// The files of the prefix, as paths below it.
fn files(prefix: &Path) -> io::Result<Vec<String>> {
    let mut found: Vec<String> = LIBRARIES.iter().map(|name| format!("lib/{name}")).collect();
    let mut folders = vec!["lib/keel".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in prefix.join(&folder).read_dir()? {
            let entry = entry?;
            let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
            match entry.file_type()? {
                kind if kind.is_dir() && name != "lib/keel/samples" => folders.push(name),
                kind if kind.is_file() && !name.ends_with(".o") => found.push(name),
                _ => {}
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Writes the Rust that contains the files, and a key that names their contents.
fn write_table(table: &Path, prefix: &Path, files: &[String]) -> io::Result<()> {
    let mut hasher = DefaultHasher::new();
    let mut entries = String::new();
    for name in files {
        let path = prefix.join(name);
        let is_program = fs::metadata(&path)?.permissions().mode() & 0o100 != 0;
        hasher.write(name.as_bytes());
        hasher.write(&fs::read(&path)?);
        entries += &format!("    ({name:?}, {is_program}, include_bytes!({path:?})),\n");
    }
    let version = env::var("CARGO_PKG_VERSION").expect("Cargo sets it");
    let key = format!("{version}-{:016x}", hasher.finish());
    let text = format!("const KEY: &str = {key:?};\nconst FILES: &[Entry] = &[\n{entries}];\n");
    fs::write(table, text)
}
