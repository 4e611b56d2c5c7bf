//! The names of code that a just-in-time compiler or an interpreter made, from the map that it
//! writes for `perf`.
//!
//! `/tmp/perf-PID.map` has lines `START SIZE NAME`; the numbers are hexadecimal. Code may be
//! replaced, so the last line of an address is used.

use keel_journal::{NamedCall, Stacks};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A process may have begun this long before it is noticed.
const NOTICED_AFTER: Duration = Duration::from_secs(60);
/// The kinds of code that V8 puts before a name.
const V8_KINDS: [&str; 6] = ["JS", "LazyCompile", "Function", "Eval", "Script", "Builtin"];

/// A map that a recorded process wrote.
#[derive(Debug)]
pub struct PerfMap {
    file: File,
}

impl PerfMap {
    /// The map of a process that was first noticed at this time; None if it has written none.
    pub fn find(pid: u32, noticed: SystemTime) -> Option<PerfMap> {
        let path = PathBuf::from(format!("/tmp/perf-{pid}.map"));
        PerfMap::open(&path, noticed.checked_sub(NOTICED_AFTER)?)
    }

    /// Everyone may write to the folder: links and the files of other users are not read. An older
    /// file is that of another process, which had the same number.
    fn open(path: &Path, earliest: SystemTime) -> Option<PerfMap> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
        let status = file.metadata().ok()?;
        // SAFETY: the call cannot fail and has no arguments.
        let user = unsafe { libc::geteuid() };
        let is_trusted = status.is_file() && [user, 0].contains(&status.uid());
        let is_recent = status.modified().is_ok_and(|modified| modified >= earliest);
        (is_trusted && is_recent).then_some(PerfMap { file })
    }

    /// Names the sites that are in no module.
    pub fn name(&self, stacks: &mut Stacks) {
        let sites = stacks.sites.iter().zip(0..).filter(|((module, _), _)| *module < 0);
        // The call instruction ends at the return address.
        let mut calls: Vec<(u64, u32, Option<String>)> =
            sites.map(|((_, address), site)| (address.saturating_sub(1), site, None)).collect();
        calls.sort_unstable();
        for line in BufReader::new(&self.file).split(b'\n') {
            let Ok(line) = line else { break };
            let line = String::from_utf8_lossy(&line);
            let Some((start, end, name)) = parse(&line) else { continue };
            let first = calls.partition_point(|call| call.0 < start);
            for call in calls[first..].iter_mut().take_while(|call| call.0 < end) {
                call.2 = Some(name.to_owned());
            }
        }
        calls.sort_unstable_by_key(|call| call.1);
        let named = calls.into_iter().filter_map(|(_, site, name)| Some(described(site, &name?)));
        stacks.names.extend(named);
    }
}

/// The range of addresses and the name of a line.
fn parse(line: &str) -> Option<(u64, u64, &str)> {
    let (start, rest) = line.split_once(' ')?;
    let (size, name) = rest.split_once(' ')?;
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let start = number(start)?;
    Some((start, start.saturating_add(number(size)?), name.trim()))
}

/// The call with this name. Python's names are `py::FUNCTION:FILE`, those of V8 `KIND:FUNCTION
/// FILE:LINE:COLUMN`, in which a sign for the compiler may precede the function.
fn described(site: u32, name: &str) -> NamedCall {
    let plain = NamedCall { site, function: name.to_owned(), ..NamedCall::default() };
    if let Some((function, file)) = name.strip_prefix("py::").and_then(|rest| rest.split_once(':'))
    {
        return NamedCall { function: function.to_owned(), file: file.to_owned(), ..plain };
    }
    let Some((kind, rest)) = name.split_once(':') else { return plain };
    if !V8_KINDS.contains(&kind) {
        return plain;
    }
    let rest = rest.trim_start_matches(['*', '~', '^', '+', '`']);
    let (function, place) = rest.split_once(' ').unwrap_or((rest, ""));
    let mut parts = place.rsplitn(3, ':');
    let (column, line, file) = (parts.next(), parts.next(), parts.next());
    let function = if function.is_empty() { "(anonymous)" } else { function };
    let placed = column.and_then(|column| column.parse::<u32>().ok());
    let line = line.and_then(|line| line.parse().ok()).filter(|_| placed.is_some());
    let (Some(line), Some(file)) = (line, file) else {
        return NamedCall { function: function.to_owned(), ..plain };
    };
    let file = file.strip_prefix("file://").unwrap_or(file).to_owned();
    NamedCall { function: function.to_owned(), file, line, ..plain }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn call(name: &str) -> (String, String, u32) {
        let call = described(0, name);
        (call.function, call.file, call.line)
    }

    #[test]
    fn names_of_python_and_v8_have_files_and_lines() {
        let text = |function: &str, file: &str, line| (function.to_owned(), file.to_owned(), line);
        assert_eq!(call("py::load:/game/level.py"), text("load", "/game/level.py", 0));
        assert_eq!(call("JS:*load file:///game/a.js:12:3"), text("load", "/game/a.js", 12));
        assert_eq!(call("LazyCompile:~ /a b/c.js:1:2"), text("(anonymous)", "/a b/c.js", 1));
        assert_eq!(call("Builtin:ArrayMap"), text("ArrayMap", "", 0));
        assert_eq!(call("void [Game] Level::Load()"), text("void [Game] Level::Load()", "", 0));
    }

    #[test]
    fn the_last_line_of_an_address_names_its_sites() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf-1.map");
        std::fs::write(&path, "1000 10 old\nx y\n2000 10 py::two:/b.py\n1000 10 new\n3000\n")
            .unwrap();
        let map = PerfMap::open(&path, SystemTime::UNIX_EPOCH).unwrap();
        // The return address after the last instruction belongs to the function.
        let sites = vec![(-1, 0x1010), (0, 0x1008), (-1, 0x2001), (-1, 0x1011), (-1, 0x1000)];
        let mut stacks = Stacks { sites, ..Stacks::default() };
        map.name(&mut stacks);
        let names: Vec<(u32, &str)> =
            stacks.names.iter().map(|name| (name.site, name.function.as_str())).collect();
        assert_eq!(names, [(0, "new"), (2, "two")]);
    }

    #[test]
    fn old_files_and_links_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf-1.map");
        std::fs::write(&path, "").unwrap();
        let later = SystemTime::now() + Duration::from_secs(60);
        assert!(PerfMap::open(&path, later).is_none());
        let link = folder.path().join("perf-2.map");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(PerfMap::open(&link, SystemTime::UNIX_EPOCH).is_none());
        assert!(PerfMap::open(&path, SystemTime::UNIX_EPOCH).is_some());
    }
}
