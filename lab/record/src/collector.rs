//! The collector: empties the rings of all recorded processes while they run.

mod finish;
mod others;
mod waiting;

use self::waiting::Waiting;
use crate::clock::Clock;
use crate::contained::patch;
use crate::encode::{Encoder, Work};
use crate::image::Image;
use crate::launch::{Attached, Orphans, Running, Signals};
use crate::namespace::pid_from_here;
use crate::output::{Begin, Rows};
use crate::rows::{Filter, Names};
use crate::session::{self, Session, Spool};
use crate::unseen::Unseen;
use crate::{Options, Progress, beside, machine, origins, paths, ring};
use keel_journal::{Metadata, Writer};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// A thread that is interrupted between reading the clock and storing its event rarely stays so for
/// longer.
const SLACK_NS: u64 = 2_000_000;
/// After this time the error of the frequency is 1e-5.
const CALIBRATION: Duration = Duration::from_millis(5);
/// In the metadata of a program that the recording did not see end.
const STILL_RUNNING: &str = "still running";
const HURRIED_WAIT: Duration = Duration::from_micros(100);
const BUSY_WAIT: Duration = Duration::from_millis(4);
const IDLE_WAIT: Duration = Duration::from_millis(20);
/// Samples are few, and the processor time counts.
const SAMPLE_WAIT: Duration = Duration::from_millis(250);
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// Reads the rings of all recorded images, and sends their events to the encoder.
pub struct Collector<'a> {
    options: &'a Options,
    session: Session,
    encoder: Encoder,
    clock: Clock,
    began: Instant,
    calibrated: Instant,
    /// Of the first image.
    writer: Option<Writer>,
    /// The images that run now, by their number. What has ended takes no memory here.
    images: BTreeMap<usize, Image>,
    /// Images so far.
    count: usize,
    /// By process id: the number of processes that had it.
    uses: FxHashMap<u32, u32>,
    root_pid: u32,
    /// The number of the program's last image, and its metadata, to which the exit status is added.
    root: Option<(usize, Metadata, Names)>,
    /// When the first image began, in ticks.
    first: Option<u64>,
    /// The announced spools that were looked for.
    announced: u32,
    /// Why a spool could not be opened: a lack of descriptors or memory. Images that end release
    /// some.
    postponed: Option<io::Error>,
    /// Since when there is a postponed spool, and no image that could end.
    alone: Option<Instant>,
    unseen: Unseen,
    /// The program ran before, and its end leaves no status.
    pub attached: Option<&'a mut dyn Attached>,
    /// See [`Options::wait`].
    waiting: Option<Waiting>,
    notes: Vec<String>,
    /// The time after which no rows are wanted, in ticks.
    until: Option<u64>,
    reported: Instant,
    /// When the program had ended and others had not, and whether the user knows that.
    follows_since: Option<Instant>,
    follows_said: bool,
    problems: Vec<String>,
}

impl<'a> Collector<'a> {
    pub fn new(
        options: &'a Options,
        session: Session,
        encoder: Encoder,
        kind: u32,
        writer: Option<Writer>,
    ) -> Self {
        let began = Instant::now();
        let unseen =
            Unseen::new(&options.recorder_library, session.folder(), session.patched.get());
        Collector {
            options,
            session,
            encoder,
            clock: Clock::start(kind),
            began,
            calibrated: began,
            writer,
            images: BTreeMap::new(),
            count: 0,
            uses: FxHashMap::default(),
            root_pid: 0,
            root: None,
            first: None,
            announced: 0,
            postponed: None,
            alone: None,
            unseen,
            attached: None,
            waiting: options.wait.clone().map(Waiting::new),
            notes: Vec::new(),
            until: None,
            reported: began,
            follows_since: None,
            follows_said: false,
            problems: Vec::new(),
        }
    }

    /// The page shared with all recorded processes.
    pub fn control(&self) -> &ring::Control {
        self.session.control()
    }

