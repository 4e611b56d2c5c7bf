// culprit: key_of by churn
//! Each lookup formats its key.

use std::collections::HashMap;

#[inline(never)]
fn key_of(user: u32) -> String {
    format!("user/{user}/name")
}

fn main() {
    let names: HashMap<String, Vec<u8>> = (0..100).map(|user| (key_of(user), vec![1; 8])).collect();
    let mut found = 0;
    for i in 0..20_000 {
        found += usize::from(names.contains_key(&key_of(i % 200)));
        if i % 10 == 0 {
            found += vec![0_u8; 3000].len();
        }
    }
    println!("{found}");
}
