//! Journals as text traces of other tools, in the forms that `keel import` reads. Importing an
//! export gives the same operations, as far as the form can represent them; losses are counted.

use keel_journal::{Event, FreeHint, Metadata, Op, Reader, Requested, TextForm as TraceForm};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// Why a trace could not be written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] keel_journal::Error),
    /// The output cannot be written.
    #[error("cannot write the trace")]
    Output(#[from] io::Error),
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenTrace {
    /// Operations.
    pub operations: u64,
    /// Kinds of information that the form cannot represent, and how often each was lost.
    pub losses: BTreeMap<&'static str, u64>,
}

/// What a form can represent. Doom3: everything except the two times of a realloc. Android: times,
/// if the journal has any.
trait Capabilities {
    fn has_threads(self) -> bool;
    fn has_alignment(self) -> bool;
    fn has_realloc(self) -> bool;
    fn has_times(self) -> bool;
    /// Hints of frees; Valgrind's form has the kind of the hint, without values.
    fn has_hints(self) -> bool;
}

impl Capabilities for TraceForm {
    fn has_threads(self) -> bool {
        matches!(self, TraceForm::Doom3 | TraceForm::Android | TraceForm::Logalloc)
    }

    fn has_alignment(self) -> bool {
        matches!(
            self,
            TraceForm::Doom3
                | TraceForm::Android
                | TraceForm::Logalloc
                | TraceForm::Cmt
                | TraceForm::Valgrind
        )
    }

    fn has_realloc(self) -> bool {
        !matches!(
            self,
            TraceForm::Judy | TraceForm::Heaptrack | TraceForm::Tags | TraceForm::Numbered
        )
    }

    fn has_times(self) -> bool {
        matches!(self, TraceForm::Doom3 | TraceForm::Android | TraceForm::Heaptrack)
    }

    fn has_hints(self) -> bool {
        matches!(self, TraceForm::Doom3 | TraceForm::Valgrind)
    }
}

/// Writes the journal in `form`. A journal has no addresses, so blocks get new ones: aligned, and
/// without overlap of live blocks as long as all blocks together fit into 47 bits.
///
/// Memory is bounded by the live set.
///
/// # Errors
/// See [`TraceError`].
pub fn trace(
    reader: &Reader,
    form: TraceForm,
    output: &mut dyn Write,
) -> Result<WrittenTrace, TraceError> {
    let mut counts = Counts::default();
    if form == TraceForm::Rep {
        for batch in reader.batches() {
            batch?.iter().for_each(|event| counts.count(event));
        }
    }
    let mut writer = TraceWriter::new(reader.metadata(), reader.rows(), form, &counts);
    writer.header(output)?;
    for batch in reader.batches() {
        for event in batch? {
            writer.event(&event, output)?;
        }
    }
    writer.end(output)?;
    Ok(writer.written)
}

/// As [`trace`], for events in memory.
///
/// # Errors
/// [`TraceError::Output`].
pub fn trace_events(
    events: &[Event],
    metadata: &Metadata,
    form: TraceForm,
    output: &mut dyn Write,
) -> Result<WrittenTrace, TraceError> {
    let mut counts = Counts::default();
    events.iter().for_each(|event| counts.count(event));
    let mut writer = TraceWriter::new(metadata, events.len() as u64, form, &counts);
    writer.header(output)?;
    for event in events {
        writer.event(event, output)?;
    }
    writer.end(output)?;
    Ok(writer.written)
}

/// A block in the text: an address, an id, or a number.
type Name = u64;

struct TraceWriter<'a> {
    form: TraceForm,
    metadata: &'a Metadata,
    threads: Vec<u64>,
    timed: bool,
    /// Names of the live blocks, and their requested sizes and alignments.
    live: FxHashMap<u64, (Name, Requested)>,
    addresses: Addresses,
    /// Blocks named so far, for the forms that number them.
    named: u64,
    /// Blocks of the whole journal: greater numbers belong to no block.
    objects: u64,
    foreign: u64,
    next_mark: usize,
    milliseconds: u64,
    counts: &'a Counts,
    written: WrittenTrace,
}

/// The contents of the header of a `.rep` file.
#[derive(Default)]
struct Counts {
    operations: u64,
    ids: u64,
    peak_bytes: u128,
    live_bytes: u128,
    sizes: FxHashMap<u64, u64>,
}

impl Counts {
    fn count(&mut self, event: &Event) {
        self.operations += 1;
        self.live_bytes -= u128::from(self.sizes.remove(&event.released).unwrap_or(0));
        if event.created != 0 {
            self.ids += u64::from(event.released == 0);
            self.sizes.insert(event.created, event.size);
            self.live_bytes += u128::from(event.size);
        }
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
    }
}

