//! Moves the first instructions of a function to another place, where they have the same effect.
//!
//! A jump to the recorder takes their place. This is possible if the jump fits into the function
//! (and the padding behind it), and nothing in the function jumps to a replaced instruction.
//!
//! A moved call would push a return address at the new place, for which there are no unwind tables.
//! So it becomes a push of the address at which the function continues, and a jump.

use super::patch::{CODE_BYTES, JUMP_BYTES, Moved, ORIGINAL_BYTES};
use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, Instruction,
    InstructionBlock, MemoryOperand, Mnemonic, OpKind, Register,
};

const BITS: u32 = 64;
/// So far away that no short jump is possible, and near enough for 32-bit distances.
const AWAY: u64 = 1 << 30;
/// Where in the code the address is that a moved call pushes.
const RETURN_AT: usize = CODE_BYTES - size_of::<u64>();

/// A function in the program's file.
pub struct Function<'a> {
    pub address: u64,
    pub bytes: &'a [u8],
    /// What follows it, up to the next symbol.
    pub padding: &'a [u8],
    /// The address of the next symbol.
    pub next: u64,
}

impl Function<'_> {
    /// Its bytes from this one on, and the padding.
    fn from(&self, within: usize) -> impl Iterator<Item = u8> {
        self.bytes.iter().chain(self.padding).copied().skip(within)
    }
}

/// Returns the moved instructions, or why the function cannot be changed.
pub fn relocate(function: &Function) -> Result<Moved, String> {
    let all = decode(function.address, function.bytes).ok_or("keel cannot decode it")?;
    let skipped = match all.first() {
        Some(first) if first.mnemonic() == Mnemonic::Endbr64 => first.len(),
        _ => 0,
    };
    let start = function.address + skipped as u64;
    let replaced = replaced(function, &all, start)?;
    let end = replaced.last().map_or(start, Instruction::next_ip);
    let jumps_into = |one: &Instruction| {
        let target = one.near_branch_target();
        let calls = one.mnemonic() == Mnemonic::Call && target == function.address;
        (function.address..end).contains(&target) && !calls
    };
    let is_entered = (start + 1..end).contains(&function.next);
    if is_entered || all.iter().filter(|one| is_near(one)).any(jumps_into) {
        return Err("a jump in it leads to one of its first instructions".to_owned());
    }
    let length = (end - start).max(JUMP_BYTES as u64) as usize;
    let original = function.from(skipped).take(length.min(ORIGINAL_BYTES)).collect();
    encode(&replaced, start, end).map(|moved| Moved { skipped: skipped as u8, original, ..moved })
}

/// The instructions of these bytes, or `None` if there are other bytes among them.
fn decode(address: u64, bytes: &[u8]) -> Option<Vec<Instruction>> {
    let all: Vec<_> = Decoder::with_ip(BITS, bytes, address, DecoderOptions::NONE).iter().collect();
    all.iter().all(|one| !one.is_invalid()).then_some(all)
}

/// The instructions that the jump replaces. If execution ends at one of them, the jump may also
/// cover padding.
fn replaced(
    function: &Function,
    all: &[Instruction],
    start: u64,
) -> Result<Vec<Instruction>, String> {
    let mut found: Vec<Instruction> = Vec::new();
    let mut bytes = 0;
    for one in all.iter().skip_while(|one| one.ip() < start) {
        bytes += one.len();
        found.push(*one);
        if bytes >= JUMP_BYTES || ends(one) {
            break;
        }
    }
    let is_end = found.last().is_some_and(ends);
    let behind: Vec<u8> = function.from((start - function.address) as usize + bytes).collect();
    let mut padding = 0;
    for one in Decoder::new(BITS, &behind, DecoderOptions::NONE) {
        if bytes + padding >= JUMP_BYTES
            || !matches!(one.mnemonic(), Mnemonic::Nop | Mnemonic::Int3)
        {
            break;
        }
        padding += one.len();
    }
    if bytes >= JUMP_BYTES || (is_end && bytes + padding >= JUMP_BYTES) {
        return Ok(found);
    }
    Err(format!("it is too short ({} bytes)", function.bytes.len()))
}

