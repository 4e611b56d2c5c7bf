// culprit: build_index by peak
//! An index of all positions lives only while the text is searched.

use std::collections::HashMap;

#[inline(never)]
fn build_index(words: &[u32]) -> HashMap<u32, Vec<usize>> {
    let mut index: HashMap<u32, Vec<usize>> = HashMap::new();
    for (position, word) in words.iter().enumerate() {
        index.entry(*word).or_default().push(position);
    }
    index
}

fn main() {
    let words: Vec<u32> = (0..50_000_u32).map(|i| i.wrapping_mul(2_654_435_761) % 20_000).collect();
    let found = build_index(&words).len();
    let mut sum = 0;
    for i in 0..500 {
        sum += vec![i; 1000].len();
    }
    println!("{found} {sum}");
}
