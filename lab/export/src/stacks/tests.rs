#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
use super::*;
use crate::timeline::{SlowCall, Timeline};
use flate2::read::GzDecoder;
use keel_blame::{Explained, Frame, REQUESTED, Sample};
use serde_json::{Value, json};
use std::io::Read as _;

/// Two stacks through `main`, and operations without a stack; calls and bytes.
fn profile() -> Profile {
    let frame = |function: &str, file: &str, line: u32| Frame {
        function: function.to_owned(),
        file: file.to_owned(),
        line,
        module: "game".to_owned(),
        ..Frame::default()
    };
    let sample = |frames: &[u32], values: [u64; 2]| Sample {
        stack: 0,
        frames: frames.to_vec(),
        values: values.to_vec(),
        compared: Vec::new(),
    };
    let column = |index: usize| Column { kind: REQUESTED[index], allocator: String::new() };
    Profile {
        columns: vec![column(0), column(1)],
        frames: vec![
            frame("load(int; char)", "/src/load.cpp", 10),
            frame("main", "/src/main.cpp", 3),
            frame("game+0x12", "", 0),
        ],
        samples: vec![
            sample(&[], [1, 7]),
            sample(&[0, 1], [3, 300]),
            sample(&[0, 1], [1, 50]),
            sample(&[2, 1], [5, 0]),
        ],
        ..Profile::default()
    }
}

fn json_of(write: impl FnOnce(&mut Vec<u8>)) -> Value {
    let mut output = Vec::new();
    write(&mut output);
    serde_json::from_slice(&output).unwrap()
}

#[test]
fn collapsed_stacks_begin_with_the_outermost_call() {
    let mut output = Vec::new();
    assert_eq!(collapsed(&profile(), 1, &mut output).unwrap(), 2);
    let text = String::from_utf8(output).unwrap();
    assert_eq!(text, "(no stack) 7\nmain;load(int: char) 350\n");
}

#[test]
fn speedscope_has_a_profile_for_each_column() {
    let document = json_of(|output| assert_eq!(speedscope(&profile(), 1, "x", output).unwrap(), 3));
    assert_eq!(document["activeProfileIndex"], 1);
    let load = json!({ "name": "load(int; char)", "file": "/src/load.cpp", "line": 10 });
    assert_eq!(document["shared"]["frames"][0], load);
    let bytes = &document["profiles"][1];
    assert_eq!((&bytes["unit"], &bytes["endValue"]), (&"bytes".into(), &357.into()));
    assert_eq!(bytes["samples"], json!([[], [1, 0], [1, 0]]));
    assert_eq!(bytes["weights"], json!([7, 300, 50]));
}

/// The profile with a number for each stack, and its values in two parts of the time.
fn explained() -> Explained {
    let mut profile = profile();
    profile.samples.iter_mut().zip(0..).for_each(|(sample, number)| sample.stack = number);
    profile.samples[0].stack = u32::MAX;
    let mut over_time: Vec<(u32, u32, Vec<u64>)> = Vec::new();
    for (sample, part) in profile.samples.iter().zip([1, 0, 1, 0]) {
        over_time.push((sample.stack, part, sample.values.clone()));
    }
    Explained { profile, parts: 2, over_time }
}

