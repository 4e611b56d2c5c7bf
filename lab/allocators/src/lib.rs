//! The allocators that the player can drive: their names, their files, and the arguments that
//! select them.

mod settings;
mod spec;
pub mod table;
mod used;
mod variants;

pub use spec::Spec;
pub use used::{C_LIBRARY, used_name};
pub use variants::{
    VARIANTS, Variant, program_variable, with_recorded, with_tuned, with_tuned_base,
};

use serde::Serialize;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Known names in the order of tables. Some may not have been built.
pub const NAMES: [&str; 12] = [
    "keel",
    SECURE,
    "glibc",
    "mimalloc",
    "mimalloc2",
    "jemalloc",
    "snmalloc",
    "rpmalloc",
    "tcmalloc",
    "tlsf",
    "dlmalloc",
    "null",
];

/// The name of the null allocator, the floor: it only returns addresses and shows the cost of the
/// instrument itself.
pub const FLOOR: &str = "null";

/// The secure flavour of Keel. `all` leaves it out: it does more than the others.
pub const SECURE: &str = "keel-secure";

/// The variable for settings of the C library.
const TUNABLES: &str = "GLIBC_TUNABLES";

/// What a reader must know about an allocator when comparing it with others; empty for most.
pub fn remark(name: &str) -> &'static str {
    match name {
        "dlmalloc" | "tlsf" => "port, one lock",
        "rpmalloc" => "old version 1.4",
        SECURE => "detects misuse of the heap",
        _ => "",
    }
}

/// A tunable of glibc. Peers use the fast TLS model (initial-exec) of their own builds. Loading
/// such a library late needs room in the static TLS block; the default is too small for some.
const STATIC_TLS: &str = "glibc.rtld.optional_static_tls=65536";

/// How the player calls an allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Built into the player.
    Floor,
    /// The C library's.
    System,
    /// libkeel, by its own functions.
    Keel,
    /// A library with a [`table::Table`].
    Peer,
    /// Any library with malloc and its family, by LD_PRELOAD.
    Preload,
    /// Any library whose functions have a prefix, as `mi_malloc`, loaded and called by name.
    Prefixed,
}

/// An allocator to replay on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Allocator {
    /// Name in tables and file names.
    pub name: String,
    /// See [`remark`].
    pub remark: String,
    /// How the player calls it.
    pub kind: Kind,
    /// Its library, if it has one.
    pub file: Option<PathBuf>,
    /// Why it cannot be used, if it cannot; a clause.
    pub unavailable: Option<String>,
    /// The prefix of its functions' names; only of [`Kind::Prefixed`].
    pub symbols: String,
    /// Environment variables to set for it.
    pub environment: Vec<(String, String)>,
}

impl Default for Allocator {
    /// The floor.
    fn default() -> Self {
        Allocator {
            name: FLOOR.to_owned(),
            remark: String::new(),
            kind: Kind::Floor,
            file: None,
            unavailable: None,
            symbols: String::new(),
            environment: Vec::new(),
        }
    }
}

/// The folders of the libraries.
#[derive(Clone, Debug)]
pub struct Places {
    /// The folder of `libkeel.so`.
    pub library: PathBuf,
    /// The folder of the peers.
    pub peers: PathBuf,
}

/// A name that no allocator has.
#[derive(Debug, thiserror::Error)]
#[error(
    "there is no allocator `{name}`{}; `keel allocators` lists them, and any .so can be given by \
     its path",
    near(nearest)
)]
pub struct Unknown {
    /// The requested name.
    pub name: String,
    /// Similar names, best first.
    pub nearest: Vec<String>,
}

fn near(nearest: &[String]) -> String {
    match nearest {
        [] => String::new(),
        names => format!(" (did you mean `{}`?)", names.join("` or `")),
    }
}

