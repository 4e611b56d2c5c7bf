//! `operations.parquet`, written while the journal is compiled.

use crate::Error;
use crate::compile::Operated;
use keel_results::raw::{OperationRows, OperationWriter};
use std::path::Path;

/// Operations that are not yet written.
pub struct OperationBatch {
    writer: OperationWriter,
    op: Vec<u8>,
    size: Vec<u64>,
    thread: Vec<u32>,
    frame: Vec<u32>,
    time: Vec<u64>,
    age: Vec<u32>,
}

impl OperationBatch {
    pub fn create(path: &Path) -> Result<OperationBatch, Error> {
        let writer = OperationWriter::create(path)?;
        let (op, size, thread, frame, time, age) = Default::default();
        Ok(OperationBatch { writer, op, size, thread, frame, time, age })
    }

    pub fn push(&mut self, operated: Operated) -> Result<(), Error> {
        self.op.push(operated.op);
        self.size.push(operated.size);
        self.thread.push(operated.thread);
        self.frame.push(operated.frame);
        self.time.push(operated.time);
        self.age.push(operated.age);
        if self.op.len() == 1 << 16 { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let rows = OperationRows {
            op: &self.op,
            size: &self.size,
            thread: &self.thread,
            frame: &self.frame,
            time: &self.time,
        };
        self.writer.write_with_ages(rows, &self.age)?;
        self.op.clear();
        self.size.clear();
        self.thread.clear();
        self.frame.clear();
        self.time.clear();
        self.age.clear();
        Ok(())
    }

    pub fn finish(mut self) -> Result<(), Error> {
        self.flush()?;
        self.writer.finish()?;
        Ok(())
    }
}
