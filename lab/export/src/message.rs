//! Messages of protocol buffers.

use std::io::{self, Write};

/// A message of protocol buffers.
#[derive(Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// The encoded message.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// A number without a field, as in packed lists.
    pub fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub fn number(&mut self, field: u64, value: u64) -> &mut Message {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    pub fn bytes(&mut self, field: u64, value: &[u8]) -> &mut Message {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    pub fn text(&mut self, field: u64, value: &str) -> &mut Message {
        self.bytes(field, value.as_bytes())
    }

    pub fn message(&mut self, field: u64, value: &Message) -> &mut Message {
        self.bytes(field, &value.0)
    }

    /// Writes it as the next packet of a Perfetto trace.
    pub fn write(&self, output: &mut dyn Write) -> io::Result<()> {
        let mut packet = Message::default();
        packet.message(1, self);
        output.write_all(&packet.0)
    }
}
