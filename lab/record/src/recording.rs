//! The recording: starts the program, and reads its rings until it has ended.

use crate::clock::Clock;
use crate::collector::Collector;
use crate::contained::{self, Contained};
use crate::encode::Encoder;
use crate::launch::{self, Orphans, Signals, Start};
use crate::session::{Session, Settings};
use crate::wait::{Signal, Wait};
use crate::{Error, Options, Progress, Recorded, paths, program, ring};
use keel_journal::Writer;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// Records a program from its start to its end, and writes its journals.
///
/// The program uses the standard streams; signals sent to this process are forwarded to it. Blocks
/// until the program (with `follow_children`, its whole tree) has ended and the journals are
/// written. One recording at a time in a process.
///
/// # Errors Errors before the start; the program has not run then. Later problems are in
/// [`Recorded::problems`] and in each journal, because the program continues.
pub fn record(options: &Options) -> Result<Recorded, Error> {
    record_with(options, &mut |_| {})
}

/// As [`record`]; reports the progress twice a second.
///
/// # Errors
/// As [`record`].
pub fn record_with(options: &Options, report: &mut dyn FnMut(Progress)) -> Result<Recorded, Error> {
    let (path, contained, recorder_library) = prepare(options)?;
    let options = Options { recorder_library, ..options.clone() };
    let (options, writer) = prepare_output(options)?;
    let options = &options;
    let kind = Clock::best_kind();
    let session = Session::create(&options.spool_folder, Settings::of(options, kind))?;
    session.store_patches(&contained.patches)?;
    let start_error = |cause| Error::Start { path: path.clone(), cause };
    let environment = environment(options, &session).map_err(start_error)?;
    let (bell, encoder_bell) = (session.bell(), session.bell());
    let encoder = Encoder::start(options, move || encoder_bell.ring()).map_err(start_error)?;
    let awaited = options.wait.as_ref().and_then(Wait::signal).map(Signal::number);
    let signals = Signals::take(awaited);
    let orphans = Orphans::adopt(options.only_children);
    let mut collector = Collector::new(options, session, encoder, kind, writer);
    let start =
        Start { path: &path, name: &options.program, arguments: &options.arguments, environment };
    let file = options.watch.as_ref().and_then(|watch| watch.output.as_ref());
    let file = file.map(std::fs::File::create).transpose().map_err(start_error)?;
    let running = launch::start(&start, file, collector.control(), move || bell.ring())
        .map_err(start_error)?;
    signals.pass_to(running.pid);
    let status = collector.run(&running, &signals, &orphans, report).map_err(start_error)?;
    let mut recorded = collector.finish(&path, status);
    let stripped = || contained::without_symbols(&path).filter(|_| contained.patches.is_empty());
    if !options.embedded {
        recorded.notes.extend(contained.note.or_else(stripped));
    }
    Ok(Recorded { signal: signals.last(), ..recorded })
}

/// Returns the program's file, if it can be recorded. Changes nothing.
///
/// # Errors
/// Those of [`record`] that concern the program.
pub fn check(options: &Options) -> Result<PathBuf, Error> {
    prepare(options).map(|(path, ..)| path)
}

/// Returns the program's file, how its own allocator is recorded, and the recorder for it.
fn prepare(options: &Options) -> Result<(PathBuf, Contained, PathBuf), Error> {
    let path = program::find(&options.program, options.search_path.as_deref())?;
    if options.embedded {
        return Ok((path, Contained::default(), options.recorder_library.clone()));
    }
    let file = program::check_loadable(&path)?;
    let recorder = program::recorder(&options.recorder_library, &file)?;
    if !cfg!(target_arch = "x86_64") {
        program::check_recordable(&file)?;
        return Ok((path, Contained::default(), recorder));
    }
    let contained = contained::find(&file, &recorder)?;
    Ok((path, contained, recorder))
}

/// Checks before the start that the journal can be written. A single journal is created now, and
/// the options name it as it is: what a link names.
pub fn prepare_output(options: Options) -> Result<(Options, Option<Writer>), Error> {
    if options.watch.is_some() {
        return Ok((options, None));
    }
    if options.follow_children {
        let probe = paths::of_process(&options, std::process::id(), 0);
        drop(Writer::create(probe).map_err(Error::Journal)?);
        return Ok((options, None));
    }
    let writer = Writer::create(&options.output).map_err(Error::Journal)?;
    let options = Options { output: writer.place().path(), ..options };
    let writer = options.wait.is_none().then(|| writer.with_refuges(&options.refuges));
    Ok((options, writer))
}

fn environment(options: &Options, session: &Session) -> io::Result<Vec<(&'static str, OsString)>> {
    let folder = (ring::SESSION_VARIABLE, session.folder().into());
    let mut environment = options.environment.clone();
    environment.push(folder);
    if options.embedded {
        return Ok(environment);
    }
    let mut preload = preloadable(&options.recorder_library, session)?;
    let further = options.further_library.as_ref().map(|library| preloadable(library, session));
    let others = options.preload.clone().filter(|others| !others.is_empty());
    for library in further.transpose()?.into_iter().chain(others) {
        preload.push(":");
        preload.push(library);
    }
    environment.push(("LD_PRELOAD", preload));
    Ok(environment)
}

/// The library's path for LD_PRELOAD, which is split at spaces and colons, and has no quoting.
fn preloadable(library: &Path, session: &Session) -> io::Result<OsString> {
    let library = library.canonicalize()?;
    if !library.to_string_lossy().contains([' ', ':']) {
        return Ok(library.into_os_string());
    }
    let link = session.folder().join(library.file_name().unwrap_or_default());
    if link.to_string_lossy().contains([' ', ':']) {
        return Err(io::Error::other(format!(
            "LD_PRELOAD cannot contain spaces and colons, and both {} and {} have some; name \
             another folder with --spool",
            library.display(),
            session.folder().display()
        )));
    }
    std::os::unix::fs::symlink(&library, &link)?;
    Ok(link.into_os_string())
}
