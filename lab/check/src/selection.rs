//! The rows of a scope in one journal, divided into passes: the frames of a game, or the times
//! between two marks. Other scopes have one pass.

use crate::names::Names;
use crate::pattern::matches;
use crate::scope::{Class, Scope, ZonePlace};
use keel_journal::{Event, Mark, Metadata, Origin};
use rustc_hash::FxHashMap;

/// What a selection looks at in a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub time: u64,
    pub thread: u32,
    pub frame: u32,
    pub stack: u32,
}

impl Call {
    pub fn of(event: &Event, origin: Origin) -> Call {
        let Event { begin, thread, frame, .. } = *event;
        Call { time: begin, thread, frame, stack: origin.stack }
    }
}

/// Times from a mark to another: `from < time <= to`.
type Window = (u64, u64);

#[derive(Debug)]
enum Part {
    All,
    /// The frames between two marks, as many as there are.
    Frames(u64),
    Threads(Vec<bool>),
    Windows(Vec<Window>),
    /// As `Windows`, by thread; with the number of the first window.
    OwnWindows(FxHashMap<u32, (usize, Vec<Window>)>),
    /// By stack; `anywhere`: in any of its calls, otherwise in the call site.
    Function {
        pattern: String,
        anywhere: bool,
        known: FxHashMap<u32, bool>,
    },
}

/// The rows of a scope.
#[derive(Debug)]
pub(crate) struct Selection {
    part: Part,
    passes: usize,
    /// Frames that are left out, for a scope that has no passes.
    skipped_frames: u64,
    /// Whether a row was selected.
    pub seen: bool,
}

/// The marks that `KEEL_ZONE_BEGIN` and `KEEL_ZONE_END` of keel/recorder.h make begin with these
/// texts.
const SCOPE_BEGIN: &str = "keel zone begin: ";
const SCOPE_END: &str = "keel zone end: ";

impl Selection {
    fn new(part: Part, passes: usize) -> Selection {
        Selection { part, passes, skipped_frames: 0, seen: false }
    }

    /// The error says why the scope does not occur in the journal.
    pub fn of_scope(scope: &Scope, metadata: &Metadata) -> Result<Selection, String> {
        match scope {
            Scope::Run => Ok(Selection::new(Part::All, 1)),
            Scope::Frame { warm_up } => frames(metadata, *warm_up),
            Scope::Threads(name) => threads(metadata, name),
            Scope::Between { from, to } => windows(metadata, from, to),
            Scope::CallSite(pattern) => function(metadata, pattern, false),
            Scope::Within(pattern) => function(metadata, pattern, true),
        }
    }

    /// As [`Selection::of_scope`].
    pub fn of_zone(
        place: &ZonePlace,
        warm_up: u64,
        metadata: &Metadata,
    ) -> Result<Selection, String> {
        let mut selection = match place {
            ZonePlace::Thread(name) => threads(metadata, name)?,
            ZonePlace::Class(class) => scheduled(metadata, *class)?,
            ZonePlace::Marks { from, to } => windows(metadata, from, to)?,
            ZonePlace::Symbol(pattern) => function(metadata, pattern, true)?,
            ZonePlace::Scope(name) => own_windows(metadata, name)?,
        };
        let has_passes = matches!(selection.part, Part::Windows(_) | Part::OwnWindows(_));
        if warm_up > 0 && !has_passes {
            if metadata.frames.len() as u64 <= warm_up {
                let marks = metadata.frames.len();
                return Err(format!(
                    "the first {warm_up} frames are left out, but the recording has {marks} frame \
                     marks: the program marks a frame by kl_record_frame_now (keel/recorder.h)"
                ));
            }
            selection.skipped_frames = warm_up;
        }
        if has_passes && selection.passes as u64 <= warm_up {
            return Err(format!(
                "the first {warm_up} passes are left out, and there are only {}",
                selection.passes
            ));
        }
        Ok(selection)
    }

