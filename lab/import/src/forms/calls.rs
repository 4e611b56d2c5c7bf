//! Traces that write operations as calls: cmt, Mozilla's logalloc and `valgrind
//! --trace-malloc=yes`.
//!
//! ```text
//! malloc(56) = 0x800e00000                  cmt
//! realloc(0x800e00000, 80) = 0x800e00038
//! 13663 13665 malloc(42)=0x7f0c33502040     logalloc: process, thread
//! 13663 free(0x7f0c33502040)                logalloc of old: only the process
//! 1 1 free(#2)                              logalloc, munged: blocks are numbered
//! --12345-- _Znwm(41) = 0x4D6FC80           valgrind: process
//! --12345-- memalign(al 64, size 200) = 0x4A436C0
//! --12345-- _ZdlPvm(0x4D6FC80)              a delete with a size, which valgrind does not print
//! ```
//!
//! valgrind and logalloc write to the output of the program, so an operation may follow the
//! program's own text on the same line: `50%--12345-- malloc(8) = 0x10`.

use super::{Form, Guess, Line, NOT_SAID, Record};
use crate::error::Fault;
use crate::text::Cursor;
use keel_journal::{FreeHint, Op};

const PAGE_BYTES: u64 = 4096;
/// A prefix of valgrind has two `--`, and the text before it may end with dashes.
const MOST_DASHES: usize = 4;
const CMT: &str = "Lines have the forms `malloc(SIZE) = PTR`, `realloc(OLD, SIZE) = NEW` and \
    `free(PTR)`; repair or remove this line";
const LOGALLOC: &str = "Lines have the form `PID TID malloc(SIZE)=PTR` with malloc, calloc, \
    realloc, memalign and the like, or `PID TID free(PTR)`; repair or remove this line";
const VALGRIND: &str = "Lines have the form `--PID-- malloc(SIZE) = PTR`, and the same form for \
    other functions; repair or remove this line";

pub(crate) struct Calls {
    form: Form,
    advice: &'static str,
    /// The process that is read, once known.
    process: Option<u64>,
    /// Whether the user chose it; lines of other processes are then ignored.
    chosen: bool,
}

pub(crate) fn recognises(line: &[u8]) -> Guess {
    if line.starts_with(b"==")
        && line.windows(3).any(|three| three == b"== ")
        && valgrind_process(line).is_some()
    {
        return Guess::Perhaps(Form::Valgrind);
    }
    if let Some((form, _)) = behind_text(line)
        && Calls::new(form, None).parse(line).is_ok()
    {
        return Guess::Surely(form);
    }
    let mut cursor = Cursor::new(line, "");
    if Function::named(cursor.word()).is_some() && cursor.peek() == Some(b'(') {
        return Guess::Surely(Form::Cmt);
    }
    Guess::Unknown
}

/// The form and the start of an operation with the prefix of valgrind or of logalloc, anywhere in a
/// line.
fn behind_text(line: &[u8]) -> Option<(Form, usize)> {
    memchr::memchr_iter(b'(', line).find_map(|bracket| {
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let length = line[..bracket].iter().rev().take_while(|byte| is_name(byte)).count();
        let name = bracket - length;
        Function::named(&line[name..bracket])?;
        valgrind_start(line, name)
            .map(|start| (Form::Valgrind, start))
            .or_else(|| logalloc_start(line, name).map(|start| (Form::Logalloc, start)))
    })
}

/// The start of the prefix of valgrind that ends before the byte `end`.
fn valgrind_start(line: &[u8], end: usize) -> Option<usize> {
    let starts = memchr::memmem::rfind_iter(&line[..end], b"--");
    starts.skip(1).take(MOST_DASHES).find(|start| {
        let mut cursor = Cursor::new(line, "");
        cursor.skip(*start);
        valgrind_prefix(&mut cursor).is_some() && cursor.position() == end
    })
}

/// The start of the prefix of logalloc that ends before the byte `end`: one or two numbers, each
/// with a blank after it.
fn logalloc_start(line: &[u8], end: usize) -> Option<usize> {
    let number = |end: usize| {
        let before = line[..end].strip_suffix(b" ")?;
        let digits = before.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        (digits > 0).then(|| before.len() - digits)
    };
    let last = number(end)?;
    Some(number(last).unwrap_or(last))
}

/// `==PID== ...`
fn valgrind_process(line: &[u8]) -> Option<u64> {
    let mut cursor = Cursor::new(line, "");
    cursor.takes(b"==").then_some(())?;
    let process = cursor.decimal_here("").ok()?;
    cursor.takes(b"==").then_some(process)
}

