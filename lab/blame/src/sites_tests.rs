#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
use super::*;
use crate::profile::Column;
use crate::tally::REQUESTED;

fn frame(function: &str, line: u32, wrapper: bool) -> Frame {
    let module = "game".to_owned();
    Frame { function: function.to_owned(), line, module, wrapper, ..Frame::default() }
}

/// Two calls of `take`, which is called through a wrapper, and one of another line of `load`.
fn profile() -> Profile {
    let column = |index: usize| Column { kind: REQUESTED[index], allocator: String::new() };
    let sample = |frames: &[u32], values: [u64; 2]| Sample {
        stack: 0,
        frames: frames.to_vec(),
        values: values.to_vec(),
        compared: Vec::new(),
    };
    Profile {
        columns: vec![column(0), column(1)],
        frames: vec![
            frame("operator new", 0, true),
            frame("load", 10, false),
            frame("load", 20, false),
            frame("main", 1, false),
            frame("other", 2, false),
        ],
        samples: vec![
            sample(&[0, 1, 3], [1, 100]),
            sample(&[0, 1, 4], [2, 50]),
            sample(&[2, 3], [5, 120]),
            sample(&[0], [1, 1]),
            sample(&[], [7, 7]),
        ],
        ..Profile::default()
    }
}

fn sums(found: &Sites) -> Vec<(Vec<u64>, Vec<u32>, usize)> {
    found.sites.iter().map(|site| (site.values.clone(), site.stack.clone(), site.stacks)).collect()
}

#[test]
fn stacks_are_added_up_by_their_innermost_call_outside_of_wrappers() {
    let profile = profile();
    let lines = sites(&profile, 1, 1, Place::Line, &[]);
    let expected =
        [(vec![3, 150], vec![1, 3], 2), (vec![5, 120], vec![2, 3], 1), (vec![1, 1], vec![0], 1)];
    assert_eq!(sums(&lines), expected);
    assert_eq!(lines.unknown, [7, 7]);
    let sorted_by_calls = sites(&profile, 0, 1, Place::Line, &[]);
    assert_eq!(sorted_by_calls.sites[0].stack, [2, 3]);
    let functions = sites(&profile, 1, 1, Place::Function, &[]);
    assert_eq!(functions.sites[0].values, [8, 270]);
    assert_eq!(functions.sites[0].stack, [2, 3], "the stack with the largest value");
    let modules = sites(&profile, 1, 1, Place::Module, &[]);
    assert_eq!(sums(&modules), [(vec![9, 271], vec![2, 3], 4)]);
}

#[test]
fn depth_distinguishes_callers_and_further_wrappers_can_be_named() {
    let profile = profile();
    assert_eq!(sites(&profile, 1, 2, Place::Line, &[]).sites.len(), 4);
    let outside = sites(&profile, 1, 1, Place::Line, &["load".to_owned()]);
    assert_eq!(sums(&outside)[0], (vec![6, 220], vec![3], 2));
}

#[test]
fn compared_calls_are_added_up_by_site() {
    let mut profile = profile();
    profile.samples[0].compared = vec![2, 1, 30, 10];
    profile.samples[1].compared = vec![1, 1, 5, 1];
    let found = sites(&profile, 1, 1, Place::Line, &[]);
    assert_eq!(found.sites[0].compared, [3, 2, 35, 11]);
    assert!(found.sites[1].compared.is_empty());
}

/// `game+0x10` is a function of which no name is known.
#[test]
fn a_function_without_a_name_inside_a_wrapper_is_a_part_of_it() {
    let mut profile = profile();
    profile.frames.extend([frame("game+0x10", 0, false), frame("sqlite3Malloc", 0, true)]);
    let unnamed = profile.frames.len() as u32 - 2;
    let site_of = |frames: Vec<u32>| {
        let mut profile = profile.clone();
        profile.samples.truncate(1);
        profile.samples[0].frames = frames;
        sites(&profile, 0, 1, Place::Line, &[]).sites[0].stack[0]
    };
    assert_eq!(site_of(vec![unnamed, unnamed + 1, 1]), 1);
    assert_eq!(site_of(vec![unnamed, 1, unnamed + 1]), unnamed, "a caller that is no wrapper");
    assert_eq!(site_of(vec![unnamed]), unnamed);
}
