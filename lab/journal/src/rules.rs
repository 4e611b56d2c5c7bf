//! Checks the rules that every journal must keep.

use crate::{Event, FreeHint, Metadata, Op, Origin, Stacks};

/// The first row that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("row {row}: {what}")]
pub struct Violation {
    /// The row's number, from 0.
    pub row: u64,
    /// The broken rule, with the numbers.
    pub what: String,
}

/// Checks events one by one against the rules of [`Event`] and of [`Metadata`]. It needs one bit of
/// memory per object.
pub struct Rules<'a> {
    metadata: &'a Metadata,
    row: u64,
    last_time: u64,
    objects: u64,
    frame: usize,
    /// Bit n: object n is live.
    live: Vec<u64>,
}

impl<'a> Rules<'a> {
    /// Checks the rules of the metadata.
    ///
    /// # Errors
    /// Frame marks or names of sites out of order.
    pub fn new(metadata: &'a Metadata) -> Result<Rules<'a>, Violation> {
        let unsorted = metadata.frames.windows(2).position(|pair| pair[0] > pair[1]);
        if let Some(index) = unsorted {
            let what = format!("metadata: frame mark {} is before frame mark {index}", index + 1);
            return Err(Violation { row: 0, what });
        }
        let Stacks { sites, names, .. } = &metadata.stacks;
        let misplaced = names.windows(2).position(|pair| pair[0].site > pair[1].site);
        let modules = metadata.modules.len();
        let unknown = names.iter().position(|name| {
            let module = name.module.is_some_and(|module| module as usize >= modules);
            name.site as usize >= sites.len() || module
        });
        if let Some(index) = misplaced.map(|index| index + 1).or(unknown) {
            let what = format!(
                "metadata: name {index} of the stacks is out of order, or its site {} or its \
                 module is not listed",
                names[index].site
            );
            return Err(Violation { row: 0, what });
        }
        Ok(Rules { metadata, row: 0, last_time: 0, objects: 0, frame: 0, live: Vec::new() })
    }

    /// Returns the number of rows checked so far.
    pub fn rows(&self) -> u64 {
        self.row
    }

    /// Checks the next event.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check(&mut self, event: &Event) -> Result<(), Violation> {
        match self.broken(event) {
            Some(what) => Err(Violation { row: self.row, what }),
            None => {
                self.last_time = event.time;
                self.row += 1;
                Ok(())
            }
        }
    }

    /// Checks the origin of the event that was checked last.
    ///
    /// # Errors
    /// A module or a stack that the metadata does not list.
    pub fn check_origin(&self, origin: Origin) -> Result<(), Violation> {
        let Metadata { modules, stacks, .. } = self.metadata;
        for (what, index, known) in
            [("module", origin.module, modules.len()), ("stack", origin.stack, stacks.nodes.len())]
        {
            if index != Origin::NONE && index as usize >= known {
                let what = format!("{what} {index}, but the metadata lists {known}");
                return Err(Violation { row: self.row - 1, what });
            }
        }
        Ok(())
    }

    fn broken(&mut self, event: &Event) -> Option<String> {
        if event.time < self.last_time {
            return Some(format!(
                "time {} ns is before {} ns of the row above",
                event.time, self.last_time
            ));
        }
        if event.begin > event.time || (event.begin != event.time && event.op != Op::Realloc) {
            let (begin, time) = (event.begin, event.time);
            return Some(format!("a {} at {time} ns cannot begin at {begin} ns", event.op.name()));
        }
        if event.thread as usize >= self.metadata.threads.len() {
            let known = self.metadata.threads.len();
            return Some(format!("thread {}, but the metadata lists {known}", event.thread));
        }
        if event.free_hint != FreeHint::NONE && event.op != Op::Free {
            let (op, hint) = (event.op.name(), event.free_hint.name());
            return Some(format!("a {op} cannot have the hint of a {hint}"));
        }
        if event.align != 0 && !event.align.is_power_of_two()
            || (event.op == Op::Aligned) != (event.align != 0)
        {
            return Some(format!("a {} cannot have alignment {}", event.op.name(), event.align));
        }
        if !event.op.creates() && event.size != 0 {
            return Some(format!("a {} cannot have size {}", event.op.name(), event.size));
        }
        self.broken_frame(event)
            .or_else(|| self.broken_release(event))
            .or_else(|| self.broken_creation(event))
    }

    fn broken_frame(&mut self, event: &Event) -> Option<String> {
        let frames = &self.metadata.frames;
        // The begin of a realloc may be slightly before the begin of an earlier row.
        while self.frame > 0 && frames[self.frame - 1] > event.begin {
            self.frame -= 1;
        }
        while self.frame < frames.len() && frames[self.frame] <= event.begin {
            self.frame += 1;
        }
        let (recorded, marks) = (event.frame, self.frame);
        (recorded as usize != marks).then(|| {
            format!("frame {recorded}, but {marks} marks are at or before {} ns", event.begin)
        })
    }

    fn broken_release(&mut self, event: &Event) -> Option<String> {
        let id = event.released;
        if id == 0 {
            return (event.op == Op::Free).then(|| "a free that names no object".to_owned());
        }
        if !matches!(event.op, Op::Free | Op::Realloc) {
            return Some(format!("a {} cannot release object {id}", event.op.name()));
        }
        if id > self.objects {
            return Some(format!("object {id} is released before it is created"));
        }
        let (word, bit) = ((id / 64) as usize, 1 << (id % 64));
        if self.live[word] & bit == 0 {
            return Some(format!("object {id} is released twice"));
        }
        self.live[word] &= !bit;
        None
    }

    fn broken_creation(&mut self, event: &Event) -> Option<String> {
        let expected = if event.op.creates() { self.objects + 1 } else { 0 };
        if event.created != expected {
            return Some(format!(
                "a {} must create object {expected}, not {}",
                event.op.name(),
                event.created
            ));
        }
        if expected != 0 {
            self.objects = expected;
            let word = (expected / 64) as usize;
            self.live.resize(self.live.len().max(word + 1), 0);
            self.live[word] |= 1 << (expected % 64);
        }
        None
    }
}
