//! Builds an index of words, looks words up and writes the index as text: a Rust program for
//! programs.py. Strings, vectors, maps and boxes, as most programs use them.

use std::collections::{BTreeMap, HashMap};

/// A document: a title, and the numbers of its words.
struct Document {
    title: String,
    words: Vec<u32>,
}

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn documents(count: u32, state: &mut u64) -> Vec<Box<Document>> {
    let document = |number: u32| {
        let mut words = Vec::new();
        (0..20 + next(state) % 40).for_each(|_| words.push((next(state) % 4000) as u32));
        Box::new(Document { title: format!("document number {number}"), words })
    };
    (0..count).map(document).collect()
}

fn index(documents: &[Box<Document>]) -> HashMap<String, Vec<(u32, String)>> {
    let mut index: HashMap<String, Vec<(u32, String)>> = HashMap::new();
    for document in documents {
        for (place, word) in document.words.iter().enumerate() {
            let entry = index.entry(format!("word{word}")).or_default();
            entry.push((place as u32, document.title.clone()));
        }
    }
    index
}

fn text(index: &HashMap<String, Vec<(u32, String)>>) -> String {
    let sorted: BTreeMap<String, usize> =
        index.iter().map(|(word, places)| (word.to_uppercase(), places.len())).collect();
    let line = |(word, places): (&String, &usize)| format!("{word} {places}");
    let lines: Vec<String> = sorted.iter().map(line).collect();
    lines.join("\n")
}

fn main() {
    let mut state = 7;
    let mut bytes = 0;
    for _ in 0..12 {
        let documents = documents(2000, &mut state);
        bytes += text(&index(&documents)).len();
    }
    println!("{bytes}");
}
