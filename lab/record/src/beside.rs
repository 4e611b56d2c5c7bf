//! What a program has beside the allocator whose calls are recorded: other allocators, whose
//! functions have names of their own, and the settings of all of them.

use keel_journal::{Metadata, OtherAllocator};
use object::{Object as _, ObjectSymbol as _};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

/// Functions that only the allocator of this name has, and programs that contain it.
const FUNCTIONS: [(&str, &[&str]); 8] = [
    ("jemalloc", &["mallocx", "je_mallocx", "_rjem_mallocx", "je_malloc", "_rjem_malloc"]),
    ("mimalloc", &["mi_malloc", "mi_free"]),
    ("TCMalloc", &["tc_malloc", "TCMallocInternalMalloc"]),
    ("snmalloc", &["sn_malloc", "sn_rust_alloc"]),
    ("rpmalloc", &["rpmalloc"]),
    ("TBB's allocator", &["scalable_malloc"]),
    ("the Boehm collector", &["GC_malloc"]),
    ("libkeel", &["kl_malloc"]),
];

/// The environment variables that configure allocators begin with these.
const SETTINGS: [&str; 9] = [
    "GLIBC_TUNABLES",
    "MALLOC_",
    "_RJEM_MALLOC_CONF",
    "JE_MALLOC_CONF",
    "MIMALLOC_",
    "TCMALLOC_",
    "SCUDO_OPTIONS",
    "PYTHONMALLOC",
    "KEEL_",
];
/// Those of the lab itself: the recorder's, and where it is installed.
const NOT_SETTINGS: [&str; 3] = ["KEEL_RECORDER", "KEEL_BRIDGE", "KEEL_PREFIX"];

/// What is known when a process begins. `family`: the object file that defines other functions of
/// malloc's family, or "". `inherits`: this process has started it. If it has ended already, its
/// environment was most likely the one that it inherited.
pub fn begin(metadata: &mut Metadata, pid: u32, family: String, inherits: bool) {
    let read = |pid: &str| std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mut environment = read(&pid.to_string());
    if environment.is_empty() && inherits {
        environment = read("self");
    }
    metadata.settings = settings(&environment);
    if !family.is_empty() {
        metadata.other_allocators =
            vec![OtherAllocator { path: family, recorded: true, ..OtherAllocator::default() }];
    }
}

/// Adds the allocators in these object files, without the one whose calls are recorded.
pub fn add_others(metadata: &mut Metadata, files: &BTreeSet<PathBuf>) {
    let others = &mut metadata.other_allocators;
    for other in others.iter_mut() {
        other.name = allocator_in(Path::new(&other.path)).unwrap_or_default().to_owned();
    }
    let own = &metadata.allocator;
    let own = std::fs::canonicalize(own).unwrap_or_else(|_| own.into());
    for path in files.iter().filter(|path| **path != own) {
        let known = others.iter().any(|other| Path::new(&other.path) == path);
        if let Some(name) = allocator_in(path).filter(|_| !known) {
            let path = path.display().to_string();
            others.push(OtherAllocator { name: name.to_owned(), path, recorded: false });
        }
    }
}

/// The name of the allocator in an object file. Each file is read once.
fn allocator_in(path: &Path) -> Option<&'static str> {
    static KNOWN: OnceLock<Mutex<BTreeMap<PathBuf, Option<&'static str>>>> = OnceLock::new();
    let known = KNOWN.get_or_init(Mutex::default);
    let mut known = known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    *known.entry(path.to_path_buf()).or_insert_with(|| find(path))
}

fn find(path: &Path) -> Option<&'static str> {
    let file = std::fs::File::open(path).ok()?;
    // SAFETY: an object file in use, as for the build id (program.rs).
    let data = unsafe { memmap2::Mmap::map(&file) }.ok()?;
    let object = object::File::parse(&*data).ok()?;
    object.symbols().chain(object.dynamic_symbols()).find_map(|symbol| {
        let name = symbol.is_definition().then(|| symbol.name().ok()).flatten()?;
        FUNCTIONS.iter().find(|(_, functions)| functions.contains(&name)).map(|(name, _)| *name)
    })
}

/// The variables that configure allocators, of an environment as in `/proc/<pid>/environ`.
fn settings(environment: &[u8]) -> BTreeMap<String, String> {
    let variables = environment.split(|byte| *byte == 0).filter_map(|variable| {
        let text = String::from_utf8_lossy(variable);
        let (name, value) = text.split_once('=')?;
        let is_one = SETTINGS.iter().any(|setting| name.starts_with(setting));
        let is_own = NOT_SETTINGS.iter().any(|own| name.starts_with(own));
        (is_one && !is_own).then(|| (name.to_owned(), value.to_owned()))
    });
    variables.collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
    use super::*;

    #[test]
    fn only_settings_of_allocators_are_taken() {
        let environment = b"HOME=/root\0MALLOC_ARENA_MAX=2\0KEEL_RECORDER_SESSION=/x\0\
            KEEL_PREFIX=/y\0KEEL_KEEPER=off\0GLIBC_TUNABLES=glibc.malloc.tcache_count=0\0\
            A_MALLOC_=1\0";
        let found: Vec<_> = settings(environment).into_iter().collect();
        let expected = [
            ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0"),
            ("KEEL_KEEPER", "off"),
            ("MALLOC_ARENA_MAX", "2"),
        ];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn an_allocator_is_known_by_its_functions() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("a.c");
        std::fs::write(&source, "void* mi_malloc(unsigned long n) { return (void*)n; }").unwrap();
        let library = folder.path().join("liba.so");
        let compiler = std::process::Command::new("cc")
            .args(["-shared", "-fPIC", "-w", "-o"])
            .args([&library, &source])
            .status();
        assert!(compiler.unwrap().success());
        let files = BTreeSet::from([library.clone(), PathBuf::from("/proc/self/exe")]);
        let others = |allocator: &str, others: &[OtherAllocator]| {
            let mut metadata = Metadata {
                allocator: allocator.to_owned(),
                other_allocators: others.to_vec(),
                ..Metadata::default()
            };
            add_others(&mut metadata, &files);
            metadata.other_allocators
        };
        let path = library.to_str().unwrap().to_owned();
        let named =
            |recorded| OtherAllocator { name: "mimalloc".into(), path: path.clone(), recorded };
        assert_eq!(others("/lib/libc.so.6", &[]), [named(false)]);
        assert_eq!(others(&path, &[]), []);
        // It answers some of the recorded calls.
        let family = OtherAllocator { name: String::new(), ..named(true) };
        assert_eq!(others("/lib/libc.so.6", &[family]), [named(true)]);
    }
}