/// `--PID-- ` or `--DAYS:HH:MM:SS.MMM PID-- `.
fn valgrind_prefix(cursor: &mut Cursor<'_>) -> Option<u64> {
    cursor.takes(b"--").then_some(())?;
    let mut ahead = *cursor;
    if ahead.token().contains(&b':') {
        *cursor = ahead;
        cursor.skip_blanks();
    }
    let process = cursor.decimal_here("").ok()?;
    cursor.takes(b"-- ").then_some(process)
}

/// `PROCESS ` or `PROCESS THREAD `; without a thread, it is 0.
fn logalloc_prefix(cursor: &mut Cursor<'_>) -> Result<(u64, u64), Fault> {
    let process = cursor.decimal_here("a process id")?;
    cursor.expect(" ")?;
    if !cursor.peek().is_some_and(|byte| byte.is_ascii_digit()) {
        return Ok((process, 0));
    }
    let thread = cursor.decimal_here("a thread id")?;
    cursor.expect(" ")?;
    Ok((process, thread))
}

/// What a function does with the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Malloc,
    Calloc,
    Realloc,
    /// Alignment and size.
    Aligned,
    Valloc,
    /// `operator new`, perhaps with an alignment after the size.
    New,
    /// A free with this hint; some forms write its values, others do not.
    Free(FreeHint),
    /// A call that changes nothing.
    Query,
}

impl Function {
    fn named(name: &[u8]) -> Option<Function> {
        let name = name.strip_prefix(b"moz_arena_").unwrap_or(name);
        Some(match name {
            b"malloc" => Function::Malloc,
            b"calloc" => Function::Calloc,
            b"realloc" => Function::Realloc,
            b"memalign" | b"posix_memalign" | b"aligned_alloc" => Function::Aligned,
            b"valloc" | b"pvalloc" => Function::Valloc,
            b"free" | b"cfree" => Function::Free(FreeHint::NONE),
            b"free_sized" => Function::Free(FreeHint::SIZE),
            b"free_aligned_sized" => Function::Free(FreeHint::BOTH),
            b"malloc_usable_size"
            | b"malloc_good_size"
            | b"jemalloc_stats"
            | b"jemalloc_stats_internal"
            | b"mallinfo"
            | b"mallinfo2"
            | b"mallopt"
            | b"malloc_trim" => Function::Query,
            _ if name.starts_with(b"_Znw") || name.starts_with(b"_Zna") => Function::New,
            _ if name.starts_with(b"_Zdl") || name.starts_with(b"_Zda") => {
                Function::Free(hint_of(name))
            }
            _ => return None,
        })
    }
}

/// The hint of a form of `operator delete`, by the types of its parameters: `Pv` is the block, `m`
/// a size.
fn hint_of(name: &[u8]) -> FreeHint {
    let parameters = name.get(b"_ZdlPv".len()..).unwrap_or_default();
    let sized = parameters.starts_with(b"m");
    let aligned = parameters.windows(b"align_val_t".len()).any(|part| part == b"align_val_t");
    match (sized, aligned) {
        (true, true) => FreeHint::BOTH,
        (true, false) => FreeHint::SIZE,
        (false, true) => FreeHint::ALIGN,
        (false, false) => FreeHint::NONE,
    }
}

impl Calls {
    pub fn new(form: Form, process: Option<u64>) -> Calls {
        let advice = match form {
            Form::Valgrind => VALGRIND,
            Form::Logalloc => LOGALLOC,
            _ => CMT,
        };
        Calls { form, advice, process, chosen: process.is_some() }
    }

    pub fn parse(&mut self, line: &[u8]) -> Result<Line, Fault> {
        let mut cursor = Cursor::new(line, self.advice);
        match behind_text(line) {
            Some((form, start)) if form == self.form => cursor.skip(start),
            _ => {
                cursor.skip_blanks();
                let is_text = match self.form {
                    // Other messages of valgrind, too.
                    Form::Valgrind => true,
                    Form::Logalloc => !cursor.peek().is_some_and(|byte| byte.is_ascii_digit()),
                    _ => matches!(cursor.peek(), None | Some(b'#')),
                };
                if is_text {
                    return Ok(Line::Silent);
                }
            }
        }
        let (process, thread) = match self.form {
            Form::Valgrind => match valgrind_prefix(&mut cursor) {
                Some(process) => (process, 0),
                None => return Ok(Line::Silent),
            },
            Form::Logalloc => logalloc_prefix(&mut cursor)?,
            _ => (0, 0),
        };
        if *self.process.get_or_insert(process) != process {
            return Ok(if self.chosen { Line::Silent } else { Line::OtherProcess });
        }
        self.call(cursor, thread)
    }