impl Places {
    /// Every known allocator, in the order of [`NAMES`], then others found in the folder of the
    /// peers, then [`VARIANTS`].
    pub fn all(&self) -> Vec<Allocator> {
        let mut all: Vec<Allocator> = NAMES.iter().map(|name| self.known(name)).collect();
        let mut others: Vec<String> = std::fs::read_dir(&self.peers)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".so")?.to_owned()))
            .filter(|name| !name.starts_with('.') && !NAMES.contains(&name.as_str()))
            .collect();
        others.sort();
        all.extend(others.iter().map(|name| self.known(name)));
        let variant = |one: &Variant| variants::apply(one, self.known(one.base));
        all.extend(VARIANTS.iter().map(variant));
        all
    }

    /// The allocators of a list of [specifications](Spec), in that order. `all` means every
    /// available one, except keel-secure and the [`VARIANTS`]. A name with a slash or with the
    /// ending `.so` is the path of a library, or of a folder: then it means each library `*.so` in
    /// it, under its file name.
    ///
    /// # Errors
    /// The first name that no allocator has.
    pub fn resolve(&self, specs: &[String]) -> Result<Vec<Allocator>, Unknown> {
        let mut chosen: Vec<Allocator> = Vec::new();
        for spec in specs.iter().map(|text| Spec::parse(text)) {
            for allocator in self.specified(&spec)? {
                if !chosen.contains(&allocator) {
                    chosen.push(distinct(allocator, &chosen));
                }
            }
        }
        Ok(chosen)
    }

    fn specified(&self, spec: &Spec) -> Result<Vec<Allocator>, Unknown> {
        let found = if spec.name == "all" {
            let usual = |one: &Allocator| {
                one.unavailable.is_none() && one.name != SECURE && !variants::is_variant(&one.name)
            };
            self.all().into_iter().filter(usual).collect()
        } else if spec.is_path() && Path::new(&spec.name).is_dir() {
            in_folder(Path::new(&spec.name), spec.symbols.as_deref())
        } else if spec.is_path() {
            vec![by_path(Path::new(&spec.name), spec.symbols.as_deref())]
        } else {
            vec![self.by_name(&spec.name)?]
        };
        let several = found.len() > 1;
        let refused = |allocator: Allocator| match allocator.kind {
            Kind::Keel if allocator.unavailable.is_none() => {
                Allocator { unavailable: settings::refusal(&spec.settings), ..allocator }
            }
            _ => allocator,
        };
        let with_settings = |allocator: Allocator| match (allocator.kind, &spec.label) {
            // The floor takes no settings: all floors must be comparable.
            (Kind::Floor, _) => allocator,
            (_, Some(label)) => Allocator {
                name: match several {
                    true => format!("{label}-{}", allocator.name),
                    false => label.clone(),
                },
                environment: [allocator.environment, spec.settings.clone()].concat(),
                ..allocator
            },
            _ => Allocator {
                name: spec
                    .settings
                    .iter()
                    .fold(allocator.name.clone(), |name, (variable, value)| {
                        format!("{name}:{variable}={value}")
                    }),
                environment: [allocator.environment, spec.settings.clone()].concat(),
                ..allocator
            },
        };
        Ok(found.into_iter().map(refused).map(with_settings).collect())
    }

    fn by_name(&self, name: &str) -> Result<Allocator, Unknown> {
        let all = self.all();
        if let Some(found) = all.iter().find(|allocator| allocator.name == name) {
            return Ok(found.clone());
        }
        let mut scored: Vec<(f64, String)> = all
            .into_iter()
            .map(|allocator| (strsim::jaro_winkler(name, &allocator.name), allocator.name))
            .filter(|(score, _)| *score > 0.75)
            .collect();
        scored.sort_by(|one, other| other.0.total_cmp(&one.0));
        let nearest = scored.into_iter().take(2).map(|(_, name)| name).collect();
        Err(Unknown { name: name.to_owned(), nearest })
    }

    fn known(&self, name: &str) -> Allocator {
        let (kind, file) = match name {
            FLOOR => (Kind::Floor, None),
            "glibc" => (Kind::System, None),
            "keel" | SECURE => (Kind::Keel, Some(self.library.join(format!("lib{name}.so")))),
            _ => (Kind::Peer, Some(self.peers.join(format!("{name}.so")))),
        };
        let unavailable = match &file {
            Some(file) if !file.exists() => Some(self.reason(name, file)),
            _ => None,
        };
        let (name, remark) = (name.to_owned(), remark(name).to_owned());
        Allocator { name, remark, kind, file, unavailable, ..Allocator::default() }
    }

    fn reason(&self, name: &str, file: &Path) -> String {
        match std::fs::read_to_string(self.peers.join(format!("{name}.unavailable"))) {
            Ok(reason) => reason.trim().to_owned(),
            Err(_) => format!("{} has not been built: run `make build`", file.display()),
        }
    }
}

/// The specifications of a command line: a list and single ones, `all` if both are empty.
pub fn requested(list: &[String], single: &[String]) -> Vec<String> {
    match [list, single].concat() {
        specs if specs.is_empty() => vec!["all".to_owned()],
        specs => specs,
    }
}

