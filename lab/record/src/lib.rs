//! Runs a program under the recorder and drains its rings into a journal.