    fn call(&self, mut cursor: Cursor<'_>, thread: u64) -> Result<Line, Fault> {
        let start = cursor.position();
        let name = cursor.word();
        let Some(function) = Function::named(name) else {
            // The rest of a realloc that freed, `--PID--  = 0`, and other messages.
            return match self.form {
                Form::Valgrind => Ok(Line::Silent),
                _ => Err(cursor
                    .fault_at(start, "a function (malloc, calloc, realloc, free and the like)")),
            };
        };
        if self.form == Form::Valgrind && cursor.peek() != Some(b'(') {
            return Ok(Line::Silent);
        }
        if function == Function::Query {
            return Ok(Line::Silent);
        }
        cursor.expect("(")?;
        if name.starts_with(b"moz_arena_") {
            cursor.decimal_here("an arena")?;
            comma(&mut cursor)?;
        }
        let mut record = Record { thread, ..arguments(&mut cursor, function)? };
        // valgrind prints what its realloc does in this way: `realloc(0x0,12)malloc(12) = ...`,
        // `realloc(0x4A435F0,0)free(...)`.
        if function == Function::Realloc
            && (cursor.takes(b"malloc(") || cursor.rest().starts_with(b"free("))
        {
            if cursor.takes(b"free(") {
                record = Record { op: Op::Free, old: record.old, thread, ..Record::default() };
                cursor.hexadecimal_here("a pointer")?;
            } else {
                cursor.decimal_here("a size")?;
            }
            cursor.expect(")")?;
        }
        if record.op != Op::Free {
            cursor.skip_blanks();
            cursor.expect("=")?;
            cursor.skip_blanks();
            record.new = pointer(&mut cursor, "a pointer")?;
        }
        cursor.end()?;
        Ok(Line::Operation(record))
    }
}

/// The arguments and the closing bracket.
fn arguments(cursor: &mut Cursor<'_>, function: Function) -> Result<Record, Fault> {
    let mut record = Record::default();
    match function {
        Function::Malloc | Function::Query => record.size = number(cursor, "size ", "a size")?,
        Function::Valloc => {
            (record.op, record.align) = (Op::Aligned, PAGE_BYTES);
            record.size = number(cursor, "size ", "a size")?;
        }
        Function::Calloc => {
            record.op = Op::Calloc;
            record.size = calloc_size(cursor)?;
        }
        Function::Realloc => {
            record.op = Op::Realloc;
            record.old = pointer(cursor, "the old pointer")?;
            comma(cursor)?;
            record.size = number(cursor, "size ", "a size")?;
        }
        Function::Aligned => {
            record.op = Op::Aligned;
            record.align = number(cursor, "al ", "an alignment")?;
            comma(cursor)?;
            record.size = number(cursor, "size ", "a size")?;
        }
        Function::New => {
            record.size = number(cursor, "size ", "a size")?;
            if cursor.peek() == Some(b',') {
                comma(cursor)?;
                record.op = Op::Aligned;
                record.align = number(cursor, "al ", "an alignment")?;
            }
        }
        Function::Free(free_hint) => {
            (record.op, record.free_hint) = (Op::Free, free_hint);
            record.old = pointer(cursor, "a pointer")?;
            let not_said = |free_hint| if free_hint { NOT_SAID } else { 0 };
            (record.size, record.align) =
                (not_said(free_hint.has_size()), not_said(free_hint.has_align()));
            while cursor.peek() == Some(b',') {
                comma(cursor)?;
                if cursor.takes(b"al ") {
                    record.align = cursor.decimal_here("an alignment")?;
                } else {
                    record.size = number(cursor, "size ", "a size")?;
                }
            }
        }
    }
    cursor.expect(")")?;
    Ok(record)
}

fn calloc_size(cursor: &mut Cursor<'_>) -> Result<u64, Fault> {
    let before = *cursor;
    let count = number(cursor, "", "a count")?;
    comma(cursor)?;
    let size = number(cursor, "", "a size")?;
    let product = count.checked_mul(size).filter(|bytes| bytes >> 63 == 0);
    product.ok_or_else(|| before.fault("a count and a size whose product is below 2^63"))
}

fn comma(cursor: &mut Cursor<'_>) -> Result<(), Fault> {
    cursor.expect(",")?;
    cursor.skip_blanks();
    Ok(())
}