/// Numbers the names of libraries that have the same name in different folders.
fn distinct(mut allocator: Allocator, chosen: &[Allocator]) -> Allocator {
    let base = allocator.name.clone();
    let mut number = 2;
    while chosen.iter().any(|other| other.name == allocator.name) {
        allocator.name = format!("{base}-{number}");
        number += 1;
    }
    allocator
}

/// The libraries `*.so` of a folder, under their file names, which no known allocator has.
fn in_folder(folder: &Path, symbols: Option<&str>) -> Vec<Allocator> {
    let entries = std::fs::read_dir(folder);
    let mut files: Vec<PathBuf> =
        entries.into_iter().flatten().flatten().map(|one| one.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "so"));
    files.sort();
    let named = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // The path as it is: a symbolic link may have its own file with the version.
        Allocator { name, file: std::path::absolute(file).ok(), ..by_path(file, symbols) }
    };
    if files.is_empty() {
        let unavailable = Some(format!("{} contains no library *.so", folder.display()));
        return vec![Allocator { unavailable, ..by_path(folder, symbols) }];
    }
    files.iter().map(named).collect()
}

fn by_path(file: &Path, symbols: Option<&str>) -> Allocator {
    let stem = file.file_name().unwrap_or_default().to_string_lossy();
    let stem = stem.split(".so").next().unwrap_or_default();
    let name: String = stem
        .strip_prefix("lib")
        .filter(|rest| !rest.is_empty())
        .unwrap_or(stem)
        .chars()
        .map(|letter| if letter.is_alphanumeric() || "-_.".contains(letter) { letter } else { '_' })
        .collect();
    let (file, unavailable) = match file.canonicalize() {
        Ok(found) if found.is_file() => (found, None),
        Ok(found) => (found, Some("it is not a file".to_owned())),
        Err(error) => (file.to_path_buf(), Some(format!("{}: {error}", file.display()))),
    };
    let kind = if symbols.is_some() { Kind::Prefixed } else { Kind::Preload };
    let symbols = symbols.unwrap_or_default().to_owned();
    Allocator { name, kind, file: Some(file), unavailable, symbols, ..Allocator::default() }
}

impl Allocator {
    /// The name with its remark, for people: `dlmalloc (port, one lock)`.
    pub fn label(&self) -> String {
        if self.remark.is_empty() {
            self.name.clone()
        } else {
            format!("{} ({})", self.name, self.remark)
        }
    }

    /// The command that runs `player` on this allocator, without the other arguments. The caller
    /// sets the standard streams.
    pub fn command(&self, player: &Path) -> Command {
        let mut command = Command::new(player);
        let mut tunables =
            std::env::var_os(TUNABLES).filter(|value| !value.is_empty()).unwrap_or_default();
        if !tunables.is_empty() {
            tunables.push(":");
        }
        tunables.push(STATIC_TLS);
        for (_, value) in self.environment.iter().filter(|(name, _)| name == TUNABLES) {
            tunables.push(":");
            tunables.push(value);
        }
        command.env(TUNABLES, tunables).env_remove("LD_PRELOAD");
        if let (Kind::Preload, Some(file)) = (self.kind, &self.file) {
            command.env("LD_PRELOAD", file);
        }
        let others = self.environment.iter().filter(|(name, _)| name != TUNABLES);
        command.envs(others.map(|(variable, value)| (variable, value)));
        command
    }

    /// Environment variables that give a whole program this allocator. `bridge` is
    /// `libkeel_bridge.so`, which calls a library that has no `malloc` of its own, and libkeel in
    /// the same way. None for the floor, which no program can use.
    pub fn program_environment(&self, bridge: &Path) -> Option<Vec<(OsString, OsString)>> {
        let file = self.file.clone().unwrap_or_default();
        let bridged = |prefix: &str| {
            let mut target = OsString::from(prefix);
            target.push(&file);
            vec![
                ("LD_PRELOAD".into(), bridge.into()),
                ("KEEL_BRIDGE".into(), target),
                (TUNABLES.into(), STATIC_TLS.into()),
            ]
        };
        let mut environment: Vec<(OsString, OsString)> = match self.kind {
            Kind::Floor => return None,
            Kind::System => Vec::new(),
            Kind::Preload => vec![("LD_PRELOAD".into(), file.clone().into())],
            Kind::Keel => bridged("prefix:kl_:"),
            Kind::Peer => bridged("peer:"),
            Kind::Prefixed => bridged(&format!("prefix:{}:", self.symbols)),
        };
        for (name, value) in &self.environment {
            // Its own tunables are added to the one that the bridge needs.
            match environment.iter_mut().find(|one| name == TUNABLES && one.0 == TUNABLES) {
                Some((_, tunables)) => tunables.push(format!(":{value}")),
                None => environment.push((name.into(), value.into())),
            }
        }
        Some(environment)
    }

