//! The text forms, one module each, and their detection.

pub(crate) mod android;
pub(crate) mod calls;
pub(crate) mod doom3;
pub(crate) mod heaptrack;
mod heaptrack_calls;
pub(crate) mod judy;
pub(crate) mod mtrace;
pub(crate) mod rep;
pub(crate) mod tags;

use crate::error::Fault;
use crate::stacks::StackTable;
use keel_journal::{FreeHint, Op, Origin, TextForm as Form};

/// The form of a text that begins with these lines: the form of the first line that only one form
/// has.
pub fn detect(text: &[u8]) -> Option<Form> {
    let mut likely = None;
    for line in text.split(|byte| *byte == b'\n') {
        match of_line(line) {
            Guess::Surely(form) => return Some(form),
            Guess::Perhaps(form) => likely = likely.or(Some(form)),
            Guess::Unknown => {}
        }
    }
    likely
}

/// The evidence of one line for a form.
pub(crate) fn of_line(line: &[u8]) -> Guess {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
    let forms = [
        (doom3::recognises as fn(&[u8]) -> Guess),
        judy::recognises,
        android::recognises,
        calls::recognises,
        mtrace::recognises,
        heaptrack::recognises,
        rep::recognises,
        tags::recognises,
    ];
    let guesses = forms.into_iter().map(|recognises| recognises(line));
    guesses.fold(Guess::Unknown, |best, guess| match (best, guess) {
        (Guess::Unknown, _) | (Guess::Perhaps(_), Guess::Surely(_)) => guess,
        _ => best,
    })
}

/// The evidence of a line for the form of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guess {
    /// Only this form has such lines.
    Surely(Form),
    /// Other forms have such lines too, but this form is the most likely.
    Perhaps(Form),
    /// No form, or every form, has such lines.
    Unknown,
}

/// A number that the program passed and the text does not have.
pub(crate) const NOT_SAID: u64 = u64::MAX;

/// One operation of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub op: Op,
    /// For a free, the hinted size; [`NOT_SAID`] if the text does not have it. Likewise `align`.
    pub size: u64,
    pub align: u64,
    /// The kind of hint of a free.
    pub free_hint: FreeHint,
    /// The block that is released; 0 if none.
    pub old: u64,
    /// The block that is created; 0 for a free.
    pub new: u64,
    pub thread: u64,
    /// When the call began, ns; equal to `time` but for a realloc that has two.
    pub begin: u64,
    pub time: u64,
}

impl Default for Record {
    #[inline]
    fn default() -> Record {
        Record {
            op: Op::Malloc,
            size: 0,
            align: 0,
            free_hint: FreeHint::NONE,
            old: 0,
            new: 0,
            thread: 0,
            begin: 0,
            time: 0,
        }
    }
}

/// The meaning of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Nothing.
    Silent,
    /// An operation.
    Operation(Record),
    /// This thread has ended; another thread may get its id.
    ThreadEnds(u64),
    /// A marker; its text is the line.
    Mark,
    /// A line of a process other than the one that is read.
    OtherProcess,
}

impl From<Option<Record>> for Line {
    #[inline]
    fn from(record: Option<Record>) -> Line {
        record.map_or(Line::Silent, Line::Operation)
    }
}

/// A form's parser, with its state between lines.
pub(crate) enum Parser {
    Doom3,
    Judy(judy::Judy),
    Android(android::Android),
    Calls(calls::Calls),
    Mtrace(mtrace::Mtrace),
    Heaptrack(heaptrack::Heaptrack),
    Rep(rep::Rep),
    Tags(tags::Tags),
}

impl Parser {
    /// A parser at the start of a text. If the text has several processes, it reads `process`, or
    /// the first one.
    pub fn new(form: Form, process: Option<u64>) -> Parser {
        match form {
            Form::Doom3 => Parser::Doom3,
            Form::Judy => Parser::Judy(judy::Judy::default()),
            Form::Android => Parser::Android(android::Android::default()),
            Form::Logalloc | Form::Cmt | Form::Valgrind => {
                Parser::Calls(calls::Calls::new(form, process))
            }
            Form::Mtrace => Parser::Mtrace(mtrace::Mtrace::default()),
            Form::Heaptrack => Parser::Heaptrack(heaptrack::Heaptrack::default()),
            Form::Rep => Parser::Rep(rep::Rep::default()),
            Form::Tags | Form::Numbered => Parser::Tags(tags::Tags::new(form)),
        }
    }

