//! The Rust mirror of `journal/patches.h`, which explains it.

pub const NAME: &str = "patches";
pub const ORIGINAL_BYTES: usize = 24;
pub const CODE_BYTES: usize = 64;
pub const JUMP_BYTES: usize = 5;
const PATCH_BYTES: usize = 160;

/// Why the changes of a program were not made: what a value of `enum kl_patch_state` says.
pub fn failure(state: u32) -> Option<String> {
    let text = match state & 0xff {
        0 | 1 => return None,
        2 => "a library of the program started a thread before the recorder could change its code",
        3 => {
            "its return addresses are protected (shadow stack); start it without \
              GLIBC_TUNABLES=glibc.cpu.x86_shstk=on"
        }
        4 => "its code in memory is not that of its file",
        5 => "there is no free memory near its code",
        _ => {
            let cause = std::io::Error::from_raw_os_error((state >> 8) as i32);
            return Some(format!(
                "the system does not let its code be changed ({cause}); start it without the \
                 protection of code (SELinux, MemoryDenyWriteExecute), or let it report its \
                 allocations itself (keel/recorder.h) and record it with --embedded"
            ));
        }
    };
    Some(text.to_owned())
}

/// `struct kl_patch`, of which the recorder fills in the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    pub device: u64,
    pub inode: u64,
    pub function: u64,
    pub offset: u64,
    pub name: u32,
    /// `None`: the function is only called.
    pub moved: Option<Moved>,
}

/// The instructions that a jump replaces, for another place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub place: u64,
    pub distances: u64,
    pub addresses: u64,
    pub skipped: u8,
    pub original: Vec<u8>,
    pub code: Vec<u8>,
}

impl Patch {
    /// The structure's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let none = Moved {
            place: 0,
            distances: 0,
            addresses: 0,
            skipped: 0,
            original: Vec::new(),
            code: Vec::new(),
        };
        let moved = self.moved.as_ref().unwrap_or(&none);
        let words = [self.device, self.inode, self.function, self.offset, moved.place];
        let words = words.into_iter().chain([moved.distances, moved.addresses, 0]);
        let mut bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        let lengths = [moved.original.len(), moved.code.len()].map(|length| length as u8);
        bytes.extend([0, moved.skipped, lengths[0], lengths[1]]);
        bytes.extend(self.name.to_ne_bytes());
        bytes.extend(&moved.original);
        bytes.resize(PATCH_BYTES - CODE_BYTES, 0);
        bytes.extend(&moved.code);
        bytes.resize(PATCH_BYTES, 0);
        bytes
    }
}
