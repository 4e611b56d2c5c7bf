//! The recording: starts the program, and reads its rings until it has ended.

use crate::clock::Clock;
use crate::encode::{Begin, Encoder, Finished, Rows, Work};
use crate::launch::{self, Running, Signals, Start};
use crate::process::Process;
use crate::rows::Filter;
use crate::session::{self, Session, Settings, Spool};
use crate::{Error, Journal, Options, Progress, Recorded, machine, origins, program, ring};
use keel_journal::Writer;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// A thread that is interrupted between reading the clock and storing its event rarely stays so for
/// longer.
const SLACK_NS: u64 = 2_000_000;
/// After this time the error of the frequency is 1e-5.
const CALIBRATION: Duration = Duration::from_millis(5);
const BUSY_WAIT: Duration = Duration::from_millis(4);
const IDLE_WAIT: Duration = Duration::from_millis(20);
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

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
    let path = program::find(&options.program, options.search_path.as_deref())?;
    if !options.embedded {
        program::check_recordable(&path)?;
    }
    let writer = prepare_output(options)?;
    let kind = Clock::best_kind();
    let settings = Settings {
        clock_kind: kind,
        follow: options.follow_children,
        stacks: options.stacks,
        embedded: options.embedded,
    };
    let session = Session::create(&options.spool_folder, settings)?;
    let start_error = |cause| Error::Start { path: path.clone(), cause };
    let environment = environment(options, &session).map_err(start_error)?;
    let (bell, encoder_bell) = (session.bell(), session.bell());
    let encoder = Encoder::start(move || encoder_bell.ring()).map_err(start_error)?;
    let mut collector = Collector::new(options, session, encoder, kind, writer);
    let signals = Signals::take();
    let start =
        Start { path: &path, name: &options.program, arguments: &options.arguments, environment };
    let running = launch::start(&start, collector.session.control(), move || bell.ring())
        .map_err(start_error)?;
    signals.pass_to(running.pid);
    let status = collector.run(&running, report).map_err(start_error)?;
    Ok(collector.finish(&path, running.pid, status))
}

/// Checks before the start that the journal can be written. A single journal is created now.
fn prepare_output(options: &Options) -> Result<Option<Writer>, Error> {
    if !options.follow_children {
        return Ok(Some(Writer::create(&options.output).map_err(Error::Journal)?));
    }
    let probe = journal_path(options, std::process::id(), 0);
    drop(Writer::create(probe).map_err(Error::Journal)?);
    Ok(None)
}

/// `<name>.<pid>.journal.parquet`; a pid that was used before in this recording gets a number as
/// well.
fn journal_path(options: &Options, pid: u32, uses: usize) -> PathBuf {
    if !options.follow_children {
        return options.output.clone();
    }
    let name = options.output.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stem = name.strip_suffix(".parquet").unwrap_or(&name);
    let stem = stem.strip_suffix(".journal").unwrap_or(stem);
    let number = if uses == 0 { String::new() } else { format!("-{}", uses + 1) };
    options.output.with_file_name(format!("{stem}.{pid}{number}.journal.parquet"))
}

fn environment(
    options: &Options,
    session: &Session,
) -> std::io::Result<Vec<(&'static str, OsString)>> {
    let folder = (ring::SESSION_VARIABLE, session.folder().into());
    if options.embedded {
        return Ok(vec![folder]);
    }
    let mut library = options.recorder_library.canonicalize()?;
    // LD_PRELOAD is split at spaces and colons, and has no quoting.
    if library.to_string_lossy().contains([' ', ':']) {
        let link = session.folder().join("recorder.so");
        std::os::unix::fs::symlink(&library, &link)?;
        library = link;
    }
    let mut preload = library.into_os_string();
    if let Some(others) = options.preload.as_ref().filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    Ok(vec![("LD_PRELOAD", preload), folder])
}

struct Collector<'a> {
    options: &'a Options,
    session: Session,
    encoder: Encoder,
    clock: Clock,
    began: Instant,
    calibrated: Instant,
    writer: Option<Writer>,
    processes: Vec<Process>,
    known: Vec<PathBuf>,
    announced: u32,
    /// The time after which no rows are wanted, in ticks.
    until: Option<u64>,
    reported: Instant,
    problems: Vec<String>,
}

