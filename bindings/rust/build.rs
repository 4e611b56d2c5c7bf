//! Compiles Keel, or says where the installed one is.

use std::env;
use std::path::{Path, PathBuf};

/// The folders of Keel's sources that are all of the allocator, bottom first.
const LAYERS: [&str; 8] = [
    "base",
    "os",
    "allocator/arena",
    "allocator/page",
    "allocator/heap",
    "allocator/alloc",
    "allocator/keeper",
    "allocator/api",
];

/// What replaces the program's own malloc and C++ operators.
const OVERRIDING: [&str; 2] = ["override.c", "new_delete.c"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=KEEL_LIB_DIR");
    let overrides = env::var_os("CARGO_FEATURE_OVERRIDE").is_some();
    if env::var_os("CARGO_FEATURE_SYSTEM").is_some() {
        link_installed(overrides);
    } else {
        compile(overrides);
    }
}

fn link_installed(overrides: bool) {
    if let Some(folder) = env::var_os("KEEL_LIB_DIR") {
        println!("cargo::rustc-link-search=native={}", Path::new(&folder).display());
    }
    println!("cargo::rustc-link-lib=dylib={}", if overrides { "keel" } else { "keel_api" });
}

/// The C files of Keel, with the folder that their includes start from.
fn sources(manifest: &Path, overrides: bool) -> (PathBuf, Vec<PathBuf>) {
    let root = manifest.join("../../in_process");
    let mut files = Vec::new();
    for layer in LAYERS {
        let folder = root.join(layer);
        println!("cargo::rerun-if-changed={}", folder.display());
        let entries = folder.read_dir().unwrap_or_else(|error| {
            panic!(
                "{}: {error}; this crate is built inside of Keel's repository, or with the feature `system`",
                folder.display()
            )
        });
        let all = entries.map(|entry| entry.expect("a folder that can be read").path());
        files.extend(all.filter(|file| is_wanted(file, overrides)));
    }
    files.sort();
    (root, files)
}

fn is_wanted(file: &Path, overrides: bool) -> bool {
    let name = file.file_name().unwrap_or_default();
    let overriding = OVERRIDING.iter().any(|other| name == *other);
    file.extension().is_some_and(|extension| extension == "c") && (overrides || !overriding)
}

fn compile(overrides: bool) {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("Cargo sets it"));
    let (root, files) = sources(&manifest, overrides);
    println!("cargo::rerun-if-changed={}", root.join("include").display());
    let mut build = cc::Build::new();
    build
        .files(files)
        .include(&root)
        .include(root.join("include"))
        .std("c17")
        .opt_level(3)
        .pic(true)
        .define("_GNU_SOURCE", None)
        .flag("-fvisibility=hidden");
    for switch in ["KEEL_SECURE", "KEEL_DEBUG", "KEEL_COUNT"] {
        build.define(switch, "0");
    }
    if overrides {
        // An exception of a new_handler passes through operator new; and no compiler may take
        // malloc and memset for calloc there.
        build.flag("-fexceptions");
        for name in ["malloc", "calloc", "realloc", "free"] {
            build.flag(format!("-fno-builtin-{name}"));
        }
    }
    // Whole: what only constructors and C code need would else be left out.
    build.link_lib_modifier("+whole-archive");
    build.compile("keel_bundled");
    for library in ["pthread", "dl"] {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
}
