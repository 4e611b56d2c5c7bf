//! The process to attach to: whether the recorder can enter it, and where its functions are.

use crate::Error;
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};
use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// What the kernel adds to the path of a file that was removed.
const DELETED: &str = " (deleted)";

/// A process that can be entered.
pub struct Target {
    pub pid: u32,
    /// The effective user and group.
    pub user: u32,
    pub group: u32,
    /// The path of its program.
    pub program: PathBuf,
    code: Option<Library>,
    libc: Library,
    libdl: Option<Library>,
}

/// An object file of the process.
struct Library {
    path: PathBuf,
    /// Where its offset 0 is mapped.
    base: u64,
    end: u64,
}

/// The functions that are called in the process.
pub struct Functions {
    pub dlopen: u64,
    pub dlopen_flags: u64,
    pub dlsym: u64,
    pub dlerror: u64,
    pub errno: u64,
    /// A `syscall` instruction before a return.
    pub syscall: u64,
    /// To where signal handlers return.
    pub handler_returns: u64,
    /// Functions of the C library that wait and hold no lock.
    pub waiting: Vec<Range<u64>>,
}

fn refuse(pid: u32, reason: impl Into<String>) -> Error {
    Error::Attach { pid, reason: reason.into() }
}

/// A line of /proc/PID/status.
fn field(status: &str, name: &str) -> Option<String> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim_start_matches(':').trim().to_owned())
}

fn number(status: &str, name: &str, word: usize) -> u32 {
    let text = field(status, name).unwrap_or_default();
    text.split_whitespace().nth(word).and_then(|word| word.parse().ok()).unwrap_or(0)
}

