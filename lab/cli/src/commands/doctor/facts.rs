//! The findings and their assessment. Facts are read apart from their assessment, so that the
//! assessment can be tested.

use keel_results::Machine;
use serde::Serialize;
use std::collections::BTreeMap;

/// The effect of a finding on results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// No effect.
    Good,
    /// Results are valid, with less detail or more noise.
    Fair,
    /// Results are not reliable.
    Bad,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The subject.
    pub what: &'static str,
    /// See [`Level`].
    pub level: Level,
    /// The state.
    pub found: String,
    /// How to improve it.
    pub advice: Option<String>,
}

/// The output of the player's self-test: the first word of each line (the first two for `test` and
/// `sense`) and the rest.
#[derive(Clone, Debug, Default)]
pub struct Player {
    /// By name.
    pub facts: BTreeMap<String, String>,
}

/// Facts that the kernel reports.
#[derive(Clone, Debug, Default)]
pub struct System {
    /// `/proc/sys/kernel/perf_event_paranoid`.
    pub perf_paranoid: String,
    /// `/sys/devices/system/cpu/isolated`.
    pub isolated: String,
    /// Processors that share a core: a list for each core.
    pub siblings: Vec<String>,
    /// Whether `/proc/swaps` lists any.
    pub swap: bool,
    /// The first number of `/proc/loadavg`.
    pub load: f64,
    /// The share of processor time that the hypervisor has taken since the start.
    pub stolen: f64,
}

impl Player {
    /// Reads the player's output.
    pub fn parse(text: &str) -> Player {
        let fact = |line: &str| {
            let words = if line.starts_with("test ") || line.starts_with("sense ") { 2 } else { 1 };
            let at = line.match_indices(' ').nth(words - 1)?.0;
            Some((line[..at].to_owned(), line[at + 1..].to_owned()))
        };
        Player { facts: text.lines().filter_map(fact).collect() }
    }

    fn text(&self, name: &str) -> &str {
        self.facts.get(name).map_or("", String::as_str)
    }

    fn yes(&self, name: &str) -> bool {
        self.text(name) == "yes"
    }

