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
    let overrides = has_feature("OVERRIDE");
    for flavour in ["SECURE", "DEBUG"].into_iter().filter(|flavour| has_feature(flavour)) {
        fail(&format!(
            "the feature `{}` is a name kept for a flavour of Keel that does not exist yet; build without it",
            flavour.to_lowercase()
        ));
    }
    if has_feature("SYSTEM") {
        link_installed(overrides);
    } else {
        compile(overrides);
    }
}

fn has_feature(name: &str) -> bool {
    env::var_os(format!("CARGO_FEATURE_{name}")).is_some()
}

/// Ends the build; Cargo shows the text.
fn fail(text: &str) -> ! {
    println!("cargo::error=keel: {text}");
    std::process::exit(1);
}

fn link_installed(overrides: bool) {
    if let Some(folder) = env::var_os("KEEL_LIB_DIR") {
        println!("cargo::rustc-link-search=native={}", Path::new(&folder).display());
    }
    println!("cargo::rustc-link-lib=dylib={}", if overrides { "keel" } else { "keel_api" });
}

/// What to compile, and where its includes start.
struct Sources {
    files: Vec<PathBuf>,
    includes: Vec<PathBuf>,
}

/// In the package of this crate all of Keel is one file.
fn packaged(folder: &Path) -> Sources {
    println!("cargo::rerun-if-changed={}", folder.display());
    Sources { files: vec![folder.join("keel.c")], includes: vec![folder.to_owned()] }
}

/// In Keel's repository it is its folders.
fn of_repository(root: &Path, overrides: bool) -> Sources {
    let mut files = Vec::new();
    for layer in LAYERS {
        let folder = root.join(layer);
        println!("cargo::rerun-if-changed={}", folder.display());
        let entries = folder.read_dir().unwrap_or_else(|error| {
            fail(&format!(
                "{}: {error}; this crate has Keel's C in its package (scripts/crate.sh writes it) or beside it in the \
                 repository, or links an installed one with the feature `system`",
                folder.display()
            ))
        });
        let all = entries.flatten().map(|entry| entry.path());
        files.extend(all.filter(|file| is_wanted(file, overrides)));
    }
    files.sort();
    let include = root.join("include");
    println!("cargo::rerun-if-changed={}", include.display());
    Sources { files, includes: vec![root.to_owned(), include] }
}

fn is_wanted(file: &Path, overrides: bool) -> bool {
    let name = file.file_name().unwrap_or_default();
    let overriding = OVERRIDING.iter().any(|other| name == *other);
    file.extension().is_some_and(|extension| extension == "c") && (overrides || !overriding)
}

fn sources(overrides: bool) -> Sources {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("Cargo sets it"));
    let single = manifest.join("c");
    if single.join("keel.c").is_file() {
        packaged(&single)
    } else {
        of_repository(&manifest.join("../../in_process"), overrides)
    }
}

fn compile(overrides: bool) {
    let Sources { files, includes } = sources(overrides);
    let mut build = cc::Build::new();
    build
        .files(files)
        .includes(includes)
        .std("c17")
        .opt_level(3)
        .pic(true)
        .define("_GNU_SOURCE", None)
        .flag("-fvisibility=hidden");
    for switch in ["KEEL_SECURE", "KEEL_DEBUG", "KEEL_COUNT"] {
        build.define(switch, "0");
    }
    if overrides {
        build.define("KEEL_OVERRIDE", "1");
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
