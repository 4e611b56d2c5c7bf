//! Recognizable contents: each byte depends on the block's seed and on its offset.

/// Up to this size every byte is written and checked; above, the edges and eight bytes of each
/// page.
const WHOLE: usize = 32 << 10;
const EDGE: usize = 256;
const PAGE: usize = 4096;

fn byte(seed: u64, offset: usize) -> u8 {
    let mixed = (seed ^ offset as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (mixed >> 40) as u8
}

/// The offsets below `size` that carry the pattern. They do not depend on the size except at the
/// last edge, so a block that grew or shrank can still be checked at all offsets that both sizes
/// have in common.
fn marked(size: usize) -> impl Iterator<Item = usize> {
    let whole = size.min(WHOLE);
    let pages = (WHOLE..size).step_by(PAGE).flat_map(move |start| start..(start + 8).min(size));
    let tail = size.saturating_sub(EDGE).max(whole)..size;
    (0..whole).chain(pages).chain(tail)
}

/// Writes the pattern of `seed`.
pub(crate) fn fill(block: &mut [u8], seed: u64) {
    for offset in marked(block.len()) {
        block[offset] = byte(seed, offset);
    }
}

/// The first offset of `block` at which the pattern is damaged; `block` is the rest of a block of
/// `filled` bytes.
pub(crate) fn first_damage(block: &[u8], filled: usize, seed: u64) -> Option<usize> {
    marked(filled)
        .filter(|&offset| offset < block.len())
        .find(|&offset| block[offset] != byte(seed, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_found_where_it_is() {
        for size in [1, 100, WHOLE, WHOLE + 1, 5 * WHOLE] {
            let mut block = vec![0; size];
            fill(&mut block, 7);
            assert_eq!(first_damage(&block, size, 7), None);
            assert_eq!(first_damage(&block[..size / 2], size, 7), None);
            block[size - 1] ^= 1;
            assert_eq!(first_damage(&block, size, 7), Some(size - 1));
        }
    }
}