    /// Empties the rings until everything recorded has ended.
    pub fn run(
        &mut self,
        running: &Running,
        signals: &Signals,
        orphans: &Orphans,
        report: &mut dyn FnMut(Progress),
    ) -> io::Result<Option<ExitStatus>> {
        self.root_pid = running.pid;
        let mut status = None;
        let mut wait = BUSY_WAIT;
        loop {
            self.session.wait(wait);
            if status.is_none() {
                let ended = running.ended.try_recv().ok().transpose()?;
                ended.iter().for_each(|ended| self.note_children(ended));
                status = ended.map(|ended| ended.status);
            }
            if self.began.elapsed() < CALIBRATION {
                std::thread::sleep(CALIBRATION);
            }
            self.calibrate();
            let root_gone = status.is_some();
            let others_live = orphans.reap(running.pid);
            // Checked before the rings are read, so that the last reading comes after the end.
            let mut gone = Vec::new();
            for (number, image) in &mut self.images {
                if image.is_gone(running.pid, root_gone) {
                    gone.push(*number);
                }
            }
            if let Some(waiting) = &mut self.waiting {
                waiting.signals(signals.awaited());
            }
            self.admit_new();
            let events = self.read_all();
            gone.into_iter().for_each(|number| self.end(number, None));
            let now = self.clock.now();
            let is_done = self.waiting.as_ref().is_some_and(Waiting::is_done);
            let is_late = self.until.is_some_and(|until| now > until);
            if self.encoder.is_over() || is_late || is_done {
                self.stop();
            }
            let is_over = self.attached.is_some() && self.is_stopped();
            if is_over
                || self.is_watched_enough()
                || signals.must_stop(root_gone || self.attached.is_some())
            {
                self.end_all();
                return Ok(status);
            }
            if !self.options.embedded {
                self.look_for_unseen();
            }
            self.say_events(report);
            self.report(report);
            wait = self.pause(events);
            if status.is_some() {
                let follows = self.options.follow_children && others_live && !self.is_stopped();
                // A process admitted in this round has not been checked for its end yet.
                if self.images.is_empty() && self.postponed.is_none() && !follows {
                    self.note_living(orphans);
                    return Ok(status);
                }
                self.say_whom_it_follows(report);
                wait = BUSY_WAIT;
            }
        }
    }

    /// Ends the recording of all processes, which live on.
    fn stop(&self) {
        self.session.stop();
        // Those that wait for this process need not wait any longer.
        self.images.values().for_each(|image| image.spool.wake_all());
    }

    fn is_stopped(&self) -> bool {
        self.session.control().stop.load(Acquire) != 0
    }

    /// The time until the rings are read again; in the last reading there were this many events.
    fn pause(&self, events: usize) -> Duration {
        let hurries = self.images.values().any(|image| image.spool.wants_rings());
        match (hurries && !self.is_stopped(), events > 0) {
            (true, _) => HURRIED_WAIT,
            // The bell rings before a ring is full.
            (false, _) if self.options.sample.is_some() => SAMPLE_WAIT,
            (false, true) => BUSY_WAIT,
            (false, false) => IDLE_WAIT,
        }
    }

    fn is_watched_enough(&self) -> bool {
        self.options.watch.as_ref().is_some_and(|watch| watch.stop.load(Relaxed))
    }

    fn end_all(&mut self) {
        // Nobody reads the rings while the recorder is taken out, so no thread may wait for that.
        self.stop();
        if self.attached.is_some() {
            let now = self.clock.now();
            self.until = Some(self.until.map_or(now, |until| until.min(now)));
        }
        if let Some(attached) = &mut self.attached {
            self.problems.extend(attached.leave());
        }
        self.read_all();
        let numbers: Vec<usize> = self.images.keys().copied().collect();
        for number in numbers {
            if let Some(image) = self.images.get_mut(&number) {
                image.metadata.ended = STILL_RUNNING.to_owned();
            }
            self.end(number, None);
        }
    }