    /// Number of passes.
    pub fn passes(&self) -> usize {
        self.passes
    }

    /// Whether it selects the whole program.
    pub fn is_whole(&self) -> bool {
        matches!(self.part, Part::All)
    }

    /// The function that has to be in the stacks.
    pub fn function(&self) -> Option<&str> {
        match &self.part {
            Part::Function { pattern, .. } => Some(pattern),
            _ => None,
        }
    }

    /// The pass to which a row belongs.
    pub fn pass(&mut self, call: Call, names: &mut Names<'_>) -> Option<usize> {
        if u64::from(call.frame) <= self.skipped_frames && self.skipped_frames > 0 {
            return None;
        }
        let first = |is_selected: bool| is_selected.then_some(0);
        let pass = match &mut self.part {
            Part::All => Some(0),
            // Frame 0 is the time before the first mark.
            Part::Frames(count) => {
                let frame = u64::from(call.frame);
                (1..=*count).contains(&frame).then(|| frame as usize - 1)
            }
            Part::Threads(selected) => {
                first(selected.get(call.thread as usize).copied().unwrap_or(false))
            }
            Part::Windows(windows) => window_of(windows, call.time),
            Part::OwnWindows(by_thread) => by_thread
                .get(&call.thread)
                .and_then(|(first, windows)| Some(first + window_of(windows, call.time)?)),
            Part::Function { pattern, anywhere, known } => first(
                *known
                    .entry(call.stack)
                    .or_insert_with(|| names.is_in(call.stack, pattern, *anywhere)),
            ),
        };
        self.seen |= pass.is_some();
        pass
    }
}

fn window_of(windows: &[Window], time: u64) -> Option<usize> {
    let index = windows.partition_point(|window| window.0 < time).checked_sub(1)?;
    (time <= windows[index].1).then_some(index)
}

fn frames(metadata: &Metadata, warm_up: u64) -> Result<Selection, String> {
    let complete = metadata.frames.len().saturating_sub(1);
    if complete as u64 <= warm_up {
        return Err(format!(
            "the recording has {complete} frames between two frame marks, and the first {warm_up} \
             are left out"
        ));
    }
    Ok(Selection::new(Part::Frames(complete as u64), complete))
}

fn threads(metadata: &Metadata, pattern: &str) -> Result<Selection, String> {
    let names = metadata.threads.iter().map(|thread| thread.name.as_str());
    selected_threads(names.clone().map(|name| matches(pattern, name)).collect()).ok_or_else(|| {
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        names.dedup();
        format!("no recorded thread has the name `{pattern}`; the names are {}", some_of(&names))
    })
}

fn scheduled(metadata: &Metadata, class: Class) -> Result<Selection, String> {
    let wanted: &[&str] = match class {
        Class::Fifo => &["fifo"],
        Class::RoundRobin => &["rr"],
        Class::Realtime => &["fifo", "rr"],
    };
    let is_of_class = |thread: &keel_journal::Thread| wanted.contains(&thread.policy.as_str());
    selected_threads(metadata.threads.iter().map(is_of_class).collect()).ok_or_else(|| {
        let known = metadata.threads.iter().any(|thread| !thread.policy.is_empty());
        let reason = if known { "" } else { " (the journal has no scheduling classes)" };
        format!("no recorded thread had the scheduling class {}{reason}", wanted.join(" or "))
    })
}

fn selected_threads(selected: Vec<bool>) -> Option<Selection> {
    selected.contains(&true).then(|| Selection::new(Part::Threads(selected), 1))
}

fn windows(metadata: &Metadata, from: &str, to: &str) -> Result<Selection, String> {
    for text in [from, to] {
        if !metadata.marks.iter().any(|mark| mark.text == text) {
            let mut texts: Vec<&str> =
                metadata.marks.iter().map(|mark| mark.text.as_str()).collect();
            texts.sort_unstable();
            texts.dedup();
            return Err(format!(
                "the program made no mark `{text}`; its marks are {}",
                some_of(&texts)
            ));
        }
    }
    let found = windows_between(&mut metadata.marks.iter(), from, to);
    match found.len() {
        0 => Err(format!("no mark `{from}` has a mark `{to}` or an end of the recording after it")),
        count => Ok(Selection::new(Part::Windows(found), count)),
    }
}