    /// The player's argument for it.
    pub fn target(&self) -> OsString {
        let with_file = |prefix: &str| {
            let mut target = OsString::from(prefix);
            target.push(self.file.as_deref().unwrap_or(Path::new("")));
            target
        };
        match self.kind {
            Kind::Floor => "null".into(),
            Kind::System => "system".into(),
            Kind::Keel => with_file("keel:"),
            Kind::Peer => with_file("peer:"),
            Kind::Preload => with_file("preload:"),
            Kind::Prefixed => with_file(&format!("prefix:{}:", self.symbols)),
        }
    }

    /// The first line of the file `NAME.so.version` beside a library that is given by its path, for
    /// libraries that do not report a version.
    fn stated_version(&self) -> Option<String> {
        let of_path = matches!(self.kind, Kind::Preload | Kind::Prefixed);
        let file = self.file.as_ref().filter(|_| of_path)?;
        let mut name = file.file_name()?.to_owned();
        name.push(".version");
        let text = std::fs::read_to_string(file.with_file_name(name)).ok()?;
        text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
    }

    /// Loads the allocator in a process and returns its version.
    ///
    /// # Errors
    /// Why it cannot be used; a clause.
    pub fn describe(&self, player: &Path) -> Result<String, String> {
        if let Some(reason) = &self.unavailable {
            return Err(reason.clone());
        }
        if let Some(version) = self.stated_version() {
            return Ok(version);
        }
        let output = self
            .command(player)
            .arg("--describe")
            .arg(self.target())
            .stdin(Stdio::null())
            .output()
            .map_err(|error| {
                format!("the player {} cannot be started: {error}", player.display())
            })?;
        let last = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes).trim().lines().last().unwrap_or_default().to_owned()
        };
        match output.status.code() {
            Some(0) => Ok(last(&output.stdout)),
            Some(_) => Err(last(&output.stderr)),
            None => Err(format!("it crashed when it was loaded ({})", output.status)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn places(folder: &Path) -> Places {
        Places { library: folder.join("lib"), peers: folder.join("peers") }
    }

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_folder_means_each_library_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().to_str().unwrap().to_owned();
        let named = |spec: String| -> Vec<(String, Option<String>)> {
            let found = places(folder.path()).resolve(&[spec]).unwrap();
            found.into_iter().map(|one| (one.name, one.unavailable)).collect()
        };
        let reason = named(place.clone()).remove(0).1.unwrap();
        assert!(reason.ends_with("contains no library *.so"), "{reason}");
        for name in ["b.so", "jemalloc.so", "VERSIONS"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let names: Vec<String> = named(place.clone()).into_iter().map(|one| one.0).collect();
        assert_eq!(names, ["b.so", "jemalloc.so"], "jemalloc is the name of a known allocator");
        let names: Vec<String> =
            named(format!("new={place}:A=1")).into_iter().map(|one| one.0).collect();
        assert_eq!(names, ["new-b.so", "new-jemalloc.so"]);
        let with = places(folder.path()).resolve(&[format!("{place}:A=1")]).unwrap();
        assert_eq!(with[1].name, "jemalloc.so:A=1");
        assert_eq!(with[1].environment, [("A".to_owned(), "1".to_owned())]);
    }

    #[test]
    fn an_unknown_name_gets_suggestions() {
        let folder = tempfile::tempdir().unwrap();
        let error = places(folder.path()).resolve(&names(&["glibc", "mimaloc"])).unwrap_err();
        assert_eq!(error.nearest[0], "mimalloc");
        assert!(error.to_string().contains("did you mean `mimalloc`"), "{error}");
        let error = places(folder.path()).resolve(&names(&["qqq"])).unwrap_err();
        assert!(
            error.nearest.is_empty() && error.to_string().contains("`keel allocators`"),
            "{error}"
        );
    }

    #[test]
    fn ports_and_old_versions_are_labelled() {
        let folder = tempfile::tempdir().unwrap();
        let asked = names(&["dlmalloc", "tlsf", "rpmalloc", "mimalloc"]);
        let found = places(folder.path()).resolve(&asked).unwrap();
        let labels: Vec<String> = found.iter().map(Allocator::label).collect();
        let expected = [
            "dlmalloc (port, one lock)",
            "tlsf (port, one lock)",
            "rpmalloc (old version 1.4)",
            "mimalloc",
        ];
        assert_eq!(labels, expected);
    }

    #[test]
    fn all_means_every_available_one_and_a_missing_one_has_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(folder.path());
        std::fs::create_dir(&places.peers).unwrap();
        std::fs::write(places.peers.join("jemalloc.so"), b"").unwrap();
        std::fs::write(places.peers.join("own.so"), b"").unwrap();
        std::fs::write(
            places.peers.join("snmalloc.unavailable"),
            b"it could not be built: no cmake\n",
        )
        .unwrap();
        let found: Vec<String> =
            places.resolve(&names(&["all"])).unwrap().into_iter().map(|one| one.name).collect();
        assert_eq!(found, ["glibc", "jemalloc", "null", "own"]);
        let one = places.resolve(&names(&["snmalloc"])).unwrap();
        assert_eq!(one[0].unavailable.as_deref(), Some("it could not be built: no cmake"));
    }

    #[test]
    fn variants_are_known_by_name_and_keep_other_tunables() {
        let folder = tempfile::tempdir().unwrap();
        let found = places(folder.path()).resolve(&names(&["glibc-tuned", "keel-no-keeper"]));
        let found = found.unwrap();
        assert_eq!((found[0].kind, found[1].kind), (Kind::System, Kind::Keel));
        assert_eq!(found[1].environment, [("KEEL_KEEPER".to_owned(), "off".to_owned())]);
        let command = found[0].command(Path::new("player"));
        let tunables = command.get_envs().find(|one| one.0 == TUNABLES).unwrap().1.unwrap();
        let tunables = tunables.to_string_lossy();
        assert!(
            tunables.contains("glibc.rtld.optional_static_tls=65536:glibc.malloc.top_pad"),
            "{tunables}"
        );
    }

    #[test]
    fn libraries_by_path_get_distinct_names() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("libfoo.so.2"), folder.path().join("b/libfoo.so"));
        std::fs::create_dir(folder.path().join("b")).unwrap();
        std::fs::write(&one, b"").unwrap();
        std::fs::write(&two, b"").unwrap();
        let paths = [one.to_string_lossy().into_owned(), two.to_string_lossy().into_owned()];
        let found = places(folder.path()).resolve(&paths).unwrap();
        assert_eq!([found[0].name.as_str(), found[1].name.as_str()], ["foo", "foo-2"]);
        assert!(found.iter().all(|one| one.kind == Kind::Preload && one.unavailable.is_none()));
        let prefixed = format!("{}:symbols=foo_", paths[0]);
        let found = places(folder.path()).resolve(&[prefixed]).unwrap();
        assert_eq!((found[0].kind, found[0].name.as_str()), (Kind::Prefixed, "foo"));
        assert_eq!(found[0].target().to_string_lossy(), format!("prefix:foo_:{}", paths[0]));
    }

    #[test]
    fn an_allocator_with_other_settings_is_another_entry() {
        let folder = tempfile::tempdir().unwrap();
        let list =
            names(&["glibc", "glibc:MALLOC_ARENA_MAX=1", "glibc:MALLOC_ARENA_MAX=1", "null:A=1"]);
        let found = places(folder.path()).resolve(&list).unwrap();
        let shown: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(shown, ["glibc", "glibc:MALLOC_ARENA_MAX=1", "null"]);
        let labelled = &places(folder.path()).resolve(&names(&["one=glibc:A=1"])).unwrap()[0];
        assert_eq!((labelled.name.as_str(), labelled.environment.len()), ("one", 1));
        let bridge = Path::new("bridge.so");
        assert_eq!(found[2].program_environment(bridge), None);
        let own = found[1].program_environment(bridge).unwrap();
        assert_eq!(own, [("MALLOC_ARENA_MAX".into(), "1".into())], "{own:?}");
        let environment: Vec<_> =
            found[1].command(Path::new("player")).get_envs().map(|one| one.0.to_owned()).collect();
        assert!(environment.contains(&"MALLOC_ARENA_MAX".into()), "{environment:?}");
    }
}
