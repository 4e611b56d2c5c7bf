//! `keel watch`: shows what a program allocates while it runs.

mod screen;
mod view;

use self::screen::Screen;
use self::view::View;
use super::record::common::ScopeArguments;
use super::record::{exit_code, set_program};
use crate::output;
use anyhow::{Result, bail};
use clap::Args;
use keel_record::{Counts, Options, Progress, Recorded, Snapshot, Watch};
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(1);
/// Stack frames, unless the user says otherwise.
const STACKS: u32 = 16;

/// Show what a program allocates while it runs
///
/// Once a second: allocations and bytes per second, live blocks, the call sites that allocate most,
/// and how long calls take. No journal is written. The program is started, or runs already; then
/// keel enters it as `keel attach` does.
///
/// On a terminal, `q` or Ctrl-C ends the view, and the program continues. A program that keel
/// started gets an empty standard input then, and its output is printed at the end. Otherwise keel
/// prints one line a second, and a signal to keel acts as with `keel record` and `keel attach`.
///
/// The times of calls are those of malloc, calloc, realloc and their kin, interruptions by the
/// system included; of short calls only the number is known. With --sample they are those of the
/// samples.
///
/// The exit code is that of the program if keel started it and it has ended, otherwise 0. It is 1
/// instead of 0 if keel lost operations.
#[derive(Args)]
#[command(after_help = "Examples:\n  keel watch $(pidof redis-server) --sample\n  \
                        keel watch -- ./game --level 3\n  \
                        keel watch 4711 --for 60 --json > watched.jsonl")]
pub struct Arguments {
    /// The process id of a program that runs already
    #[arg(value_name = "PID", required_unless_present = "command", conflicts_with = "command",
          value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    #[command(flatten)]
    scope: ScopeArguments,
    /// Show this many call sites
    #[arg(long, value_name = "N", default_value_t = 15)]
    top: usize,
    /// Also write the view to this file, as an HTML page that renews itself each second
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Print a line of JSON each second, and one with the sums at the end
    #[arg(long)]
    json: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Watches until the program ends, or the user has seen enough.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let Arguments { pid, scope, top, page, json, command } = arguments;
    let stop = Arc::new(AtomicBool::new(false));
    let terminals = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let is_screen = terminals && !json;
    let file = (is_screen && pid.is_none()).then(tempfile::NamedTempFile::new).transpose()?;
    let output = file.as_ref().map(|file| file.path().to_path_buf());
    let mut options = scope.options(STACKS)?;
    options.watch = Some(Watch { interval: INTERVAL, stop: Arc::clone(&stop), output });
    if pid.is_none() {
        set_program(&mut options, command);
        keel_record::check(&options)?;
    }
    let sampled = options.sample.map(|sample| sample.bytes);
    let view = View::new(title(&options, pid), sampled, top);
    let screen = is_screen.then(|| Screen::take(stop)).transpose()?;
    let mut shown = Shown { view, screen, page, json, error: None };
    let recorded = watch(&options, pid, &mut |progress| shown.progress(&progress));
    shown.screen = None; // restores the terminal before anything is printed
    if let Some(file) = &file {
        let mut program = std::fs::File::open(file.path())?;
        std::io::copy(&mut program, &mut std::io::stdout().lock())?;
    }
    let recorded = recorded?;
    if let Some(error) = shown.error.take() {
        return Err(error);
    }
    shown.end(&recorded)?;
    Ok(exit_code(&recorded))
}

fn watch(
    options: &Options,
    pid: Option<u32>,
    report: &mut dyn FnMut(Progress),
) -> Result<Recorded, keel_record::Error> {
    match pid {
        Some(pid) => keel_record::attach_with(pid, options, report),
        None => keel_record::record_with(options, report),
    }
}

fn title(options: &Options, pid: Option<u32>) -> String {
    let Some(pid) = pid else {
        let name = Path::new(&options.program).file_name().unwrap_or_default();
        return name.to_string_lossy().into_owned();
    };
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{} [{pid}]", name.trim())
}

/// Where the view is shown.
struct Shown {
    view: View,
    screen: Option<Screen>,
    page: Option<PathBuf>,
    json: bool,
    /// The first failure to show it. The program is not disturbed by it.
    error: Option<anyhow::Error>,
}

impl Shown {
    fn progress(&mut self, progress: &Progress) {
        for now in &progress.watched {
            let shown = self.show(now);
            self.error = self.error.take().or(shown.err());
        }
    }

    fn show(&mut self, now: &Snapshot) -> Result<()> {
        if let Some(screen) = &self.screen {
            screen.draw(&self.view.lines(now))?;
        } else if self.json {
            output::print(&format!("{}\n", self.view.json(now)))?;
        } else {
            output::print_text(&format!("{}\n", self.view.line(now)))?;
        }
        match &self.page {
            Some(path) => write_page(path, &self.view.lines(now)),
            None => Ok(()),
        }
    }

    fn end(&mut self, recorded: &Recorded) -> Result<()> {
        /// The time of --for ends soon after an interval.
        const SECONDS_FEWEST: f64 = 0.1;
        // Of a program that ends, a short interval has its last calls.
        let is_empty = |now: &Snapshot| {
            now.interval_seconds < SECONDS_FEWEST && now.interval == Counts::default()
        };
        let mut last = recorded.watched.iter().filter(|now| !is_empty(now));
        last.try_for_each(|now| self.show(now))?;
        if let Some(now) = recorded.watched.last().filter(|_| !self.json) {
            output::print_text(&format!("{}\n", self.view.totals(now)))?;
        }
        if recorded.still_runs {
            say!("keel watch: note: the program still runs");
        }
        for note in &recorded.notes {
            say!("keel watch: note: {note}");
        }
        for problem in &recorded.problems {
            say!("keel watch: error: {problem}");
        }
        if recorded.watched.is_empty() && recorded.problems.is_empty() {
            bail!("nothing was recorded");
        }
        Ok(())
    }
}

/// Writes the page, of which a browser never reads half.
fn write_page(path: &Path, lines: &[String]) -> Result<()> {
    let text = lines.join("\n").replace('&', "&amp;").replace('<', "&lt;");
    let page = format!(
        "<!doctype html>\n<meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"1\">\n\
         <title>keel watch</title>\n<pre>{text}</pre>\n"
    );
    output::write_whole(path, page.as_bytes())
}
