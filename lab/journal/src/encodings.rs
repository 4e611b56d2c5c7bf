//! The Parquet encodings that journals use, shaped for zstd.
//!
//! zstd finds repeated bytes, and encodes frequent bytes with fewer bits. It does not find a
//! repeated number whose bits are not aligned to bytes. Therefore numbers that repeat are packed in
//! whole bytes, or in 1, 2 or 4 bits, even if fewer bits would be enough. The result is larger
//! before zstd and smaller after zstd.

/// A column's values (INT32 or INT64) or indices into a dictionary.
pub(crate) trait Number: Copy + Ord + std::hash::Hash {
    const BYTES: usize;
    const ZERO: Self;
    /// The difference, wrapping at the type's width as in Parquet.
    fn minus(self, other: Self) -> Self;
    /// The value's bits, zero-extended.
    fn bits(self) -> u64;
    fn wide(self) -> i64;
    /// The inverse of `wide`; the number must fit.
    fn narrow(wide: i64) -> Self;
}

impl Number for i32 {
    const BYTES: usize = 4;
    const ZERO: i32 = 0;

    #[inline]
    fn minus(self, other: i32) -> i32 {
        self.wrapping_sub(other)
    }

    #[inline]
    fn bits(self) -> u64 {
        u64::from(self as u32)
    }

    #[inline]
    fn wide(self) -> i64 {
        i64::from(self)
    }

    #[inline]
    fn narrow(wide: i64) -> i32 {
        wide as i32
    }
}

impl Number for u32 {
    const BYTES: usize = 4;
    const ZERO: u32 = 0;

    #[inline]
    fn minus(self, other: u32) -> u32 {
        self.wrapping_sub(other)
    }

    #[inline]
    fn bits(self) -> u64 {
        u64::from(self)
    }

    #[inline]
    fn wide(self) -> i64 {
        i64::from(self)
    }

    #[inline]
    fn narrow(wide: i64) -> u32 {
        wide as u32
    }
}

impl Number for i64 {
    const BYTES: usize = 8;
    const ZERO: i64 = 0;

    #[inline]
    fn minus(self, other: i64) -> i64 {
        self.wrapping_sub(other)
    }

    #[inline]
    fn bits(self) -> u64 {
        self as u64
    }

    #[inline]
    fn wide(self) -> i64 {
        self
    }

    #[inline]
    fn narrow(wide: i64) -> i64 {
        wide
    }
}

/// The packing of the differences in DELTA_BINARY_PACKED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delta {
    /// The fewest bits for each 32 differences. This is best for differences that rarely repeat.
    Bits,
    /// The fewest bytes for each 32 differences. This is best for differences that sometimes
    /// repeat.
    Bytes,
    /// The fewest bytes for each 128 differences; where possible, equal differences have equal
    /// bytes.
    Repeating,
}

impl Delta {
    /// The number of values in a miniblock, and of miniblocks in a block.
    const fn shape(self) -> (usize, usize) {
        match self {
            Delta::Bits | Delta::Bytes => (32, 4),
            Delta::Repeating => (128, 32),
        }
    }

    /// Returns the value that is subtracted from the differences of a block. The differences are
    /// not all equal.
    fn base<T: Number>(self, differences: &[T]) -> T {
        if self == Delta::Repeating {
            let all = differences.iter().fold(0, |bits, value| bits | value.wide());
            if all >= 0 {
                return T::ZERO;
            }
            // For a negative difference d, the result is -d - 1.
            let below = |value: &T| !value.wide() & value.wide() >> 63;
            let depth = differences.iter().fold(0, |bits, value| bits | below(value));
            let steps = [i64::from(i8::MIN), i64::from(i16::MIN), -1 << 23];
            if let Some(base) = steps.into_iter().find(|base| depth & base == 0) {
                return T::narrow(base);
            }
        } else if used_bits(differences) >> 31 == 0 {
            // Processors compare several 32-bit values in one instruction.
            let least =
                differences.iter().fold(i32::MAX, |least, value| least.min(value.bits() as i32));
            return T::narrow(i64::from(least));
        }
        differences.iter().copied().min().unwrap_or(T::ZERO)
    }

    const fn width(self, bits: u32) -> u32 {
        match self {
            Delta::Bits => bits,
            Delta::Bytes | Delta::Repeating => bits.next_multiple_of(8),
        }
    }
}

/// DELTA_BINARY_PACKED: header, then blocks of a base, a width for each miniblock, and the
/// differences above the base.
pub(crate) fn delta<T: Number>(values: &[T], way: Delta, output: &mut Vec<u8>) {
    let (miniblock, miniblocks) = way.shape();
    let block = miniblock * miniblocks;
    let first = values.first().copied().unwrap_or(T::ZERO);
    for number in [block as u64, miniblocks as u64, values.len() as u64, zigzag(first.wide())] {
        varint(number, output);
    }
    let mut differences = Vec::with_capacity(block);
    for (later, earlier) in
        values.get(1..).unwrap_or_default().chunks(block).zip(values.chunks(block))
    {
        differences.clear();
        differences.extend(later.iter().zip(earlier).map(|(later, earlier)| later.minus(*earlier)));
        let one = differences[0];
        let differing =
            differences.iter().fold(0, |bits, value| bits | (value.bits() ^ one.bits()));
        let base = if differing == 0 { one } else { way.base(&differences) };
        varint(zigzag(base.wide()), output);
        let widths = output.len();
        output.resize(widths + miniblocks, 0);
        if differing == 0 {
            continue;
        }
        for (index, miniblock_values) in differences.chunks_mut(miniblock).enumerate() {
            let mut used = 0;
            for value in &mut *miniblock_values {
                *value = value.minus(base);
                used |= value.bits();
            }
            let width = way.width(u64::BITS - used.leading_zeros());
            output[widths + index] = width as u8;
            let end = output.len() + miniblock * width as usize / 8;
            pack(miniblock_values, width, output);
            // The last miniblock has the same length as the others.
            output.resize(end, 0);
        }
    }
}