/// The windows that the marks make. A second `from` inside a window belongs to it; where both texts
/// are nested, the outermost pair counts only if the texts differ by it. A window without an end
/// extends to the end of the recording.
fn windows_between(marks: &mut dyn Iterator<Item = &Mark>, from: &str, to: &str) -> Vec<Window> {
    let (mut windows, mut begun) = (Vec::new(), None);
    for mark in marks {
        match begun {
            // The same mark may end a window and begin the next.
            Some(start) if mark.text == to => {
                windows.push((start, mark.time));
                begun = (from == to).then_some(mark.time);
            }
            None if mark.text == from => begun = Some(mark.time),
            _ => {}
        }
    }
    windows.extend(begun.filter(|_| from != to).map(|start| (start, u64::MAX)));
    windows
}

/// Scopes of one name may be nested: the outermost counts.
fn own_windows(metadata: &Metadata, name: &str) -> Result<Selection, String> {
    let mut open: FxHashMap<u32, (u32, u64)> = FxHashMap::default();
    let mut found: FxHashMap<u32, Vec<Window>> = FxHashMap::default();
    for mark in &metadata.marks {
        let (depth, start) = open.entry(mark.thread).or_default();
        if mark.text.strip_prefix(SCOPE_BEGIN).is_some_and(|text| matches(name, text)) {
            if *depth == 0 {
                *start = mark.time;
            }
            *depth += 1;
        } else if mark.text.strip_prefix(SCOPE_END).is_some_and(|text| matches(name, text)) {
            if *depth == 1 {
                found.entry(mark.thread).or_default().push((*start, mark.time));
            }
            *depth = depth.saturating_sub(1);
        }
    }
    for (thread, (depth, start)) in open {
        if depth > 0 {
            found.entry(thread).or_default().push((start, u64::MAX));
        }
    }
    if found.is_empty() {
        let begun = metadata.marks.iter().filter_map(|mark| mark.text.strip_prefix(SCOPE_BEGIN));
        let mut names: Vec<&str> = begun.collect();
        names.sort_unstable();
        names.dedup();
        return Err(format!(
            "the program began no zone `{name}` (KEEL_ZONE_BEGIN); it began {}",
            some_of(&names)
        ));
    }
    let mut threads: Vec<(u32, Vec<Window>)> = found.into_iter().collect();
    threads.sort_unstable_by_key(|(thread, _)| *thread);
    let (mut passes, mut by_thread) = (0, FxHashMap::default());
    for (thread, windows) in threads {
        let count = windows.len();
        by_thread.insert(thread, (passes, windows));
        passes += count;
    }
    Ok(Selection::new(Part::OwnWindows(by_thread), passes))
}

fn function(metadata: &Metadata, pattern: &str, anywhere: bool) -> Result<Selection, String> {
    if metadata.stacks.is_empty() {
        return Err("the journal has no call stacks: record it with --stacks 100".to_owned());
    }
    let (pattern, known) = (pattern.to_owned(), FxHashMap::default());
    Ok(Selection::new(Part::Function { pattern, anywhere, known }, 1))
}

/// At most ten names.
fn some_of(names: &[&str]) -> String {
    const MOST: usize = 10;
    let mut text = names.iter().take(MOST).map(|name| format!("`{name}`")).collect::<Vec<_>>();
    if names.len() > MOST {
        text.push(format!("and {} more", names.len() - MOST));
    }
    if text.is_empty() { "none".to_owned() } else { text.join(", ") }
}

#[cfg(test)]
#[path = "selection_tests.rs"]
mod tests;
