//! Compiles Keel, or links the installed library.

use std::env;
use std::path::{Path, PathBuf};

/// The folder of the files that replace the program's malloc and C++ operators.
const OVERRIDING: &str = "allocator/override";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=KEEL_LIB_DIR");
    let overrides = has_feature("OVERRIDE");
    if has_feature("DEBUG") && has_feature("SECURE") {
        fail("the features `debug` and `secure` are two flavours of Keel: use one of them");
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

/// Ends the build with an error that Cargo prints.
fn fail(text: &str) -> ! {
    println!("cargo::error=keel: {text}");
    std::process::exit(1);
}

fn link_installed(overrides: bool) {
    if let Some(folder) = env::var_os("KEEL_LIB_DIR") {
        println!("cargo::rustc-link-search=native={}", Path::new(&folder).display());
    }
    let flavour = if has_feature("SECURE") {
        "-secure"
    } else if has_feature("DEBUG") {
        "-debug"
    } else {
        ""
    };
    let name = if overrides { "keel" } else { "keel_api" };
    println!("cargo::rustc-link-lib=dylib={name}{flavour}");
}

/// The files to compile and their include folders.
struct Sources {
    files: Vec<PathBuf>,
    includes: Vec<PathBuf>,
}

/// The sources in the package of this crate: all of Keel in one file.
fn packaged(folder: &Path) -> Sources {
    println!("cargo::rerun-if-changed={}", folder.display());
    Sources { files: vec![folder.join("keel.c")], includes: vec![folder.to_owned()] }
}

/// The sources in Keel's repository: one folder per layer.
fn of_repository(root: &Path, overrides: bool) -> Sources {
    let mut files = Vec::new();
    for layer in layers(&root.join("../LAYERS")) {
        if layer == OVERRIDING && !overrides {
            continue;
        }
        let folder = root.join(layer);
        println!("cargo::rerun-if-changed={}", folder.display());
        let entries = folder
            .read_dir()
            .unwrap_or_else(|error| fail(&format!("{}: {error}", folder.display())));
        let all = entries.flatten().map(|entry| entry.path());
        files.extend(all.filter(|file| file.extension().is_some_and(|end| end == "c")));
    }
    files.sort();
    let include = root.join("include");
    println!("cargo::rerun-if-changed={}", include.display());
    Sources { files, includes: vec![root.to_owned(), include] }
}

/// The folders of the allocator's sources, as the repository's list of layers has them.
fn layers(list: &Path) -> Vec<String> {
    println!("cargo::rerun-if-changed={}", list.display());
    let text = std::fs::read_to_string(list).unwrap_or_else(|error| {
        fail(&format!(
            "{}: {error}; Keel's C sources are neither in this package (scripts/crate.sh puts \
             them there) nor in the repository; the feature `system` links an installed Keel",
            list.display()
        ))
    });
    text.lines()
        .filter_map(|line| line.strip_prefix("in_process/"))
        .filter(|name| ["base", "os"].contains(name) || name.starts_with("allocator/"))
        .map(str::to_owned)
        .collect()
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
    for flavour in ["SECURE", "DEBUG"] {
        build.define(&format!("KEEL_{flavour}"), if has_feature(flavour) { "1" } else { "0" });
    }
    for switch in ["KEEL_COUNT", "KEEL_CHECKED"] {
        build.define(switch, "0");
    }
    if overrides {
        build.define("KEEL_OVERRIDE", "1");
        // A new_handler's exception passes through operator new. The compiler must not replace
        // malloc and memset by a call of calloc.
        build.flag("-fexceptions");
        for name in ["malloc", "calloc", "realloc", "free"] {
            build.flag(format!("-fno-builtin-{name}"));
        }
    }
    // The whole archive: otherwise parts that only constructors and C code use would be dropped.
    build.link_lib_modifier("+whole-archive");
    build.compile("keel_bundled");
    for library in ["pthread", "dl"] {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
}
