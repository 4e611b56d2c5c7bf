//! The view of a watched program, as lines of text.

use crate::commands::blame;
use crate::format;
use keel_blame::{Frame, Symbols};
use keel_record::{Counts, Snapshot, StackCounts};
use serde_json::{Value, json};
use std::collections::HashMap;

/// The sums of a call site: its call, and the call around it.
type Site = (String, StackCounts);

/// The names of the call sites so far, and how many of them the view shows.
pub struct View {
    pub title: String,
    pub sampled: Option<u64>,
    pub top: usize,
    names: HashMap<Vec<(i64, u64)>, String>,
}

impl View {
    pub fn new(title: String, sampled: Option<u64>, top: usize) -> View {
        View { title, sampled, top, names: HashMap::new() }
    }

    /// The whole view.
    pub fn lines(&mut self, now: &Snapshot) -> Vec<String> {
        let per = |value: f64| value / now.interval_seconds.max(1e-9);
        let Counts { allocations, bytes, frees } = now.interval;
        self.learn(now);
        let worst = self.name(now, now.latency.worst_stack).filter(|_| now.latency.worst_ns > 0);
        let mut lines = vec![
            format!("keel watch  {}  {:.0} s{}", self.title, now.seconds, self.note()),
            String::new(),
            format!(
                "allocations {:>12} per second {:>12} per second, {} frees per second",
                count(per(allocations)),
                size(per(bytes)),
                count(per(frees))
            ),
            format!(
                "live        {:>12} blocks     {:>12}, allocated since the beginning",
                count(now.live_blocks),
                size(now.live_bytes)
            ),
            format!(
                "calls       {}{}",
                latency(now),
                worst.map_or_else(String::new, |name| format!(", {name}"))
            ),
            String::new(),
            format!("{:>12}{:>12}{:>12}{:>12}  call site", "bytes/s", "calls/s", "live", "in all"),
        ];
        for (name, site) in self.sites(now) {
            lines.push(format!(
                "{:>12}{:>12}{:>12}{:>12}  {name}",
                size(per(site.interval.bytes)),
                count(per(site.interval.allocations)),
                size(site.live_bytes),
                size(site.total.bytes)
            ));
        }
        lines
    }

    /// One line, for output that is no terminal.
    pub fn line(&self, now: &Snapshot) -> String {
        let per = |value: f64| value / now.interval_seconds.max(1e-9);
        format!(
            "{:.1} s: {} allocations and {} per second, {} live in {} blocks, {}",
            now.seconds,
            count(per(now.interval.allocations)),
            size(per(now.interval.bytes)),
            size(now.live_bytes),
            count(now.live_blocks),
            latency(now)
        )
    }

    /// The sums of the whole time.
    pub fn totals(&self, now: &Snapshot) -> String {
        format!(
            "{:.1} s in all: {} allocations of {}, {} frees; {} live in {} blocks{}",
            now.seconds,
            count(now.total.allocations),
            size(now.total.bytes),
            count(now.total.frees),
            size(now.live_bytes),
            count(now.live_blocks),
            self.note()
        )
    }

    fn note(&self) -> String {
        self.sampled.map_or_else(String::new, |bytes| {
            format!("  (estimated from samples, one per {} bytes)", format::count(bytes))
        })
    }

    /// A snapshot with the call sites of the table.
    pub fn json(&mut self, now: &Snapshot) -> Value {
        let counts = |counts: &Counts| {
            json!({
                "allocations": counts.allocations, "bytes": counts.bytes, "frees": counts.frees,
            })
        };
        self.learn(now);
        let worst = self.name(now, now.latency.worst_stack);
        let sites: Vec<Value> = self
            .sites(now)
            .iter()
            .map(|(name, site)| {
                json!({
                    "call_site": name,
                    "interval": counts(&site.interval),
                    "total": counts(&site.total),
                    "live_bytes": site.live_bytes,
                })
            })
            .collect();
        json!({
            "seconds": now.seconds,
            "interval_seconds": now.interval_seconds,
            "sample_bytes": self.sampled,
            "interval": counts(&now.interval),
            "total": counts(&now.total),
            "live_blocks": now.live_blocks,
            "live_bytes": now.live_bytes,
            "p99.9_ns": now.latency.p999_ns,
            "timed_from_ns": now.latency.least_ns,
            "worst_ns": now.latency.worst_ns,
            "worst_bytes": now.latency.worst_bytes,
            "worst_call_site": worst.unwrap_or_default(),
            "call_sites": sites,
        })
    }

    /// The sums by call site: most bytes in the interval first, then most live bytes.
    fn sites(&self, now: &Snapshot) -> Vec<Site> {
        let mut sums: HashMap<String, StackCounts> = HashMap::new();
        for one in &now.top {
            let name = self.name(now, one.stack).unwrap_or("(no stack)");
            let sum = sums.entry(name.to_owned()).or_default();
            add(&mut sum.interval, &one.interval);
            add(&mut sum.total, &one.total);
            sum.live_bytes += one.live_bytes;
        }
        let mut sites: Vec<Site> = sums.into_iter().collect();
        let key = |site: &StackCounts| (site.interval.bytes, site.live_bytes, site.total.bytes);
        sites.sort_unstable_by(|(name, one), (other_name, other)| {
            let order = key(other).partial_cmp(&key(one));
            order.unwrap_or(std::cmp::Ordering::Equal).then_with(|| name.cmp(other_name))
        });
        sites.truncate(self.top);
        sites
    }