impl<'a> Collector<'a> {
    fn new(
        options: &'a Options,
        session: Session,
        encoder: Encoder,
        kind: u32,
        writer: Option<Writer>,
    ) -> Self {
        let began = Instant::now();
        Collector {
            options,
            session,
            encoder,
            clock: Clock::start(kind),
            began,
            calibrated: began,
            writer,
            processes: Vec::new(),
            known: Vec::new(),
            announced: 0,
            until: None,
            reported: began,
            problems: Vec::new(),
        }
    }

    /// Empties the rings until everything recorded has ended.
    fn run(
        &mut self,
        running: &Running,
        report: &mut dyn FnMut(Progress),
    ) -> std::io::Result<ExitStatus> {
        let mut status = None;
        let mut wait = BUSY_WAIT;
        loop {
            self.session.wait(wait);
            if status.is_none() {
                status = running.ended.try_recv().ok().transpose()?;
            }
            if self.began.elapsed() < CALIBRATION {
                std::thread::sleep(CALIBRATION);
            }
            self.calibrate();
            let root_gone = status.is_some();
            // Checked before the rings are read, so that the last reading comes after the end.
            let gone: Vec<bool> =
                self.processes.iter().map(|p| p.is_gone(running.pid, root_gone)).collect();
            self.admit_new();
            let events = self.read_all();
            for (index, gone) in gone.into_iter().enumerate() {
                if gone && !self.processes[index].ended {
                    self.end(index);
                }
            }
            let now = self.clock.now();
            if self.encoder.is_over() || self.until.is_some_and(|until| now > until) {
                self.session.stop();
            }
            self.report(report);
            wait = if events > 0 { BUSY_WAIT } else { IDLE_WAIT };
            if let Some(status) = status {
                // A process admitted in this round has not been checked for its end yet.
                if self.processes.iter().all(|process| process.ended) {
                    return Ok(status);
                }
                wait = BUSY_WAIT;
            }
        }
    }

    fn report(&mut self, report: &mut dyn FnMut(Progress)) {
        if self.reported.elapsed() < PROGRESS_EVERY {
            return;
        }
        self.reported = Instant::now();
        let (operations, live_bytes) = self.encoder.progress();
        report(Progress { seconds: self.began.elapsed().as_secs_f64(), operations, live_bytes });
    }

    fn calibrate(&mut self) {
        let interval = if self.began.elapsed() < Duration::from_secs(1) { 10 } else { 100 };
        if self.calibrated == self.began
            || self.calibrated.elapsed() >= Duration::from_millis(interval)
        {
            self.clock.calibrate();
            self.calibrated = Instant::now();
        }
    }

    /// Maps the spools that have been announced.
    fn admit_new(&mut self) {
        let control = self.session.control();
        let failed = control.failed.swap(0, Relaxed);
        if failed != 0 {
            let error = std::io::Error::from_raw_os_error(failed as i32);
            let folder = self.session.folder().display();
            self.problems.push(format!(
                "a process could not be recorded: no room for its rings in {folder} ({error})"
            ));
        }
        let announced = control.spools.load(Acquire);
        if announced == self.announced {
            return;
        }
        self.announced = announced;
        for path in self.session.new_spools(&self.known) {
            match Spool::open(&path) {
                Ok(None) => continue,
                Ok(Some(spool)) => self.admit(spool),
                Err(error) => {
                    self.problems.push(format!("cannot read {}: {error}", path.display()))
                }
            }
            self.known.push(path);
        }
    }

    fn admit(&mut self, spool: Spool) {
        let header = spool.header();
        let pid = header.pid.load(Relaxed);
        let program = session::text(&header.program);
        let arguments = session::arguments(&header.arguments);
        let allocator = session::text(&header.allocator);
        let same = self.processes.iter().position(|process| process.pid == pid && !process.ended);
        let index = if let Some(index) = same {
            self.read_last(index);
            let process = &mut self.processes[index];
            process.add_stalls();
            process.spool = spool;
            let names = process.take_names();
            self.encoder.send(Work::Exec { process: index, names });
            index
        } else {
            let mut metadata = machine::describe();
            metadata.program = program.clone();
            metadata.arguments = arguments.clone();
            metadata.allocator = allocator.clone();
            self.begin(pid, spool, metadata);
            self.processes.len() - 1
        };
        let maps = origins::parse_maps(&self.processes[index].spool.maps());
        self.processes[index].code.take(&maps);
        self.send_rows(index, 0, Vec::new(), Some(maps));
        let process = &mut self.processes[index];
        process.metadata.program = program;
        process.metadata.arguments = arguments;
        process.metadata.allocator = allocator;
        self.read(index);
    }