/// A decimal number after its label, if it has one.
fn number(cursor: &mut Cursor<'_>, label: &str, what: &'static str) -> Result<u64, Fault> {
    cursor.takes(label.as_bytes());
    cursor.decimal_here(what)
}

/// An address, or `#` and a number.
fn pointer(cursor: &mut Cursor<'_>, what: &'static str) -> Result<u64, Fault> {
    if cursor.takes(b"#") { cursor.decimal_here(what) } else { cursor.hexadecimal_here(what) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]
    use super::*;

    fn operation(form: Form, line: &str) -> (Op, u64, u64, u64, u64, u64) {
        match Calls::new(form, None).parse(line.as_bytes()) {
            Ok(Line::Operation(record)) => {
                (record.op, record.size, record.align, record.old, record.new, record.thread)
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn cmt_is_read() {
        assert_eq!(
            operation(Form::Cmt, "malloc(56) = 0x800e00000"),
            (Op::Malloc, 56, 0, 0, 0x8_00e0_0000, 0)
        );
        assert_eq!(
            operation(Form::Cmt, "realloc(0x10, 80) = 0x20"),
            (Op::Realloc, 80, 0, 16, 32, 0)
        );
        assert_eq!(operation(Form::Cmt, "calloc(3, 8) = 20\r"), (Op::Calloc, 24, 0, 0, 32, 0));
        assert_eq!(operation(Form::Cmt, "free(0x20)"), (Op::Free, 0, 0, 32, 0, 0));
    }

    #[test]
    fn logalloc_is_read() {
        let form = Form::Logalloc;
        assert_eq!(
            operation(form, "13663 malloc(42)=0x7f0c33502040"),
            (Op::Malloc, 42, 0, 0, 0x7f0c_3350_2040, 0)
        );
        assert_eq!(operation(form, "1 2 posix_memalign(64,10)=#3"), (Op::Aligned, 10, 64, 0, 3, 2));
        assert_eq!(operation(form, "1 2 realloc(#3,11)=#4"), (Op::Realloc, 11, 0, 3, 4, 2));
        assert_eq!(operation(form, "1 2 moz_arena_calloc(7,3,5)=#9"), (Op::Calloc, 15, 0, 0, 9, 2));
        assert_eq!(operation(form, "1 2 valloc(5)=#9"), (Op::Aligned, 5, 4096, 0, 9, 2));
        assert_eq!(Calls::new(form, None).parse(b"1 2 jemalloc_stats(#0)"), Ok(Line::Silent));
    }

    #[test]
    fn valgrind_is_read() {
        let form = Form::Valgrind;
        assert_eq!(
            operation(form, "--12-- _Znwm(41) = 0x4D6FC80"),
            (Op::Malloc, 41, 0, 0, 0x4d6_fc80, 0)
        );
        assert_eq!(
            operation(form, "--12-- _ZnwmSt11align_val_t(size 64, al 32) = 0x40"),
            (Op::Aligned, 64, 32, 0, 64, 0)
        );
        assert_eq!(
            operation(form, "--12-- memalign(al 64, size 200) = 0x40"),
            (Op::Aligned, 200, 64, 0, 64, 0)
        );
        assert_eq!(
            operation(form, "--12-- realloc(0x0,12)malloc(12) = 0x40"),
            (Op::Realloc, 12, 0, 0, 64, 0)
        );
        assert_eq!(operation(form, "--12-- realloc(0x40,0)free(0x40)"), (Op::Free, 0, 0, 64, 0, 0));
        assert_eq!(
            operation(form, "--00:00:00:01.250 12-- free(0x40)"),
            (Op::Free, 0, 0, 64, 0, 0)
        );
        for line in [
            "--12--  = 0",
            "==12== Memcheck, a memory error detector",
            "hello",
            "--12-- REDIR: x",
            "",
        ] {
            assert_eq!(Calls::new(form, None).parse(line.as_bytes()), Ok(Line::Silent), "{line}");
        }
    }

    #[test]
    fn operations_follow_text_of_the_program() {
        let valgrind = [
            "50%--12-- malloc(200) = 0x40",
            "a -- b --12-- malloc(200) = 0x40",
            "loading (1) ... --12-- malloc(200) = 0x40",
            "done---12-- malloc(200) = 0x40",
            "--00:00:00:01.250 12-- malloc(200) = 0x40",
        ];
        for line in valgrind {
            let expected = (Op::Malloc, 200, 0, 0, 64, 0);
            assert_eq!(operation(Form::Valgrind, line), expected, "{line}");
            assert_eq!(recognises(line.as_bytes()), Guess::Surely(Form::Valgrind), "{line}");
        }
        for line in ["loading... 1 2 malloc(200)=#3", "step 7 1 2 malloc(200)=#3"] {
            let expected = (Op::Malloc, 200, 0, 0, 3, 2);
            assert_eq!(operation(Form::Logalloc, line), expected, "{line}");
            assert_eq!(recognises(line.as_bytes()), Guess::Surely(Form::Logalloc), "{line}");
        }
        let mut logalloc = Calls::new(Form::Logalloc, None);
        assert_eq!(logalloc.parse(b"loading..."), Ok(Line::Silent));
        assert_eq!(recognises(b"we call malloc(3) often"), Guess::Unknown);
    }

    #[test]
    fn old_logalloc_has_processes_without_threads() {
        let mut calls = Calls::new(Form::Logalloc, None);
        assert!(matches!(calls.parse(b"100 malloc(42)=0x1000"), Ok(Line::Operation(_))));
        assert_eq!(calls.parse(b"200 malloc(24)=0x1000"), Ok(Line::OtherProcess));
    }

    #[test]
    fn hints_of_frees_are_read() {
        let free_hint = |form, line: &str| match Calls::new(form, None).parse(line.as_bytes()) {
            Ok(Line::Operation(Record { op: Op::Free, free_hint, size, align, .. })) => {
                (free_hint, size, align)
            }
            other => panic!("{line}: {other:?}"),
        };
        let form = Form::Valgrind;
        assert_eq!(free_hint(form, "--12-- _ZdlPv(0x40)"), (FreeHint::NONE, 0, 0));
        assert_eq!(free_hint(form, "--12-- _ZdaPvRKSt9nothrow_t(0x40)"), (FreeHint::NONE, 0, 0));
        assert_eq!(free_hint(form, "--12-- _ZdaPvm(0x40)"), (FreeHint::SIZE, NOT_SAID, 0));
        assert_eq!(free_hint(form, "--12-- _ZdlPvm(0x40, size 24)"), (FreeHint::SIZE, 24, 0));
        assert_eq!(
            free_hint(form, "--12-- _ZdlPvSt11align_val_t(0x40)"),
            (FreeHint::ALIGN, 0, NOT_SAID)
        );
        assert_eq!(
            free_hint(form, "--12-- _ZdlPvmSt11align_val_t(0x40)"),
            (FreeHint::BOTH, NOT_SAID, NOT_SAID)
        );
        assert_eq!(
            free_hint(Form::Cmt, "free_aligned_sized(0x40, al 64, size 24)"),
            (FreeHint::BOTH, 24, 64)
        );
        assert_eq!(free_hint(Form::Cmt, "free_sized(0x40, 24)"), (FreeHint::SIZE, 24, 0));
    }

    #[test]
    fn one_process_is_read() {
        let mut calls = Calls::new(Form::Valgrind, None);
        assert!(matches!(calls.parse(b"--12-- malloc(1) = 0x10"), Ok(Line::Operation(_))));
        assert_eq!(calls.parse(b"--13-- malloc(1) = 0x10"), Ok(Line::OtherProcess));
        let mut calls = Calls::new(Form::Valgrind, Some(13));
        assert_eq!(calls.parse(b"--12-- malloc(1) = 0x10"), Ok(Line::Silent));
        assert!(matches!(calls.parse(b"--13-- malloc(1) = 0x10"), Ok(Line::Operation(_))));
    }

    #[test]
    fn faults_have_a_position() {
        let fault = |form, line: &str| {
            let fault = Calls::new(form, None).parse(line.as_bytes()).unwrap_err();
            (fault.column, fault.expected, fault.found)
        };
        let expected = |column, expected: &str, found: &str| {
            (Some(column), expected.to_owned(), found.to_owned())
        };
        assert_eq!(fault(Form::Cmt, "malloc(x) = 0x1"), expected(8, "a size", "`x) = 0x1`"));
        assert_eq!(fault(Form::Cmt, "malloc(8) 0x1"), expected(11, "`=`", "`0x1`"));
        assert_eq!(
            fault(Form::Logalloc, "1 2 malloc(8)=#1 x"),
            expected(18, "the end of the line", "`x`")
        );
        assert_eq!(fault(Form::Valgrind, "--1-- free(0x"), expected(12, "a pointer", "`0x`"));
    }
}