impl Target {
    /// Checks everything that can be checked without stopping the process.
    ///
    /// # Errors
    /// [`Error::Attach`] with the reason.
    pub fn check(pid: u32) -> Result<Target, Error> {
        let no = |reason: &str| refuse(pid, reason);
        if pid == std::process::id() {
            return Err(no("it is keel itself"));
        }
        let status = fs::read_to_string(format!("/proc/{pid}/status"))
            .map_err(|_| no("there is no such process"))?;
        if number(&status, "Tgid", 0) != pid {
            return Err(no("it is a thread; give the id of its process (Tgid)"));
        }
        match field(&status, "State").unwrap_or_default().chars().next() {
            Some('Z' | 'X') => return Err(no("it has ended")),
            Some('T' | 't') => {
                return Err(no("it is stopped; continue it first (kill -CONT, or its debugger)"));
            }
            _ => {}
        }
        let tracer = number(&status, "TracerPid", 0);
        if tracer != 0 {
            return Err(no(&format!("process {tracer} traces it already, such as a debugger")));
        }
        if number(&status, "Seccomp", 0) != 0 {
            return Err(no("it has a seccomp filter, which may end it when the recorder makes a \
                           system call; record it from its start"));
        }
        if field(&status, "x86_Thread_features").is_some_and(|all| all.contains("shstk")) {
            return Err(no("its stack is protected (shadow stack); record it from its start"));
        }
        let program = fs::read_link(format!("/proc/{pid}/exe"))
            .map_err(|error| refused_by_system(pid, &error))?;
        check_places(pid)?;
        check_program(pid)?;
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))
            .map_err(|error| refused_by_system(pid, &error))?;
        let libc = libc_of(pid, &maps)?;
        let libdl = library(&maps, "libdl.so.2").or_else(|| library(&maps, "libdl-"));
        let (user, group) = (number(&status, "Uid", 1), number(&status, "Gid", 1));
        let code = mapped(&maps, |path| Path::new(path) == program);
        Ok(Target { pid, user, group, program, code, libc, libdl })
    }

    /// Looks up what is called in the process.
    ///
    /// # Errors
    /// [`Error::Attach`] if its C library lacks something.
    pub fn functions(&self) -> Result<Functions, Error> {
        /// `__RTLD_DLOPEN`, which the C library's internal function needs.
        const INTERNAL: u64 = 0x8000_0000;
        let now = libc::RTLD_NOW as u64;
        let no = |reason: &str| refuse(self.pid, reason);
        let data = fs::read(&self.libc.path)
            .map_err(|error| refuse(self.pid, format!("its C library cannot be read: {error}")))?;
        let find = |name: &str| symbol(&data, name).map(|value| self.libc.base + value);
        let in_libdl = |name: &str| {
            let library = self.libdl.as_ref()?;
            Some(library.base + symbol(&fs::read(&library.path).ok()?, name)?)
        };
        let public = |name: &str| find(name).or_else(|| in_libdl(name));
        let usual = public("dlopen").zip(public("dlsym"));
        let internal = || find("__libc_dlopen_mode").zip(find("__libc_dlsym"));
        let flags = if usual.is_some() { now } else { now | INTERNAL };
        let (dlopen, dlsym) = usual
            .or_else(internal)
            .ok_or_else(|| no("its C library has no dlopen; record it from its start"))?;
        let code = |bytes: &[u8]| code_with(&data, bytes).map(|value| self.libc.base + value);
        let unknown = || no("its C library is not known; record it from its start");
        let returns = code(&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05]);
        Ok(Functions {
            dlopen,
            dlopen_flags: flags,
            dlsym,
            dlerror: public("dlerror").unwrap_or(0),
            errno: find("__errno_location").ok_or_else(unknown)?,
            syscall: code(&[0x0f, 0x05, 0xc3]).ok_or_else(unknown)?,
            handler_returns: returns.ok_or_else(unknown)?,
            waiting: functions_in(&data, &WAITING, self.libc.base),
        })
    }

    /// Whether an address is in the C library.
    pub fn is_libc(&self, address: u64) -> bool {
        (self.libc.base..self.libc.end).contains(&address)
    }

    /// Whether an address is in the program's own file.
    pub fn is_program(&self, address: u64) -> bool {
        self.code.as_ref().is_some_and(|code| (code.base..code.end).contains(&address))
    }

    /// Where the recorder at this path is in the process, if it is loaded.
    pub fn recorder_base(&self, path: &Path) -> Option<u64> {
        let is_it = |mapped: &str| Path::new(mapped.trim_end_matches(DELETED)) == path;
        Some(mapped(&self.maps()?, is_it)?.base)
    }

    /// The addresses of functions of the recorder that the process has loaded at `base`, if `file`
    /// has its contents: the file of its path may be another one meanwhile.
    pub fn recorder_functions<const N: usize>(
        &self,
        base: u64,
        file: &Path,
        names: [&str; N],
    ) -> Option<[u64; N]> {
        /// With the build id.
        const COMPARED: usize = 4096;
        let data = fs::read(file).ok()?;
        let mut loaded = [0; COMPARED];
        let memory = fs::File::open(format!("/proc/{}/mem", self.pid)).ok()?;
        memory.read_exact_at(&mut loaded, base).ok()?;
        if data.get(..COMPARED)? != loaded {
            return None;
        }
        let found = names.map(|name| symbol(&data, name));
        found.iter().all(Option::is_some).then(|| found.map(|at| base + at.unwrap_or_default()))
    }

    /// The copy of the recorder that an earlier recording of this process has loaded.
    pub fn earlier_recorder(&self) -> Option<PathBuf> {
        let is_it = |path: &str| path.ends_with(&format!("/libkeel_recorder.so{DELETED}"));
        let path = mapped(&self.maps()?, is_it)?.path;
        Some(path.to_string_lossy().trim_end_matches(DELETED).into())
    }

    fn maps(&self) -> Option<String> {
        fs::read_to_string(format!("/proc/{}/maps", self.pid)).ok()
    }
}

/// Why the system refuses to look at a process, or to trace it.
pub fn refused_by_system(pid: u32, error: &std::io::Error) -> Error {
    if error.raw_os_error() == Some(libc::ESRCH) {
        return refuse(pid, "it has ended");
    }
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let scope = match scope.trim() {
        "" | "0" => String::new(),
        scope => format!(
            "; kernel.yama.ptrace_scope is {scope}, which allows only root (or with 3 nobody) to \
             attach"
        ),
    };
    refuse(
        pid,
        format!(
            "the system does not permit it ({error}): run keel as root, or as the user of the \
                 process{scope}"
        ),
    )
}

/// The process must see the files of this one.
fn check_places(pid: u32) -> Result<(), Error> {
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let root = fs::read_link(format!("/proc/{pid}/root")).unwrap_or_default();
    if namespace(&pid.to_string()) != namespace("self") || root != Path::new("/") {
        return Err(refuse(
            pid,
            "it runs in a container or in another root folder, where it cannot open the files of \
             keel; run keel inside of it",
        ));
    }
    Ok(())
}

