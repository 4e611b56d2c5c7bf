//! `operations.parquet`, written while the journal is compiled.

use crate::Error;
use crate::compile::Operated;
use keel_journal::Metadata;
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
    stack: Vec<u32>,
    has_stacks: bool,
}

impl OperationBatch {
    pub fn create(path: &Path, has_stacks: bool) -> Result<OperationBatch, Error> {
        let create = match has_stacks {
            true => OperationWriter::create_with_stacks,
            false => OperationWriter::create,
        };
        let writer = create(path)?;
        let (op, size, thread, frame, time, age, stack) = Default::default();
        Ok(OperationBatch { writer, op, size, thread, frame, time, age, stack, has_stacks })
    }

    pub fn push(&mut self, operated: Operated) -> Result<(), Error> {
        self.op.push(operated.op);
        self.size.push(operated.size);
        self.thread.push(operated.thread);
        self.frame.push(operated.frame);
        self.time.push(operated.time);
        self.age.push(operated.age);
        if self.has_stacks {
            self.stack.push(operated.stack);
        }
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
        self.writer.write_with_stacks(rows, &self.age, &self.stack)?;
        self.op.clear();
        self.size.clear();
        self.thread.clear();
        self.frame.clear();
        self.time.clear();
        self.age.clear();
        self.stack.clear();
        Ok(())
    }

    pub fn finish(mut self) -> Result<(), Error> {
        self.flush()?;
        self.writer.finish()?;
        Ok(())
    }
}

/// Writes the modules and the call stacks of the journal, to which the rows refer.
pub fn write_stacks(path: &Path, metadata: &Metadata) -> Result<(), Error> {
    let document = serde_json::json!({ "modules": metadata.modules, "stacks": metadata.stacks });
    std::fs::write(path, document.to_string()).map_err(Error::io(path))
}
