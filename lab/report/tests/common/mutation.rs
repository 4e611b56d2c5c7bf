//! Changes of a file that a fuzzer makes: bytes, numbers, the length.

use super::Random;

/// Numbers that begin or end a range of a type.
const EXTREMES: [&str; 12] = [
    "0",
    "-1",
    "1e308",
    "0.0000001",
    "255",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "null",
    "[]",
];

/// A number below a bound; 0 if the bound is 0.
pub fn below(random: &mut Random, bound: usize) -> usize {
    (random.next() % bound.max(1) as u64) as usize
}

/// The file with some changes.
pub fn mutated(sound: &[u8], random: &mut Random) -> Vec<u8> {
    let mut input = sound.to_vec();
    let is_text = input.first() == Some(&b'{');
    for _ in 0..1 << below(random, 4) {
        // A change may have left nothing.
        if input.is_empty() {
            break;
        }
        let at = below(random, input.len());
        match below(random, 4) {
            0 if !is_text => input[at] = random.next() as u8,
            1 if !is_text => input[at] ^= 1 << below(random, 8),
            // The footer of a Parquet file is at its end.
            2 if !is_text => {
                let last = below(random, input.len().min(600));
                let at = input.len() - 1 - last;
                input[at] = random.next() as u8;
            }
            3 if below(random, 8) == 0 => input.truncate(at),
            _ => replace_number(&mut input, at, random),
        }
    }
    input
}

/// Replaces the number at or after a position by an extreme one.
fn replace_number(input: &mut Vec<u8>, at: usize, random: &mut Random) {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let Some(found) = input[at..].iter().position(is_digit) else { return };
    let start =
        input[..at + found].iter().rposition(|byte| !is_digit(byte)).map_or(0, |before| before + 1);
    let length = input[start..].iter().position(|byte| !is_digit(byte));
    let end = length.map_or(input.len(), |length| start + length);
    let number = EXTREMES[below(random, EXTREMES.len())];
    input.splice(start..end, number.bytes()).for_each(drop);
}