    /// Reads the line at the start of these bytes, including its line break, if its form has a fast
    /// path and the line is plain. Returns its length; after `None`, the contents of `record` are
    /// meaningless.
    #[inline]
    pub fn parse_plain(&self, bytes: &[u8], record: &mut Record) -> Option<usize> {
        if matches!(self, Parser::Doom3) { doom3::parse_plain(bytes, record) } else { None }
    }

    /// Reads one line without its line break.
    #[inline]
    pub fn parse(&mut self, line: &[u8]) -> Result<Line, Fault> {
        match self {
            Parser::Doom3 => doom3::parse_line(line).map(Line::from),
            Parser::Judy(parser) => Ok(parser.parse(line)),
            Parser::Android(parser) => parser.parse(line),
            Parser::Calls(parser) => parser.parse(line),
            Parser::Mtrace(parser) => parser.parse(line),
            Parser::Heaptrack(parser) => parser.parse(line),
            Parser::Rep(parser) => parser.parse(line),
            Parser::Tags(parser) => parser.parse(line),
        }
    }

    /// Whether the form has call stacks.
    pub const fn has_stacks(&self) -> bool {
        matches!(self, Parser::Heaptrack(_) | Parser::Mtrace(_))
    }

    /// The origin of the operation that was read last.
    pub fn origin(&self) -> Origin {
        match self {
            Parser::Heaptrack(parser) => parser.origin(),
            Parser::Mtrace(parser) => parser.origin(),
            _ => Origin::UNKNOWN,
        }
    }

    /// The call stacks of the text.
    pub fn into_stacks(self) -> StackTable {
        match self {
            Parser::Heaptrack(parser) => parser.into_stacks(),
            Parser::Mtrace(parser) => parser.into_stacks(),
            _ => StackTable::default(),
        }
    }

    /// Checks at the end of the text that no line is missing.
    pub fn finish(&self) -> Result<(), Fault> {
        match self {
            Parser::Mtrace(parser) => parser.finish(),
            Parser::Rep(parser) => parser.finish(),
            _ => Ok(()),
        }
    }

    /// The times that the text has.
    pub const fn times(&self) -> Times {
        match self {
            Parser::Doom3 | Parser::Heaptrack(_) => Times::SinceStart,
            Parser::Android(parser) if parser.has_times() => Times::SinceBefore,
            _ => Times::None,
        }
    }

    /// Whether the trace may begin while the program runs. The numbers and tags of the other forms
    /// are given by an allocation of the trace.
    pub const fn may_begin_late(&self) -> bool {
        !matches!(self, Parser::Rep(_) | Parser::Tags(_))
    }

    /// How messages name its blocks.
    pub const fn naming(&self) -> Naming {
        match self {
            Parser::Rep(_) => Naming::Number,
            Parser::Tags(_) => Naming::Line,
            Parser::Heaptrack(parser) if parser.is_interpreted() => Naming::Line,
            _ => Naming::Address,
        }
    }
}

/// The kind of times that a text has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Times {
    /// No times: only the order of the operations.
    None,
    /// ns since the start of the recording.
    SinceStart,
    /// ns since an unknown time: the first operation's time becomes 0.
    SinceBefore,
}

/// How a form names its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// By hexadecimal address.
    Address,
    /// By number; the key is the number plus 1.
    Number,
    /// By none that a message could show; the message names the line.
    Line,
}

/// Whether `text` is not empty and all of it is hexadecimal, with or without `0x`.
pub(crate) fn is_hexadecimal(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"0x").or(text.strip_prefix(b"0X")).unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit)
}

/// Whether `text` is not empty and all of it is decimal.
pub(crate) fn is_decimal(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

/// The fields of a line.
pub(crate) fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace()).filter(|field| !field.is_empty())
}
