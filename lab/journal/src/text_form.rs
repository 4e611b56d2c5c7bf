//! The text formats of other tools' traces, which `keel import` reads and `keel export` writes.

/// A text format from which a journal can be imported, and to which it can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TextForm {
    /// The text journal of the blog "Benchmarking Malloc with Doom 3", and the extension of that
    /// format.
    Doom3,
    /// The output of programs with the Judy library, built with `TRACEMI`, `TRACEMI2` or `TRACEJM`.
    Judy,
    /// Android's malloc_debug and memory_replay.
    Android,
    /// Mozilla's logalloc, raw or munged.
    Logalloc,
    /// cmt, the malloc traces of the CHERI project.
    Cmt,
    /// glibc's mtrace.
    Mtrace,
    /// `valgrind --trace-malloc=yes`.
    Valgrind,
    /// heaptrack's files, raw or interpreted.
    Heaptrack,
    /// The `.rep` files of the malloc lab.
    Rep,
    /// `Allocate TAG SIZE` and `Free TAG`.
    Tags,
    /// `Alloc(SIZE),` and `Free(N),`, the traces of wee_alloc.
    Numbered,
}

impl TextForm {
    /// Every format.
    pub const ALL: [TextForm; 11] = [
        TextForm::Doom3,
        TextForm::Judy,
        TextForm::Android,
        TextForm::Logalloc,
        TextForm::Cmt,
        TextForm::Mtrace,
        TextForm::Valgrind,
        TextForm::Heaptrack,
        TextForm::Rep,
        TextForm::Tags,
        TextForm::Numbered,
    ];

    /// The format's name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            TextForm::Doom3 => "doom3",
            TextForm::Judy => "judy",
            TextForm::Android => "android",
            TextForm::Logalloc => "logalloc",
            TextForm::Cmt => "cmt",
            TextForm::Mtrace => "mtrace",
            TextForm::Valgrind => "valgrind",
            TextForm::Heaptrack => "heaptrack",
            TextForm::Rep => "rep",
            TextForm::Tags => "tags",
            TextForm::Numbered => "numbered",
        }
    }

    /// Returns a short description of the format that `keel export` writes.
    pub fn written_as(self) -> &'static str {
        match self {
            TextForm::Doom3 => {
                "text trace as in \"Benchmarking Malloc with Doom 3\", with more kinds of lines"
            }
            TextForm::Judy => {
                "the Judy kit's `a ADDR BYTES POPULATION`; each mark becomes a separate line"
            }
            TextForm::Android => "Android's memory_replay",
            TextForm::Logalloc => "Mozilla's logalloc",
            TextForm::Cmt => "lines `malloc(SIZE) = PTR` (CHERI)",
            TextForm::Mtrace => "glibc's mtrace",
            TextForm::Valgrind => "`valgrind --trace-malloc=yes`",
            TextForm::Heaptrack => "heaptrack, raw",
            TextForm::Rep => ".rep traces of the CS:APP malloc lab",
            TextForm::Tags => "`Allocate TAG SIZE`, `Free TAG`",
            TextForm::Numbered => "`Alloc(SIZE),`, `Free(N),`",
        }
    }

    /// Returns the format with this name.
    pub fn from_name(name: &str) -> Option<TextForm> {
        TextForm::ALL.into_iter().find(|form| form.name() == name)
    }
}