/// Whether execution never continues behind the instruction.
fn ends(one: &Instruction) -> bool {
    matches!(one.mnemonic(), Mnemonic::Jmp | Mnemonic::Ret | Mnemonic::Ud2 | Mnemonic::Hlt)
}

fn is_near(one: &Instruction) -> bool {
    one.op_count() > 0 && one.op0_kind() == OpKind::NearBranch64
}

/// The instructions, and a jump to `end`, at another place.
fn encode(replaced: &[Instruction], start: u64, end: u64) -> Result<Moved, String> {
    let place = start + AWAY;
    let cannot = || "its first instructions cannot be moved".to_owned();
    let mut instructions = Vec::new();
    let mut addresses = 0;
    for (index, one) in replaced.iter().enumerate() {
        let is_last = index + 1 == replaced.len();
        if one.mnemonic() == Mnemonic::Call {
            let jump = jump_of(one).filter(|_| is_last).ok_or_else(cannot)?;
            let stored =
                MemoryOperand::with_base_displ(Register::RIP, (place as usize + RETURN_AT) as i64);
            let push = Instruction::with1(Code::Push_rm64, stored).map_err(|_| cannot())?;
            instructions.extend([push, jump]);
            addresses = 1 << RETURN_AT;
        } else {
            instructions.push(*one);
        }
    }
    if replaced.last().is_some_and(|last| !ends(last)) && addresses == 0 {
        let back = Instruction::with_branch(Code::Jmp_rel32_64, end).map_err(|_| cannot())?;
        instructions.push(back);
    }
    let block = InstructionBlock::new(&instructions, place);
    let encoded = BlockEncoder::encode(BITS, block, BlockEncoderOptions::NONE);
    let mut code = encoded.map_err(|_| cannot())?.code_buffer;
    if code.len() > RETURN_AT {
        return Err(cannot());
    }
    let distances = distances(place, &code).ok_or_else(cannot)?;
    code.resize(RETURN_AT, 0xcc);
    code.extend(end.to_le_bytes());
    Ok(Moved { place, distances, addresses, skipped: 0, original: Vec::new(), code })
}

/// A jump to where the call leads, if that does not depend on the stack pointer.
fn jump_of(call: &Instruction) -> Option<Instruction> {
    if is_near(call) {
        return Instruction::with_branch(Code::Jmp_rel32_64, call.near_branch_target()).ok();
    }
    let uses_stack = [call.memory_base(), call.op0_register()].contains(&Register::RSP);
    if uses_stack || call.code() != Code::Call_rm64 {
        return None;
    }
    let mut jump = *call;
    jump.set_code(Code::Jmp_rm64);
    Some(jump)
}

/// Where the code contains 32-bit distances to places outside of it: bit i, at byte i.
fn distances(place: u64, code: &[u8]) -> Option<u64> {
    let mut found = 0;
    let mut decoder = Decoder::with_ip(BITS, code, place, DecoderOptions::NONE);
    while decoder.can_decode() {
        let one = decoder.decode();
        let offsets = decoder.get_constant_offsets(&one);
        let at = (one.ip() - place) as usize;
        let (within, size) = if one.is_ip_rel_memory_operand() {
            (offsets.displacement_offset(), offsets.displacement_size())
        } else if is_near(&one) {
            (offsets.immediate_offset(), offsets.immediate_size())
        } else {
            continue;
        };
        let inside = |target: u64| (place..place + CODE_BYTES as u64).contains(&target);
        if one.is_ip_rel_memory_operand() && inside(one.ip_rel_memory_address()) {
            continue; // the address that a call pushes
        }
        if size != size_of::<u32>() || (is_near(&one) && inside(one.near_branch_target())) {
            return None;
        }
        found |= 1 << (at + within);
    }
    Some(found)
}
