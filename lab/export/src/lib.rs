//! Results to other tools' formats.
