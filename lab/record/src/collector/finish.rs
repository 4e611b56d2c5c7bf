//! The end of a recording: its journals, and what the user should know.

use super::{Collector, STILL_RUNNING};
use crate::encode::{Work, name_by_bytes};
use crate::output::{Begin, Finished};
use crate::rows::{Filter, Names};
use crate::{Journal, Recorded, machine};
use keel_journal::Writer;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;

impl Collector<'_> {
    /// Ends all journals and collects the results.
    pub fn finish(mut self, program: &Path, status: Option<ExitStatus>) -> Recorded {
        self.unseen.take_executed(self.session.executed(), self.root_pid);
        for (is_own, text) in self.unseen.unrecorded(self.root_pid) {
            // Without its own program, the recording is not what the user asked for.
            if is_own { self.problems.push(text) } else { self.notes.push(text) }
        }
        if self.session.lacks_notes() {
            let text = "programs ran outside the recording more often than is reported here";
            self.notes.push(text.to_owned());
        }
        if self.count == 0 && self.problems.is_empty() {
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
            self.finish_unseen(writer, program, status);
        }
        if let Some((number, mut metadata, mut names)) = self.root.take() {
            // The end of a program that is no child leaves no status.
            let is_unknown = self.attached.is_some() && status.is_some();
            metadata.ended = if is_unknown { String::new() } else { ended(status) };
            self.write_end(number, &metadata, &mut names);
            self.encoder.send(Work::Finish { number, metadata: Box::new(metadata), names });
        }
        self.note_events();
        let (mut finished, kept_bytes, watched) = self.encoder.finish();
        if let Err(error) = name_by_bytes(&mut finished) {
            self.problems.push(error);
        }
        if let Some(after) =
            self.options.after.filter(|_| finished.iter().all(|finished| finished.early))
        {
            self.problems.push(format!(
                "nothing was recorded: the program ended within the {} s that --after leaves out",
                after.as_secs_f64()
            ));
        }
        self.notes.extend(finished.iter().flat_map(place_notes));
        let journals = finished.into_iter().map(journal).collect();
        let (problems, notes, still_runs) = (self.problems, self.notes, status.is_none());
        let status = status.unwrap_or_default();
        Recorded {
            status,
            still_runs,
            signal: None,
            journals,
            visits: Vec::new(),
            kept_bytes,
            watched,
            problems,
            notes,
        }
    }

    /// The program never loaded the recorder. Its journal is empty, with the metadata of the
    /// program.
    fn finish_unseen(&mut self, writer: Writer, program: &Path, status: Option<ExitStatus>) {
        let number = usize::MAX;
        let clock = self.clock;
        let mut metadata = machine::describe();
        self.encoder.send(Work::Begin(Box::new(Begin {
            number,
            origin: clock.now(),
            clock,
            process_path: self.options.output.clone(),
            image: 0,
            writer: Some(writer),
            metadata: metadata.clone(),
            filter: Filter::default(),
            max_bytes: 0,
            refuges: Vec::new(),
            wait: None,
        })));
        metadata.writer = format!("keel record {}", env!("CARGO_PKG_VERSION"));
        metadata.program = program.display().to_string();
        metadata.pid = self.root_pid;
        metadata.ended = ended(status);
        metadata.clock = clock.name().to_owned();
        metadata.clock_hz = clock.hz();
        let names = Names::default();
        self.encoder.send(Work::Finish { number, metadata: Box::new(metadata), names });
    }
}

/// Where a journal is, and what it covers, if that is not as requested.
fn place_notes(one: &Finished) -> Vec<String> {
    let Some(path) = one.path.as_ref().map(|path| path.display()) else { return Vec::new() };
    let mut notes = Vec::new();
    if let Some(seconds) = one.shortened {
        let why = "because --buffer has no more room";
        notes.push(format!("{path} covers only {seconds:.1} s, {why}"));
    }
    if let Some(wanted) = &one.moved_from {
        let wanted = wanted.display();
        notes.push(format!("{wanted} could not be written there; the whole journal is {path}"));
    }
    notes
}

fn journal(finished: Finished) -> Journal {
    let Finished { path, metadata, operations, allocated_bytes, .. } = finished;
    let Finished { seconds, written, limited, .. } = finished;
    Journal { path, operations, allocated_bytes, seconds, metadata, written, limited }
}

fn ended(status: Option<ExitStatus>) -> String {
    let Some(status) = status else { return STILL_RUNNING.to_owned() };
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => String::new(),
    }
}