    fn begin(&mut self, pid: u32, spool: Spool, mut metadata: keel_journal::Metadata) {
        let origin = spool.started(&self.clock);
        let uses = self.processes.iter().filter(|process| process.pid == pid).count();
        let path = journal_path(self.options, pid, uses);
        let process = self.processes.len();
        let (clock, writer) = (self.clock, self.writer.take());
        let first = self.processes.first().map_or(origin, |process| process.began);
        let after = self.options.after.unwrap_or_default();
        if self.until.is_none() {
            let length = self.options.length.map(|length| after + length);
            self.until =
                length.map(|length| first.saturating_add(clock.ticks_in(length.as_nanos() as u64)));
        }
        // A process that begins after the start of the recorded span has nothing to leave out.
        let before = clock.duration(origin.saturating_sub(first));
        let filter = Filter {
            after_ns: (after.as_nanos() as u64).saturating_sub(before),
            skip_modules: self.options.skip_modules.clone(),
            max_operations: self.options.max_operations.unwrap_or(0),
        };
        metadata.writer = format!("keel record {}", env!("CARGO_PKG_VERSION"));
        metadata.pid = pid;
        metadata.started = machine::now();
        metadata.clock = self.clock.name().to_owned();
        metadata.clock_hz = self.clock.hz();
        self.encoder.send(Work::Begin(Box::new(Begin {
            process,
            origin,
            clock,
            path,
            writer,
            metadata: metadata.clone(),
            filter,
            max_bytes: self.options.max_bytes.unwrap_or(0),
        })));
        self.processes.push(Process::new(pid, spool, origin, metadata));
    }

    /// Reads all rings once. Returns the number of events.
    fn read_all(&mut self) -> usize {
        let mut events = 0;
        for index in 0..self.processes.len() {
            if !self.processes[index].ended && !self.encoder.is_behind() {
                events += self.read(index);
                self.processes[index].read_names();
            }
        }
        events
    }

    fn read(&mut self, index: usize) -> usize {
        let until = self.clock.now().saturating_sub(self.clock.ticks_in(SLACK_NS));
        if let Err(error) = self.processes[index].spool.prepare_rings() {
            self.session.stop();
            let folder = self.session.folder().display();
            let already = self
                .problems
                .iter()
                .any(|problem| problem.starts_with("the recording was cut short"));
            if !already {
                self.problems.push(format!(
                    "the recording was cut short: no room for another thread's ring in {folder} \
                        ({error}). \
                     What was recorded until then is kept; name a folder with room with --spool"
                ));
            }
        }
        self.read_rings(index, until, false)
    }

    /// Reads the rings for the last time: the process has ended, or its image has been replaced.
    fn read_last(&mut self, index: usize) {
        self.read_rings(index, u64::MAX, true);
    }

    fn read_rings(&mut self, index: usize, until: u64, last: bool) -> usize {
        let process = &mut self.processes[index];
        let mut rings = Vec::new();
        for ring in 0..process.spool.prepared() {
            let mut events = Vec::new();
            process.spool.read(ring, last, &mut events);
            if !events.is_empty() {
                rings.push((ring, events));
            }
        }
        let count = rings.iter().map(|(_, events)| events.len()).sum();
        let maps = process.new_maps(&rings);
        self.send_rows(index, until, rings, maps);
        count
    }

    fn send_rows(
        &mut self,
        index: usize,
        until: u64,
        rings: Vec<(u32, Vec<ring::RawEvent>)>,
        maps: Option<Vec<origins::Mapping>>,
    ) {
        let stopped = self.processes[index].spool.stopped().map(|(ticks, _)| ticks);
        let cut = [stopped, self.until].into_iter().flatten().min();
        let until = until.min(cut.unwrap_or(u64::MAX));
        let rows = Rows { process: index, maps, clock: self.clock, until, cut, rings };
        self.encoder.send(Work::Rows(rows));
    }