impl<'a> TraceWriter<'a> {
    fn new(
        metadata: &'a Metadata,
        rows: u64,
        form: TraceForm,
        counts: &'a Counts,
    ) -> TraceWriter<'a> {
        let ids: BTreeSet<u64> = metadata.threads.iter().map(|thread| thread.id).collect();
        let distinct = ids.len() == metadata.threads.len();
        let numbered = metadata.threads.iter().zip(0..);
        let threads =
            numbered.map(|(thread, index)| if distinct { thread.id } else { index }).collect();
        let mut written = WrittenTrace::default();
        if !distinct && form.has_threads() {
            written.losses.insert(
                "thread ids that are not distinct: numbered from 0",
                metadata.threads.len() as u64,
            );
        }
        if metadata.threads.len() > 1 && !form.has_threads() {
            written.losses.insert("threads: left out", metadata.threads.len() as u64);
        }
        TraceWriter {
            form,
            metadata,
            threads,
            timed: metadata.clock != "order",
            live: FxHashMap::default(),
            addresses: Addresses::default(),
            named: 0,
            objects: rows,
            foreign: 0,
            next_mark: 0,
            milliseconds: 0,
            counts,
            written,
        }
    }

    fn header(&mut self, output: &mut dyn Write) -> io::Result<()> {
        match self.form {
            TraceForm::Mtrace => writeln!(output, "= Start"),
            TraceForm::Heaptrack => {
                writeln!(output, "v 10400 3\nX {}", one_line(&self.metadata.program))
            }
            TraceForm::Rep => {
                let Counts { operations, ids, peak_bytes, .. } = self.counts;
                let heap_bytes = (*peak_bytes).min(i64::MAX as u128);
                writeln!(output, "{heap_bytes}\n{ids}\n{operations}\n1")
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, output: &mut dyn Write) -> io::Result<()> {
        let rest = self.metadata.marks.get(self.next_mark..).unwrap_or_default();
        for mark in rest {
            self.mark(&mark.text, output)?;
        }
        if self.timed && !self.form.has_times() {
            self.lose("times: left out");
        }
        if !self.metadata.frames.is_empty() {
            self.written.losses.insert("frame marks: left out", self.metadata.frames.len() as u64);
        }
        if self.form == TraceForm::Mtrace { writeln!(output, "= End") } else { Ok(()) }
    }

    /// Writes the marks before this event; only Judy's form has marks.
    fn marks_before(&mut self, event: &Event, output: &mut dyn Write) -> io::Result<()> {
        while let Some(mark) =
            self.metadata.marks.get(self.next_mark).filter(|mark| mark.time <= event.time)
        {
            self.next_mark += 1;
            self.mark(&mark.text, output)?;
        }
        Ok(())
    }

    fn mark(&mut self, text: &str, output: &mut dyn Write) -> io::Result<()> {
        if self.form == TraceForm::Judy {
            return writeln!(output, "{}", one_line(text));
        }
        self.lose("marks: left out");
        Ok(())
    }

    fn lose(&mut self, what: &'static str) {
        *self.written.losses.entry(what).or_default() += 1;
    }

    fn event(&mut self, event: &Event, output: &mut dyn Write) -> io::Result<()> {
        self.marks_before(event, output)?;
        self.count_losses(event);
        self.written.operations += 1;
        let block = self.live.remove(&event.released).unwrap_or_default();
        let mut old = match event.op {
            Op::ForeignFree | Op::ForeignRealloc => Some(self.foreign_name()),
            _ if event.released != 0 => Some(block.0),
            _ => None,
        };
        if event.created == 0 && event.free_hint != FreeHint::NONE && self.form.has_hints() {
            return self.free_with_hint(event, block, output);
        }
        if event.created == 0 {
            return self.free(event, old.unwrap_or(0), output);
        }
        if !self.form.has_realloc()
            && let Some(old) = old.take()
        {
            self.free(event, old, output)?;
        }
        let new = self.new_name(event, old);
        self.live.insert(event.created, (new, Requested::new(event.size, event.align)));
        self.allocation(event, old, new, output)
    }

    fn count_losses(&mut self, event: &Event) {
        let is_realloc = matches!(event.op, Op::Realloc | Op::ForeignRealloc);
        if event.op == Op::Aligned && !self.form.has_alignment() {
            self.lose("alignments: written as plain allocations");
        }
        if event.op == Op::Calloc && !self.form.has_alignment() {
            self.lose("callocs: written as plain allocations");
        }
        if is_realloc && !self.form.has_realloc() {
            self.lose("reallocs: written as frees and allocations");
        }
        if event.begin != event.time && self.form != TraceForm::Android {
            self.lose("reallocs with two times: written with the second");
        }
        let nothing_to_move = event.op == Op::Realloc && event.released == 0;
        if nothing_to_move && matches!(self.form, TraceForm::Rep | TraceForm::Mtrace) {
            self.lose("reallocs of NULL: written as plain allocations");
        }
        if event.free_hint != FreeHint::NONE && !self.form.has_hints() {
            self.lose("hints of frees: written as plain frees");
        }
        if event.free_hint.is_wrong() && self.form == TraceForm::Valgrind {
            self.lose(
                "wrong hints of frees: left out; a reader takes these hints for correct ones",
            );
        }
        if self.form == TraceForm::Heaptrack && !event.time.is_multiple_of(NS_IN_MS) {
            self.lose("times between milliseconds: cut");
        }
    }

    fn new_name(&mut self, event: &Event, old: Option<Name>) -> Name {
        match self.form {
            TraceForm::Rep if old.is_some() => old.unwrap_or(0),
            TraceForm::Rep | TraceForm::Tags | TraceForm::Numbered => {
                self.named += 1;
                self.named - 1
            }
            _ => self.addresses.next(event.size, event.align),
        }
    }

    /// A name of no block of the journal.
    fn foreign_name(&mut self) -> Name {
        self.foreign += 1;
        match self.form {
            TraceForm::Rep | TraceForm::Tags | TraceForm::Numbered => self.objects + self.foreign,
            _ => FOREIGN_ADDRESS + 16 * self.foreign,
        }
    }

    fn thread(&self, event: &Event) -> u64 {
        self.threads.get(event.thread as usize).copied().unwrap_or(u64::from(event.thread))
    }

    fn free(&mut self, event: &Event, old: Name, output: &mut dyn Write) -> io::Result<()> {
        let (thread, time) = (self.thread(event), event.begin);
        match self.form {
            TraceForm::Doom3 => writeln!(output, "f {old:x} {thread} {}", event.time),
            TraceForm::Judy => writeln!(output, "f {old:x} 0 0"),
            TraceForm::Android if self.timed => {
                writeln!(output, "{thread}: free {old:#x} {time} {time}")
            }
            TraceForm::Android => writeln!(output, "{thread}: free {old:#x}"),
            TraceForm::Logalloc => writeln!(output, "1 {thread} free({old:#x})"),
            TraceForm::Cmt => writeln!(output, "free({old:#x})"),
            TraceForm::Mtrace => writeln!(output, "@ [0x0] - {old:#x}"),
            TraceForm::Valgrind => writeln!(output, "--1-- free(0x{old:X})"),
            TraceForm::Heaptrack => {
                self.heaptrack_time(event, output)?;
                writeln!(output, "- {old:x}")
            }
            TraceForm::Rep => writeln!(output, "f {old}"),
            TraceForm::Tags => writeln!(output, "Free {old}"),
            TraceForm::Numbered => writeln!(output, "Free({old}),"),
        }
    }

    /// A free with its hint, in a form that has hints.
    fn free_with_hint(
        &self,
        event: &Event,
        (old, asked): (Name, Requested),
        output: &mut dyn Write,
    ) -> io::Result<()> {
        if self.form == TraceForm::Valgrind {
            let suffix = match (event.free_hint.has_size(), event.free_hint.has_align()) {
                (true, false) => "m",
                (false, _) => "St11align_val_t",
                (true, true) => "mSt11align_val_t",
            };
            return writeln!(output, "--1-- _ZdlPv{suffix}(0x{old:X})");
        }
        let size = event.free_hint.wrong_size().unwrap_or(asked.size());
        let align = event.free_hint.wrong_align().or(asked.align()).unwrap_or(1);
        let (thread, time) = (self.thread(event), event.time);
        match (event.free_hint.has_size(), event.free_hint.has_align()) {
            (true, false) => writeln!(output, "s {size} {old:x} {thread} {time}"),
            (false, _) => writeln!(output, "l {align} {old:x} {thread} {time}"),
            (true, true) => writeln!(output, "d {align} {size} {old:x} {thread} {time}"),
        }
    }

    fn allocation(
        &mut self,
        event: &Event,
        old: Option<Name>,
        new: Name,
        output: &mut dyn Write,
    ) -> io::Result<()> {
        match self.form {
            TraceForm::Doom3 => self.doom3(event, old, new, output),
            TraceForm::Android => self.android(event, old, new, output),
            TraceForm::Logalloc => {
                let thread = self.thread(event);
                writeln!(output, "1 {thread} {}={new:#x}", call(event, old, "", ""))
            }
            TraceForm::Cmt => writeln!(output, "{} = {new:#x}", call(event, old, "", "")),
            TraceForm::Valgrind => {
                writeln!(output, "--1-- {} = 0x{new:X}", call(event, old, "al ", "size "))
            }
            TraceForm::Mtrace => match old {
                Some(old) => {
                    writeln!(output, "@ [0x0] < {old:#x}\n@ [0x0] > {new:#x} {:#x}", event.size)
                }
                None => writeln!(output, "@ [0x0] + {new:#x} {:#x}", event.size),
            },
            TraceForm::Judy => writeln!(output, "a {new:x} {:x} 0", event.size),
            TraceForm::Heaptrack => {
                self.heaptrack_time(event, output)?;
                writeln!(output, "+ {:x} 0 {new:x}", event.size)
            }
            TraceForm::Rep if old.is_some() => writeln!(output, "r {new} {}", event.size),
            TraceForm::Rep => writeln!(output, "a {new} {}", event.size),
            TraceForm::Tags => writeln!(output, "Allocate {new} {}", event.size),
            TraceForm::Numbered => writeln!(output, "Alloc({}),", event.size),
        }
    }

    fn doom3(
        &self,
        event: &Event,
        old: Option<Name>,
        new: Name,
        output: &mut dyn Write,
    ) -> io::Result<()> {
        let (thread, time, size) = (self.thread(event), event.time, event.size);
        match event.op {
            Op::Calloc => writeln!(output, "c {size} {new:x} {thread} {time}"),
            Op::Aligned => writeln!(output, "m {} {size} {new:x} {thread} {time}", event.align),
            Op::Realloc | Op::ForeignRealloc => {
                writeln!(output, "r {size} {:x} {new:x} {thread} {time}", old.unwrap_or(0))
            }
            _ => writeln!(output, "a {size} {new:x} {thread} {time}"),
        }
    }

    fn android(
        &self,
        event: &Event,
        old: Option<Name>,
        new: Name,
        output: &mut dyn Write,
    ) -> io::Result<()> {
        let (thread, size) = (self.thread(event), event.size);
        match event.op {
            Op::Calloc => write!(output, "{thread}: calloc {new:#x} 1 {size}")?,
            Op::Aligned => write!(output, "{thread}: memalign {new:#x} {} {size}", event.align)?,
            Op::Realloc | Op::ForeignRealloc => {
                write!(output, "{thread}: realloc {new:#x} {:#x} {size}", old.unwrap_or(0))?;
            }
            _ => write!(output, "{thread}: malloc {new:#x} {size}")?,
        }
        if self.timed {
            writeln!(output, " {} {}", event.begin, event.time)
        } else {
            writeln!(output)
        }
    }

    fn heaptrack_time(&mut self, event: &Event, output: &mut dyn Write) -> io::Result<()> {
        let milliseconds = event.time / NS_IN_MS;
        if self.timed && milliseconds > self.milliseconds {
            self.milliseconds = milliseconds;
            writeln!(output, "c {milliseconds:x}")?;
        }
        Ok(())
    }
}

const NS_IN_MS: u64 = 1_000_000;
/// An address of the kernel's half, which no block has.
const FOREIGN_ADDRESS: u64 = 0xffff_8000_0000_0000;

/// `malloc(8)`, with the labels that valgrind writes before alignments and sizes.
fn call(event: &Event, old: Option<Name>, align_label: &str, size_label: &str) -> String {
    let size = event.size;
    match event.op {
        Op::Calloc => format!("calloc(1,{size})"),
        Op::Aligned => format!("memalign({align_label}{}, {size_label}{size})", event.align),
        Op::Realloc | Op::ForeignRealloc => format!("realloc({:#x},{size})", old.unwrap_or(0)),
        _ => format!("malloc({size})"),
    }
}

/// Text without line breaks.
fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

/// Consecutive addresses; freed addresses are not used again.
struct Addresses(u64);

impl Default for Addresses {
    fn default() -> Addresses {
        Addresses(1 << 20)
    }
}

impl Addresses {
    fn next(&mut self, size: u64, align: u64) -> u64 {
        const END: u64 = 1 << 47;
        let align = align.clamp(16, 1 << 30);
        let address = self.0.next_multiple_of(align);
        // A block that does not fit overlaps later ones; its address is still unique.
        let end = address.checked_add(size.max(1)).filter(|end| *end < END);
        self.0 = end.unwrap_or(address + 1);
        address
    }
}