    fn look_for_unseen(&mut self) {
        self.unseen.take_executed(self.session.executed(), self.root_pid);
        let follow = self.options.follow_children;
        for found in self.unseen.look(self.images.values(), follow) {
            // Without its own program, the recording is not what the user asked for.
            let own = found.pid == self.root_pid;
            if own && self.attached.is_some() {
                self.stop();
            }
            if own { self.problems.push(found.text) } else { self.notes.push(found.text) }
        }
    }

    fn report(&mut self, report: &mut dyn FnMut(Progress)) {
        if self.reported.elapsed() < PROGRESS_EVERY {
            return;
        }
        self.reported = Instant::now();
        report(Progress { watched: self.encoder.watched(), ..self.progress() });
    }

    fn progress(&self) -> Progress {
        let (operations, live_bytes) = self.encoder.progress();
        let seconds = self.began.elapsed().as_secs_f64();
        Progress { seconds, operations, live_bytes, ..Progress::default() }
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
            let error = io::Error::from_raw_os_error(failed as i32);
            let folder = self.session.folder().display();
            let (said, text) = match failed as i32 {
                libc::EFBIG => (
                    &mut self.problems,
                    "a process could not be recorded: its limit of file sizes is below the size \
                     of its rings; raise it (ulimit -f)"
                        .to_owned(),
                ),
                // As of a program that such a child executes ([`Unseen`]).
                libc::EACCES | libc::EPERM | libc::ENOENT => (
                    &mut self.notes,
                    format!(
                        "a child of a recorded process is not recorded: as its user, or in its \
                         root folder, the recording's folder {folder} cannot be opened ({error})"
                    ),
                ),
                _ => (
                    &mut self.problems,
                    format!(
                        "a process could not be recorded: no room for its rings in {folder} \
                         ({error}); use --spool to name a folder with enough free space"
                    ),
                ),
            };
            // Each new process may have it.
            if !said.contains(&text) {
                said.push(text);
            }
        }
        let announced = control.spools.load(Acquire);
        if announced == self.announced && self.postponed.is_none() {
            return;
        }
        (self.announced, self.postponed) = (announced, None);
        let (spools, problems) = self.session.new_spools();
        self.problems.extend(problems);
        for spool in spools {
            match spool {
                Ok(spool) => self.admit(spool),
                Err(error) => self.postponed = Some(error),
            }
        }
        self.give_up_postponed();
    }

    /// Ends the recording if a spool cannot be opened and no image is left that could end.
    fn give_up_postponed(&mut self) {
        /// The encoder may still hold descriptors of images that have ended.
        const GIVE_UP_AFTER: Duration = Duration::from_secs(5);
        let Some(error) = self.postponed.take_if(|_| self.images.is_empty()) else {
            self.alone = None;
            return;
        };
        if self.alone.get_or_insert_with(Instant::now).elapsed() < GIVE_UP_AFTER {
            self.postponed = Some(error);
            return;
        }
        self.stop();
        self.problems.push(format!(
            "a process could not be recorded: keel cannot map its rings ({error}); raise the \
             limits of keel (ulimit -v, ulimit -n)"
        ));
    }

    fn admit(&mut self, spool: Spool) {
        let header = spool.header();
        let inner = header.pid.load(Relaxed);
        // 0, which is no process, if it has ended before its number here is known.
        let pid = pid_from_here(inner, header.pid_namespace.load(Relaxed)).unwrap_or(0);
        let mut metadata = machine::describe();
        metadata.pid = if pid == 0 { inner } else { pid };
        metadata.program = session::text(&header.program);
        metadata.arguments = session::arguments(&header.arguments);
        metadata.allocator = session::text(&header.allocator);
        let inherits = pid == self.root_pid && self.attached.is_none();
        let family = session::text(&header.other_allocator);
        beside::begin(&mut metadata, pid, family, inherits);
        // The header has room for usual paths.
        if metadata.program.len() + 1 == header.program.len()
            && let Ok(path) = std::fs::read_link(format!("/proc/{pid}/exe"))
        {
            metadata.program = path.to_string_lossy().into_owned();
        }
        let before = self.images.iter().find(|(_, image)| image.pid == pid && pid != 0);
        let before = before.map(|(number, image)| (*number, image.process.clone(), image.index));
        let (process, index) = match before {
            // The process has executed another program, which begins with an empty heap.
            Some((number, process, index)) => {
                self.end(number, Some(&metadata.program));
                (process, index + 1)
            }
            None => {
                let uses = self.uses.entry(metadata.pid).or_default();
                *uses += 1;
                (paths::of_process(self.options, metadata.pid, *uses - 1), 0)
            }
        };
        let maps = origins::parse_maps(&spool.maps());
        if metadata.allocator.len() + 1 == spool.header().allocator.len()
            && let Some(whole) = maps.iter().find(|map| map.path.starts_with(&metadata.allocator))
        {
            metadata.allocator.clone_from(&whole.path);
        }
        let number = self.begin(pid, (process, index), spool, metadata);
        if let Some(image) = self.images.get_mut(&number) {
            image.code.take(&maps);
            image.is_contained = pid != inner;
        }
        self.send_rows(number, 0, Vec::new(), Some(maps));
        self.read(number);
    }

    fn begin(
        &mut self,
        pid: u32,
        (process_path, index): (PathBuf, u32),
        spool: Spool,
        mut metadata: Metadata,
    ) -> usize {
        let origin = spool.started(&self.clock);
        let number = self.count;
        self.count += 1;
        let (clock, writer) = (self.clock, self.writer.take());
        if let Some(waiting) = &mut self.waiting {
            waiting.new_image();
        }
        let first = *self.first.get_or_insert(origin);
        let after = self.options.after.unwrap_or_default();
        if self.until.is_none() {
            let length = self.options.length.map(|length| after + length);
            self.until =
                length.map(|length| first.saturating_add(clock.ticks_in(length.as_nanos() as u64)));
        }
        // An image that begins after the start of the recorded span has nothing to leave out.
        let before = clock.duration(origin.saturating_sub(first));
        let filter = Filter {
            after_ns: (after.as_nanos() as u64).saturating_sub(before),
            skip_modules: self.options.skip_modules.clone(),
            max_operations: self.options.max_operations.unwrap_or(0),
        };
        metadata.writer = format!("keel record {}", env!("CARGO_PKG_VERSION"));
        metadata.started = machine::now();
        metadata.clock = self.clock.name().to_owned();
        metadata.clock_hz = self.clock.hz();
        metadata.sample_bytes = self.options.sample.map_or(0, |sample| sample.bytes);
        self.encoder.send(Work::Begin(Box::new(Begin {
            number,
            origin,
            clock,
            process_path: process_path.clone(),
            image: index,
            writer,
            metadata: metadata.clone(),
            filter,
            max_bytes: self.options.max_bytes.unwrap_or(0),
            refuges: self.options.refuges.clone(),
            wait: self.options.wait.clone(),
        })));
        let mut image = Image::new(pid, (process_path, index), spool, origin, metadata);
        if self.waiting.is_some() {
            image.forget_ended();
        }
        self.images.insert(number, image);
        number
    }

    /// Reads all rings once. Returns the number of events.
    fn read_all(&mut self) -> usize {
        let mut events = 0;
        let numbers: Vec<usize> = self.images.keys().copied().collect();
        for number in numbers {
            if self.encoder.is_behind() {
                break;
            }
            events += self.read(number);
            let now = self.clock.now();
            if let Some(image) = self.images.get_mut(&number) {
                image.read_names();
                let time = self.clock.duration(now.saturating_sub(image.began));
                image.memory.look(image.pid, time);
            }
        }
        events
    }

    fn read(&mut self, number: usize) -> usize {
        let until = self.clock.now().saturating_sub(self.clock.ticks_in(SLACK_NS));
        let Some(image) = self.images.get_mut(&number) else { return 0 };
        if let Err(error) = image.prepare_rings() {
            self.stop();
            let folder = self.session.folder().display();
            let already = self
                .problems
                .iter()
                .any(|problem| problem.starts_with("the recording was cut short"));
            if !already {
                self.problems.push(format!(
                    "the recording was cut short: no room for another thread's ring in {folder} \
                     ({error}). What was recorded until then is kept; use --spool to name a \
                     folder with enough free space"
                ));
            }
        }
        self.read_rings(number, until, false)
    }

    /// Reads the rings of an image. With `last`, for the last time: it has ended.
    fn read_rings(&mut self, number: usize, until: u64, last: bool) -> usize {
        let Some(image) = self.images.get_mut(&number) else { return 0 };
        let mut rings = Vec::new();
        let used: Vec<u32> = image.spool.used_rings().collect();
        for ring in used {
            let mut events = Vec::new();
            image.spool.read(ring, last, &mut events);
            if !events.is_empty() {
                rings.push((ring, events));
            }
        }
        let count = rings.iter().map(|(_, events)| events.len()).sum();
        let (maps, waits) = if last { (None, None) } else { image.new_maps(&rings) };
        let until = until.min(waits.map_or(u64::MAX, |time| time.saturating_sub(1)));
        if let Some(waiting) = &mut self.waiting {
            waiting.look(&rings, &self.clock);
        }
        self.send_rows(number, until, rings, maps);
        self.act(number, until);
        count
    }

    fn send_rows(
        &mut self,
        number: usize,
        until: u64,
        rings: Vec<(u32, Vec<ring::RawEvent>)>,
        maps: Option<Vec<origins::Mapping>>,
    ) {
        let Some(image) = self.images.get(&number) else { return };
        let stopped = image.spool.stopped().map(|(ticks, _)| ticks);
        let cut = [stopped, self.until].into_iter().flatten().min();
        let until = until.min(cut.unwrap_or(u64::MAX));
        self.encoder.send(Work::Rows(Rows { number, maps, clock: self.clock, until, cut, rings }));
    }

    /// Ends an image: its process has ended, or has executed the program `executed`.
    fn end(&mut self, number: usize, executed: Option<&str>) {
        self.clock.calibrate();
        self.read_rings(number, u64::MAX, true);
        // Its spool is unmapped and removed here.
        let Some(mut image) = self.images.remove(&number) else { return };
        let now = self.clock.now();
        let stalls = image.spool.stalls();
        image.metadata.stalls = stalls.count;
        image.metadata.stalled_ns = self.clock.duration(stalls.ticks);
        image.metadata.clock_hz = self.clock.hz();
        image.metadata.memory = image.memory();
        if let Some((_, ring::STOP_TOO_MANY_THREADS)) = image.spool.stopped() {
            let limit = ring::RING_MAX;
            self.problems.push(format!(
                "the recording of process {} was cut short: more than {limit} threads at a time. \
                 What was recorded until then is kept",
                image.pid
            ));
        }
        if let Some((_, ring::STOP_TOO_MANY_SAMPLES)) = image.spool.stopped() {
            self.problems.push(format!(
                "the recording of process {} was cut short: too many sampled blocks were live. \
                 What was recorded until then is kept; choose a larger --sample",
                image.pid
            ));
        }
        if let Some(reason) = patch::failure(image.spool.header().patched.load(Relaxed)) {
            let program = &image.metadata.program;
            self.problems.push(format!("the allocator in {program} is not recorded: {reason}"));
        }
        let names = image.names();
        let until = self.until.unwrap_or(u64::MAX);
        let lasted = self.clock.duration(now.min(until).saturating_sub(image.began));
        let seconds = lasted as f64 / 1e9;
        self.encoder.send(Work::Ended { number, seconds });
        let mut metadata = image.metadata;
        if let Some(program) = executed {
            metadata.ended = format!("exec {program}");
        }
        if executed.is_none() && image.pid == self.root_pid {
            // `finish` adds the exit status.
            self.root = Some((number, metadata, names));
            return;
        }
        self.encoder.send(Work::Finish { number, metadata: Box::new(metadata), names });
    }
}