    fn end(&mut self, index: usize) {
        self.clock.calibrate();
        self.read_last(index);
        let now = self.clock.now();
        let process = &mut self.processes[index];
        process.close();
        process.seconds = self.clock.duration(now.saturating_sub(process.began)) as f64 / 1e9;
        process.add_stalls();
        process.metadata.stalls = process.stalls.count;
        process.metadata.stalled_ns = self.clock.duration(process.stalls.ticks);
        process.metadata.clock_hz = self.clock.hz();
        if let Some((_, ring::STOP_TOO_MANY_THREADS)) = process.spool.stopped() {
            let limit = ring::RING_MAX;
            self.problems.push(format!(
                "the recording of process {} was cut short: more than {limit} threads at a time. \
                 What was recorded until then is kept",
                process.pid
            ));
        }
        // The exit status of the program itself is known last; `finish` sends its metadata.
        if self.options.follow_children && index != 0 {
            let metadata = Box::new(process.metadata.clone());
            let names = process.take_names();
            self.encoder.send(Work::Finish { process: index, metadata, names });
        }
    }

    /// Ends all journals and collects the results.
    fn finish(mut self, program: &Path, root_pid: u32, status: ExitStatus) -> Recorded {
        if self.processes.is_empty() && self.problems.is_empty() {
            let program = program.display();
            self.problems.push(if self.options.embedded {
                format!(
                    "nothing was recorded: {program} does not contain a recorder. Link it with \
                        libkeel_record and let \
                     it report its allocations (keel/recorder.h), or record its malloc, without \
                     --embedded"
                )
            } else {
                format!(
                    "nothing was recorded: {program} did not load the recorder. Did it end before \
                        its first instruction, or does it change LD_PRELOAD?"
                )
            });
        }
        if let Some(writer) = self.writer.take() {
            self.finish_unseen(writer, program, root_pid, status);
        }
        for (index, process) in self.processes.iter_mut().enumerate() {
            if index != 0 && self.options.follow_children {
                continue;
            }
            if process.pid == root_pid {
                process.metadata.ended = ended(status);
            }
            let metadata = Box::new(process.metadata.clone());
            let names = process.take_names();
            self.encoder.send(Work::Finish { process: index, metadata, names });
        }
        let finished = self.encoder.finish();
        if let Some(after) =
            self.options.after.filter(|_| finished.iter().all(|finished| finished.early))
        {
            self.problems.push(format!(
                "nothing was recorded: the program ended within the {} s that --after leaves out",
                after.as_secs_f64()
            ));
        }
        let journals = finished.into_iter().map(|finished| {
            let seconds =
                self.processes.get(finished.process).map_or(0.0, |process| process.seconds);
            journal(finished, seconds)
        });
        Recorded { status, journals: journals.collect(), problems: self.problems }
    }

    /// The program never loaded the recorder. Its journal is empty, with the metadata of the
    /// program.
    fn finish_unseen(&mut self, writer: Writer, program: &Path, root_pid: u32, status: ExitStatus) {
        let process = usize::MAX;
        let clock = self.clock;
        let path = self.options.output.clone();
        let mut metadata = machine::describe();
        self.encoder.send(Work::Begin(Box::new(Begin {
            process,
            origin: clock.now(),
            clock,
            path,
            writer: Some(writer),
            metadata: metadata.clone(),
            filter: Filter::default(),
            max_bytes: 0,
        })));
        metadata.writer = format!("keel record {}", env!("CARGO_PKG_VERSION"));
        metadata.program = program.display().to_string();
        metadata.pid = root_pid;
        metadata.ended = ended(status);
        metadata.clock = clock.name().to_owned();
        metadata.clock_hz = clock.hz();
        let names = crate::rows::Names::default();
        self.encoder.send(Work::Finish { process, metadata: Box::new(metadata), names });
    }
}

fn journal(finished: Finished, seconds: f64) -> Journal {
    let Finished { path, metadata, operations, written, limited, .. } = finished;
    Journal { path, operations, seconds, metadata, written, limited }
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => String::new(),
    }
}