fn check_program(pid: u32) -> Result<(), Error> {
    let path = PathBuf::from(format!("/proc/{pid}/exe"));
    match crate::program::check_recordable(&path) {
        Err(Error::NotRecordable { reason, .. } | Error::NotExecutable { reason, .. }) => {
            Err(refuse(pid, reason))
        }
        Err(error) => Err(error),
        Ok(()) => Ok(()),
    }
}

fn libc_of(pid: u32, maps: &str) -> Result<Library, Error> {
    if maps.lines().any(|line| line.contains("/ld-musl-")) {
        return Err(refuse(
            pid,
            "it uses musl, which has no room for the recorder's variables in threads that run; \
             record it from its start",
        ));
    }
    library(maps, "libc.so.6").or_else(|| library(maps, "libc-2.")).ok_or_else(|| {
        refuse(pid, "it does not use glibc; record it from its start, if it is linked dynamically")
    })
}

/// The object file whose name begins with this.
fn library(maps: &str, name: &str) -> Option<Library> {
    mapped(maps, |path| path.rsplit('/').next().is_some_and(|file| file.starts_with(name)))
}

fn mapped(maps: &str, is_it: impl Fn(&str) -> bool) -> Option<Library> {
    let mut found: Option<Library> = None;
    for line in maps.lines() {
        let Some(at) = line.find('/') else { continue };
        let path = &line[at..];
        let mut words = line.split_whitespace();
        let (Some(range), Some(offset)) = (words.next(), words.nth(1)) else { continue };
        let Some((start, end)) = range.split_once('-') else { continue };
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (Some(start), Some(end), Some(offset)) = (number(start), number(end), number(offset))
        else {
            continue;
        };
        match &mut found {
            Some(library) if library.path == Path::new(path) => library.end = end,
            None if offset == 0 && is_it(path) => {
                found = Some(Library { path: path.into(), base: start, end });
            }
            _ => {}
        }
    }
    found
}

/// The address of an exported function, from the beginning of its file's memory.
fn symbol(data: &[u8], name: &str) -> Option<u64> {
    let file = object::File::parse(data).ok()?;
    let is_it = |symbol: &object::Symbol<'_, '_>| {
        symbol.is_definition() && symbol.name().is_ok_and(|found| found == name)
    };
    file.dynamic_symbols().find(is_it).map(|symbol| symbol.address())
}

/// The address of a function of an object file, from the beginning of its memory.
pub fn exported(file: &Path, name: &str) -> Option<u64> {
    symbol(&fs::read(file).ok()?, name)
}

/// Functions in which signals usually arrive.
const WAITING: [&str; 27] = [
    "read",
    "write",
    "poll",
    "ppoll",
    "select",
    "pselect",
    "epoll_wait",
    "epoll_pwait",
    "nanosleep",
    "clock_nanosleep",
    "accept",
    "accept4",
    "recv",
    "recvfrom",
    "recvmsg",
    "send",
    "sendto",
    "sendmsg",
    "wait4",
    "waitid",
    "waitpid",
    "pause",
    "sigsuspend",
    "sigtimedwait",
    "sigwait",
    "semop",
    "kill",
];

/// Where these functions are.
fn functions_in(data: &[u8], names: &[&str], base: u64) -> Vec<Range<u64>> {
    let Ok(file) = object::File::parse(data) else { return Vec::new() };
    let is_it = |symbol: &object::Symbol<'_, '_>| {
        symbol.is_definition() && symbol.name().is_ok_and(|name| names.contains(&name))
    };
    let range = |symbol: object::Symbol<'_, '_>| {
        let start = base + symbol.address();
        start..start + symbol.size()
    };
    file.dynamic_symbols().filter(is_it).map(range).collect()
}

/// The address of code with these bytes.
fn code_with(data: &[u8], bytes: &[u8]) -> Option<u64> {
    let file = object::File::parse(data).ok()?;
    file.segments().find_map(|segment| {
        let object::SegmentFlags::Elf { p_flags } = segment.flags() else { return None };
        let is_code = p_flags & object::elf::PF_X != 0;
        let code = segment.data().ok().filter(|_| is_code)?;
        let at = code.windows(bytes.len()).position(|window| window == bytes)?;
        Some(segment.address() + at as u64)
    })
}
