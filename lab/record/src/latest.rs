//! A table of what a program has, such as threads, which is read again and again. Of what it has no
//! longer, the table keeps everything, or only the latest.

use rustc_hash::FxHashMap;
use std::borrow::Borrow;
use std::hash::Hash;

/// Invariant: `now` has at most `most` keys more than the last reading.
pub struct Latest<K, V> {
    now: FxHashMap<K, V>,
    /// What `now` was before it was last full.
    before: FxHashMap<K, V>,
    most: usize,
}

impl<K, V> Default for Latest<K, V> {
    fn default() -> Self {
        Latest { now: FxHashMap::default(), before: FxHashMap::default(), most: usize::MAX }
    }
}

impl<K: Eq + Hash, V> Latest<K, V> {
    /// Keeps this many that the program has no longer, or up to twice as many.
    pub fn keep(&mut self, most: usize) {
        self.most = most;
    }

    /// A reading begins, of this many keys at most. All of them must be inserted that are not
    /// contained after this call.
    pub fn begin(&mut self, count: usize) {
        if self.now.len() > count.saturating_add(self.most) {
            self.before = std::mem::take(&mut self.now);
        }
    }

    /// Whether the key needs not be inserted again.
    pub fn contains<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.now.contains_key(key)
    }

    pub fn insert(&mut self, key: K, value: V) {
        self.now.insert(key, value);
    }

    /// All keys and values; of equal keys the last one counts.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.before.iter().chain(&self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 50,000 threads with other names, of which ten run at a time, and one runs on.
    #[test]
    fn what_has_ended_long_ago_is_forgotten() {
        const MOST: usize = 1000;
        let mut names = Latest::default();
        names.keep(MOST);
        for thread in (10..50_000).step_by(10) {
            let running: Vec<u64> = std::iter::once(0).chain(thread..thread + 10).collect();
            names.begin(running.len());
            running.into_iter().for_each(|id| names.insert(id, format!("worker {id}")));
            assert!(names.iter().count() <= 2 * (MOST + 22), "{}", names.iter().count());
        }
        let known: FxHashMap<u64, &String> = names.iter().map(|(id, name)| (*id, name)).collect();
        let wanted = std::iter::once(0).chain(50_000 - MOST as u64..50_000);
        let missing: Vec<u64> = wanted.filter(|id| !known.contains_key(id)).collect();
        assert_eq!(missing, Vec::<u64>::new());
    }
}