    /// The call site of a stack that was learned.
    fn name(&self, now: &Snapshot, stack: u32) -> Option<&str> {
        let calls: Vec<(i64, u64)> = now.stacks.walk(stack).collect();
        self.names.get(&calls).map(String::as_str)
    }

    /// Looks up the names of the snapshot's new stacks. Only then are object files read.
    fn learn(&mut self, now: &Snapshot) {
        let stacks = now.top.iter().map(|one| one.stack).chain([now.latency.worst_stack]);
        let new: Vec<(u32, Vec<(i64, u64)>)> = stacks
            .map(|stack| (stack, now.stacks.walk(stack).collect::<Vec<_>>()))
            .filter(|(_, calls)| !calls.is_empty() && !self.names.contains_key(calls))
            .collect();
        if new.is_empty() {
            return;
        }
        let folders = blame::debug_folders();
        let mut symbols = Symbols::new(&now.modules, &now.stacks, &folders);
        for (stack, calls) in new {
            let frames = symbols.frames_of_stack(stack);
            let frames: Vec<&Frame> = frames.iter().map(|index| symbols.frame(*index)).collect();
            self.names.insert(calls, site_name(&frames));
        }
    }
}

/// The innermost call that is in no wrapper, and the call around it.
fn site_name(frames: &[&Frame]) -> String {
    let start = frames.iter().position(|frame| !frame.wrapper).unwrap_or(0);
    let name = |frame: &&Frame| match frame.place() {
        place if place.is_empty() => frame.function.clone(),
        place => format!("{} ({place})", frame.function),
    };
    frames[start..].iter().take(2).map(name).collect::<Vec<_>>().join(" < ")
}

fn add(sum: &mut Counts, more: &Counts) {
    sum.allocations += more.allocations;
    sum.bytes += more.bytes;
    sum.frees += more.frees;
}

fn latency(now: &Snapshot) -> String {
    let latency = &now.latency;
    let least = format::nanoseconds(latency.least_ns);
    let p999 = latency.p999_ns.map_or_else(|| format!("below {least}"), format::nanoseconds);
    match latency.worst_ns {
        0 => format!("p99.9 {p999}"),
        worst => format!(
            "p99.9 {p999}, longest {} ({})",
            format::nanoseconds(worst),
            format::bytes(latency.worst_bytes)
        ),
    }
}

/// Differences of estimates may be a little below 0.
fn count(value: f64) -> String {
    format::count(value.round().max(0.0) as u64)
}

fn size(value: f64) -> String {
    format::bytes(value.round().max(0.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel_journal::{Module, Stacks};

    fn snapshot() -> Snapshot {
        let counts = |allocations: f64, bytes| Counts { allocations, bytes, frees: 1.0 };
        let stack = |stack, bytes| StackCounts {
            stack,
            interval: counts(4.0, bytes),
            total: counts(8.0, bytes * 2.0),
            live_bytes: 100.0,
        };
        Snapshot {
            seconds: 12.0,
            interval_seconds: 2.0,
            interval: counts(5000.0, 2_097_152.0),
            total: counts(9.0, 9.0),
            live_blocks: 3.0,
            live_bytes: 2048.0,
            top: vec![stack(0, 1000.0), stack(1, 3000.0), stack(2, 500.0)],
            modules: vec![Module { path: "/absent/game".into(), ..Module::default() }],
            stacks: Stacks {
                sites: vec![(0, 16), (0, 32)],
                nodes: vec![(-1, 0), (-1, 1), (-1, 0)],
                names: Vec::new(),
            },
            ..Snapshot::default()
        }
    }

    #[test]
    fn stacks_of_one_site_are_added_up_and_values_are_per_second() {
        let mut view = View::new("game [7]".to_owned(), None, 9);
        let lines = view.lines(&snapshot());
        assert!(lines[0].starts_with("keel watch  game [7]  12 s"), "{lines:?}");
        assert!(
            lines[2].contains("2,500 per second") && lines[2].contains("1 MiB per"),
            "{lines:?}"
        );
        assert!(lines[3].contains("3 blocks") && lines[3].contains("2 KiB"), "{lines:?}");
        assert!(lines[7].contains("1.46 KiB") && lines[7].ends_with("game+0x20"), "{lines:?}");
        assert!(lines[8].contains("750 B") && lines[8].ends_with("game+0x10"), "{lines:?}");
        assert_eq!(lines.len(), 9);
    }

    #[test]
    fn estimates_are_called_estimates() {
        let view = View::new("game".to_owned(), Some(4096), 9);
        assert!(view.totals(&snapshot()).contains("estimated from samples, one per 4,096 bytes"));
    }
}