    /// The two numbers of a test.
    fn test(&self, what: &str) -> (u64, u64) {
        let text = self.text(&format!("test {what}"));
        let mut numbers = text.split(' ').map(|word| word.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }
}

impl System {
    /// Reads the facts of this machine; a fact that cannot be read is empty.
    pub fn read() -> System {
        let line = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut siblings: Vec<String> = (0..processors)
            .map(|cpu| {
                line(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"))
            })
            .filter(|list| list.contains([',', '-']))
            .collect();
        siblings.sort();
        siblings.dedup();
        let ticks: Vec<f64> = line("/proc/stat")
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(1)
            .take(8)
            .filter_map(|word| word.parse().ok())
            .collect();
        let all: f64 = ticks.iter().sum();
        System {
            perf_paranoid: line("/proc/sys/kernel/perf_event_paranoid"),
            isolated: line("/sys/devices/system/cpu/isolated"),
            siblings,
            swap: line("/proc/swaps").lines().count() > 1,
            load: line("/proc/loadavg")
                .split(' ')
                .next()
                .and_then(|word| word.parse().ok())
                .unwrap_or(0.0),
            stolen: if all > 0.0 { ticks.get(7).copied().unwrap_or(0.0) / all } else { 0.0 },
        }
    }
}

/// All findings, the most important first.
pub fn findings(machine: &Machine, system: &System, player: &Player) -> Vec<Finding> {
    let mut all = vec![clock(player), resolution(player), pace(player)];
    all.extend(causes(player));
    all.extend(processors(machine, system));
    all.extend(memory(machine, system, player));
    all.push(perf(system));
    all
}

fn finding(what: &'static str, level: Level, found: String, advice: &str) -> Finding {
    Finding { what, level, found, advice: (!advice.is_empty()).then(|| advice.to_owned()) }
}

fn clock(player: &Player) -> Finding {
    let pair: Vec<&str> = player.text("empty_pair_ns").split(' ').collect();
    let [best, median, tail] = pair[..] else {
        return finding(
            "clock",
            Level::Bad,
            "the player did not measure it".to_owned(),
            "run `make build`: the player does not match this keel",
        );
    };
    let cost = format!(
        "two clock readings with nothing between them take {best} ns (minimum), {median} ns \
         (median) and {tail} ns (p99.9)"
    );
    let cost = match player.text("stores_ns").split_once(' ') {
        Some((one, many)) => format!(
            "{cost}; a store can reach the cache after its call, and this time is not part of the \
             latency: {one} ns for one line that is in no cache, {many} ns for 16 such lines"
        ),
        None => cost,
    };
    if player.text("clock") == "counter" {
        return finding("clock", Level::Good, format!("the processor's counter; {cost}"), "");
    }
    let found = format!("CLOCK_MONOTONIC, because {}; {cost}", player.text("clock_fault"));
    finding(
        "clock",
        Level::Fair,
        found,
        "short calls cannot be distinguished; use a machine whose TSC is constant",
    )
}

fn resolution(player: &Player) -> Finding {
    let step: f64 = player.text("step_ns").parse().unwrap_or(0.0);
    let found = format!("the clock moves in steps of {step:.1} ns");
    if step <= 2.0 {
        finding("resolution", Level::Good, found, "")
    } else {
        let advice = "single calls have this resolution; means and the throughput are more precise";
        finding("resolution", Level::Fair, found, advice)
    }
}

/// Whether the processor runs at a constant speed. Above 10 % of slowed time too many runs of a
/// comparison are disturbed.
fn pace(player: &Player) -> Finding {
    let numbers: Vec<f64> =
        player.text("pace").split(' ').filter_map(|word| word.parse().ok()).collect();
    let [slowed, most] = numbers[..] else {
        let found = "cannot be measured: the clock's step is as long as an empty pair of readings"
            .to_owned();
        return finding(
            "pace",
            Level::Fair,
            found,
            "compare twice and see whether the medians agree",
        );
    };
    if slowed <= 1.0 {
        let found = format!("constant: the processor was slowed in {slowed:.1} % of a second");
        return finding("pace", Level::Good, found, "");
    }
    let found = format!(
        "the processor was slowed in {slowed:.1} % of a second, by at most {:.0} %; another guest \
         on the host may share its core",
        (most - 1.0) * 100.0
    );
    let advice = if slowed > 10.0 {
        "medians of two comparisons will not agree within 3 %: wait, or use -r 12..30"
    } else {
        "keel compare detects such runs and repeats them"
    };
    finding("pace", Level::Fair, found, advice)
}

fn causes(player: &Player) -> Vec<Finding> {
    let detected = |what: &str| {
        let (tried, detected) = player.test(what);
        format!("{detected} of {tried} detected")
    };
    let all = |what: &str| {
        let (tried, detected) = player.test(what);
        tried > 0 && tried == detected
    };
    let judge = |what, good: bool, found: String, advice: &str| match good {
        true => finding(what, Level::Good, found, ""),
        false => finding(what, Level::Fair, found, advice),
    };
    let (quiet, alarms) = player.test("quiet");
    let flag = "needs Linux 4.18 and glibc 2.35, and no GLIBC_TUNABLES=glibc.pthread.rseq=0";
    let interrupts = match (player.yes("sense tripwire"), player.yes("sense interrupt_met")) {
        (true, true) => "detected, and one occurred".to_owned(),
        (true, false) => "detected; none occurred within 50 ms".to_owned(),
        _ => "cannot be detected".to_owned(),
    };
    vec![
        judge("sleeps", all("sleep"), detected("sleep"), flag),
        judge("signals", all("signal"), detected("signal"), flag),
        judge(
            "page faults",
            all("fault"),
            detected("fault"),
            "getrusage(RUSAGE_THREAD) does not count them here",
        ),
        judge(
            "system calls",
            player.yes("sense calls"),
            detected("mmap"),
            "needs glibc on x86-64 and a system that lets a program change its own code",
        ),
        judge("interrupts", player.yes("sense tripwire"), interrupts, "needs x86-64 without FRED"),
        match alarms {
            0 => finding("false alarms", Level::Good, format!("none in {quiet} quiet windows"), ""),
            _ => finding(
                "false alarms",
                Level::Bad,
                format!("{alarms} in {quiet} quiet windows"),
                "causes are not reliable here; please report this machine",
            ),
        },
    ]
}

fn processors(machine: &Machine, system: &System) -> Vec<Finding> {
    let cpus = machine.cpus;
    let mut all = vec![match cpus {
        0 | 1 => finding(
            "processors",
            Level::Fair,
            format!("{cpus}: the player shares it with all other programs"),
            "use a machine with at least two",
        ),
        _ => finding("processors", Level::Good, format!("{cpus} ({})", machine.cpu), ""),
    }];
    all.push(if system.load < 0.3 * f64::from(cpus) {
        finding("load", Level::Good, format!("{:.2}", system.load), "")
    } else {
        finding(
            "load",
            Level::Fair,
            format!("{:.2}", system.load),
            "stop other programs: they preempt the calls",
        )
    });
    all.push(match machine.hypervisor.as_str() {
        "" => finding("hypervisor", Level::Good, "none".to_owned(), ""),
        name => finding(
            "hypervisor",
            Level::Fair,
            format!("{name}; it has taken {:.1} % of the processors' time", system.stolen * 100.0),
            "it can stop a processor without being detected; then a call can take several \
             microseconds, and this time appears to be the allocator's own work: compare the \
             slowest calls with those of the null allocator",
        ),
    });
    all.push(governor(machine));
    if !system.siblings.is_empty() {
        all.push(finding(
            "hyper-threads",
            Level::Fair,
            format!("processors share cores: {}", system.siblings.join(" ")),
            "taskset -c with one processor of each core, or echo off > \
             /sys/devices/system/cpu/smt/control",
        ));
    }
    all.push(isolation(cpus, system));
    all
}

fn governor(machine: &Machine) -> Finding {
    match machine.governor.as_str() {
        "" => finding(
            "governor",
            Level::Good,
            "none: the system does not control the frequency".to_owned(),
            "",
        ),
        "performance" => finding("governor", Level::Good, "performance".to_owned(), ""),
        other => finding(
            "governor",
            Level::Fair,
            other.to_owned(),
            "cpupower frequency-set -g performance",
        ),
    }
}

fn isolation(cpus: u32, system: &System) -> Finding {
    let list = match cpus {
        0..4 => cpus.saturating_sub(1).to_string(),
        _ => format!("{}-{}", cpus - 2, cpus - 1),
    };
    let advice = match cpus {
        0 | 1 => "for the least noise, use a machine with several processors".to_owned(),
        _ => format!(
            "for the least noise, boot with isolcpus=managed_irq,{list} nohz_full={list} and run \
             under taskset -c {list}"
        ),
    };
    match system.isolated.as_str() {
        "" => finding(
            "isolation",
            Level::Fair,
            "no processor is isolated from other work".to_owned(),
            &advice,
        ),
        list => finding(
            "isolation",
            Level::Good,
            format!("processors {list} are isolated (taskset -c {list})"),
            "",
        ),
    }
}

fn memory(machine: &Machine, system: &System, player: &Player) -> Vec<Finding> {
    vec![
        match machine.huge_pages.as_str() {
            "always" => finding(
                "huge pages",
                Level::Fair,
                "always: a first write may zero 2 MiB".to_owned(),
                "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, unless your users \
                 have this setting",
            ),
            "" => finding("huge pages", Level::Good, "not available".to_owned(), ""),
            other => finding("huge pages", Level::Good, other.to_owned(), ""),
        },
        match player.yes("sense lock") {
            true => {
                finding("locked memory", Level::Good, "result arrays can be locked".to_owned(), "")
            }
            false => finding(
                "locked memory",
                Level::Fair,
                "result arrays cannot be locked".to_owned(),
                "ulimit -l unlimited (LimitMEMLOCK, or limits.conf)",
            ),
        },
        match system.swap {
            false => finding("swap", Level::Good, "none".to_owned(), ""),
            true => finding("swap", Level::Fair, "on".to_owned(), "swapoff -a before measuring"),
        },
    ]
}

fn perf(system: &System) -> Finding {
    let found = match system.perf_paranoid.as_str() {
        "" => "no perf events on this system".to_owned(),
        level => format!("perf_event_paranoid is {level}"),
    };
    finding("perf events", Level::Good, found + "; Keel needs none", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "clock counter\nticks_per_ns 2.6\nempty_pair_ns 20.1 20.4 31.0\nstep_ns \
        0.77\nstores_ns 80.0 310.0\npace 0.5 1.02\n\
        test quiet 1000 0\ntest sleep 20 20\ntest signal 20 20\ntest fault 20 20\ntest mmap 20 20\n\
        sense flag yes\nsense calls yes\nsense tripwire yes\nsense interrupt_met yes\nsense lock \
        yes\n";

    fn found(player: &str, machine: &Machine, system: &System) -> Vec<Finding> {
        findings(machine, system, &Player::parse(player))
    }

    fn level(findings: &[Finding], what: &str) -> Option<Level> {
        findings.iter().find(|finding| finding.what == what).map(|finding| finding.level)
    }

    #[test]
    fn a_sound_machine_has_nothing_to_improve() {
        let machine = Machine { cpus: 8, governor: "performance".to_owned(), ..Machine::default() };
        let system = System { isolated: "6-7".to_owned(), ..System::default() };
        let all = found(SOUND, &machine, &system);
        assert!(all[0].found.contains("80.0 ns for one line"), "{}", all[0].found);
        assert!(
            all.iter().all(|finding| finding.level == Level::Good && finding.advice.is_none()),
            "{all:?}"
        );
    }

    #[test]
    fn advised_processors_exist() {
        for (cpus, list) in [(2, "1"), (3, "2"), (4, "2-3"), (16, "14-15")] {
            let advice = isolation(cpus, &System::default()).advice.unwrap_or_default();
            assert!(advice.ends_with(&format!("nohz_full={list} and run under taskset -c {list}")));
        }
    }

    #[test]
    fn each_fault_is_found_and_has_advice() {
        let machine = Machine {
            cpus: 1,
            governor: "powersave".to_owned(),
            hypervisor: "KVM".to_owned(),
            huge_pages: "always".to_owned(),
            ..Machine::default()
        };
        let system =
            System { load: 3.0, swap: true, siblings: vec!["0,1".to_owned()], ..System::default() };
        let player = SOUND
            .replace("clock counter", "clock clock_monotonic\nclock_fault it stops")
            .replace("step_ns 0.77", "step_ns 10.0")
            .replace("pace 0.5 1.02", "pace 20.0 1.17")
            .replace("sleep 20 20", "sleep 20 3")
            .replace("calls yes", "calls no")
            .replace("tripwire yes", "tripwire no")
            .replace("lock yes", "lock no");
        let all = found(&player, &machine, &system);
        for what in [
            "clock",
            "resolution",
            "pace",
            "sleeps",
            "system calls",
            "interrupts",
            "processors",
            "load",
            "hypervisor",
            "governor",
            "hyper-threads",
            "isolation",
            "huge pages",
            "locked memory",
            "swap",
        ] {
            assert_eq!(level(&all, what), Some(Level::Fair), "{what}");
        }
        assert!(
            all.iter().all(|finding| (finding.level == Level::Good) == finding.advice.is_none())
        );
        assert_eq!(
            level(&found(&SOUND.replace("1000 0", "1000 9"), &machine, &system), "false alarms"),
            Some(Level::Bad)
        );
        let slowed = found(&SOUND.replace("pace 0.5 1.02", "pace 20.0 1.17"), &machine, &system);
        let pace = slowed.iter().find(|finding| finding.what == "pace");
        let advice = pace.and_then(|pace| pace.advice.clone()).unwrap_or_default();
        assert!(
            pace.is_some_and(|pace| pace.found.contains("17 %")) && advice.contains("within 3 %"),
            "{pace:?}"
        );
        assert_eq!(level(&found("", &machine, &system), "clock"), Some(Level::Bad));
    }
}