#[test]
fn firefox_has_markers_for_frames_and_slow_calls() {
    let slow = SlowCall {
        operation: "malloc",
        size: 70,
        thread: 3,
        start: 5_000_000,
        length: 250_000.0,
        cause: "page fault".to_owned(),
        stack: 1,
        ..SlowCall::default()
    };
    let other = SlowCall { allocator: "other".to_owned(), ..slow.clone() };
    let frames = vec![(1_000_000, 4_000_000), (4_000_000, 8_000_000)];
    let timeline = Timeline { span_ns: 8_000_000, frames, slow: vec![slow, other] };
    let document = json_of(|output| drop(firefox(&explained(), &timeline, 1, "x", output)));
    let thread = &document["threads"][0];
    assert_eq!(thread["samples"]["time"], json!([0.0, 4.0, 4.0]));
    let markers = &thread["markers"];
    assert_eq!(
        markers["startTime"],
        json!([1.0, 4.0, 5.0]),
        "that of another allocator is not here"
    );
    assert_eq!(markers["endTime"], json!([4.0, 8.0, 5.25]));
    let call = &markers["data"][2];
    assert_eq!((&call["why"], &call["size"]), (&"page fault".into(), &70.into()));
    // Its stack is that of the samples: `load` in `main`.
    let stack = call["cause"]["stack"].as_u64().unwrap() as usize;
    assert_eq!(thread["stackTable"]["frame"][stack], 0);
    assert_eq!(thread["stringArray"][markers["name"][2].as_u64().unwrap() as usize], "malloc");
    assert_eq!(document["threads"][1]["markers"]["length"], 0);
    assert_eq!(document["meta"]["initialSelectedThreads"], json!([0]));
    for data in markers["data"].as_array().unwrap() {
        let mut schemas = document["meta"]["markerSchema"].as_array().unwrap().iter();
        assert!(schemas.any(|schema| schema["name"] == data["type"]));
    }
}

#[test]
fn firefox_has_a_thread_for_each_column_and_shares_outer_calls() {
    let mut whole = explained();
    whole.parts = 1;
    whole.over_time.iter_mut().for_each(|row| row.1 = 0);
    let write =
        |output: &mut Vec<u8>| firefox(&whole, &Timeline::default(), 0, "x", output).unwrap();
    let document = json_of(|output| assert_eq!(write(output), 4));
    let thread = &document["threads"][0];
    assert_eq!(
        (&thread["name"], &document["threads"][1]["name"]),
        (&"calls".into(), &"bytes".into())
    );
    assert_eq!(thread["stackTable"]["prefix"], json!([null, 0, 0]));
    assert_eq!(thread["stackTable"]["frame"], json!([1, 0, 2]));
    assert_eq!(thread["samples"]["stack"], json!([1, 1, 2, null]));
    assert_eq!(thread["samples"]["weight"], json!([3, 1, 5, 1]));
    assert_eq!(thread["frameTable"]["line"], json!([10, 3, null]));
    // Every table has columns of its length.
    for name in ["samples", "markers", "stackTable", "frameTable", "funcTable", "resourceTable"] {
        let table = thread[name].as_object().unwrap();
        let length = table["length"].as_u64().unwrap() as usize;
        let columns = table.values().filter_map(Value::as_array);
        assert!(columns.clone().count() > 2, "{name}");
        columns.for_each(|column| assert_eq!(column.len(), length, "{name}"));
    }
}

#[test]
fn pprof_has_all_columns_and_names_the_first_to_show() {
    let mut output = Vec::new();
    assert_eq!(pprof(&profile(), 1, &mut output).unwrap(), 4);
    let mut bytes = Vec::new();
    GzDecoder::new(&output[..]).read_to_end(&mut bytes).unwrap();
    let found = crate::perfetto::tests::fields(&bytes);
    let of = |field: u64| found.iter().filter(move |one| one.0 == field);
    let strings: Vec<String> = of(6).map(|one| String::from_utf8(one.2.clone()).unwrap()).collect();
    assert_eq!(strings[0], "");
    let default = of(14).next().unwrap().1;
    assert_eq!(strings[default as usize], "alloc_space");
    assert_eq!((of(1).count(), of(2).count(), of(4).count(), of(5).count()), (2, 4, 3, 3));
    let second = crate::perfetto::tests::fields(&of(2).nth(1).unwrap().2);
    // Locations 1 and 2; values 3 and 300.
    assert_eq!((second[0].2.as_slice(), second[1].2.as_slice()), (&[1, 2][..], &[3, 172, 2][..]));
}