/// Packs numbers of `width` bits, 0 to 64, the first in the lowest bits. The last byte is padded
/// with zeros.
fn pack<T: Number>(values: &[T], width: u32, output: &mut Vec<u8>) {
    match width {
        0 => return,
        8 => return output.extend(values.iter().map(|value| value.bits() as u8)),
        16 => {
            let places = room::<2>(values.len(), output).iter_mut();
            return places
                .zip(values)
                .for_each(|(place, value)| *place = (value.bits() as u16).to_le_bytes());
        }
        _ => {}
    }
    let (mut word, mut filled) = (0_u64, 0);
    let mut words = [0; PACKED_WORDS];
    for chunk in values.chunks(PACKED_WORDS) {
        let mut count = 0;
        for value in chunk {
            let value = value.bits();
            word |= value.wrapping_shl(filled);
            filled += width;
            if filled >= u64::BITS {
                words[count % PACKED_WORDS] = word;
                count += 1;
                filled -= u64::BITS;
                word = value.checked_shr(width - filled).unwrap_or(0);
            }
        }
        let places = room::<8>(count, output).iter_mut();
        places.zip(words).for_each(|(place, word)| *place = word.to_le_bytes());
    }
    output.extend_from_slice(&word.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

/// Appends space for `count` numbers of `BYTES` bytes.
fn room<const BYTES: usize>(count: usize, output: &mut Vec<u8>) -> &mut [[u8; BYTES]] {
    let start = output.len();
    output.resize(start + count * BYTES, 0);
    output[start..].as_chunks_mut().0
}

/// Number of 64-bit values that are packed in one step.
const PACKED_WORDS: usize = 32;

/// BYTE_STREAM_SPLIT: the lowest bytes of all values, then the second lowest, and so on.
pub(crate) fn split<T: Number>(values: &[T], output: &mut Vec<u8>) {
    let start = output.len();
    output.reserve(values.len() * T::BYTES);
    let used = used_bits(values);
    for byte in 0..T::BYTES {
        if used >> (8 * byte) == 0 {
            return output.resize(start + values.len() * T::BYTES, 0);
        }
        output.extend(values.iter().map(|value| (value.bits() >> (8 * byte)) as u8));
    }
}

/// The bits that are set in any of the values.
#[inline]
fn used_bits<T: Number>(values: &[T]) -> u64 {
    values.iter().fold(0, |bits, value| bits | value.bits())
}

/// PLAIN: the values' bytes one after the other.
pub(crate) fn plain<T: Number>(values: &[T], output: &mut Vec<u8>) {
    for value in values {
        output.extend_from_slice(&value.bits().to_le_bytes()[..T::BYTES]);
    }
}

/// The hybrid of RLE and bit-packing, with a single run: an RLE run if all values are equal,
/// otherwise a packed run.
pub(crate) fn hybrid<T: Number>(values: &[T], width: u32, output: &mut Vec<u8>) {
    let Some(first) = values.first() else { return };
    if values.iter().fold(true, |same, value| same & (value == first)) {
        return one_run(values.len() as u64, first.bits(), width, output);
    }
    let end = packed_run(values.len(), width, output);
    match width {
        1 => output.extend(values.chunks(8).map(|values| joined(values, 1))),
        2 => output.extend(values.chunks(4).map(|values| joined(values, 2))),
        4 => output.extend(values.chunks(2).map(|values| joined(values, 4))),
        _ => pack(values, width, output),
    }
    output.resize(end, 0);
}

/// Like [`hybrid`], with one bit per value.
pub(crate) fn bits(values: &[bool], output: &mut Vec<u8>) {
    let Some(first) = values.first() else { return };
    if values.iter().fold(true, |same, value| same & (value == first)) {
        return one_run(values.len() as u64, u64::from(*first), 1, output);
    }
    packed_run(values.len(), 1, output);
    let (eights, rest) = values.as_chunks::<8>();
    output.extend(eights.iter().map(|eight| {
        let bytes = u64::from_le_bytes(eight.map(u8::from));
        // The product gathers the lowest bits of the bytes in its top byte.
        (bytes.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
    }));
    if !rest.is_empty() {
        output.push(rest.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit)));
    }
}

/// An RLE run of the hybrid: `count` times `value`.
pub(crate) fn one_run(count: u64, value: u64, width: u32, output: &mut Vec<u8>) {
    varint(count << 1, output);
    output.extend_from_slice(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
}

/// Begins a packed run. Returns the length of `output` at which the run must end. The caller pads
/// the run with zeros.
fn packed_run(count: usize, width: u32, output: &mut Vec<u8>) -> usize {
    let groups = count.div_ceil(8);
    varint((groups as u64) << 1 | 1, output);
    output.len() + groups * width as usize
}

/// Packs numbers of `width` bits into one byte.
#[inline]
fn joined<T: Number>(values: &[T], width: u32) -> u8 {
    values.iter().rev().fold(0, |byte, value| byte << width | value.bits() as u8)
}

/// Number of bits for an index below `count` in a hybrid: 1, 2, 4, 8, 16 or 32.
pub(crate) const fn index_width(count: usize) -> u32 {
    let bits = usize::BITS - count.saturating_sub(1).leading_zeros();
    if bits <= 1 { 1 } else { bits.next_power_of_two() }
}

fn varint(mut number: u64, output: &mut Vec<u8>) {
    while number >= 0x80 {
        output.push(number as u8 | 0x80);
        number >>= 7;
    }
    output.push(number as u8);
}

const fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}
