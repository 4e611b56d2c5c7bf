//! `keel plot`: pictures contain what the options select, and invalid options are rejected.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use keel_report::{Budget, Hue, PlotOptions, View, plot};
use std::path::PathBuf;

fn options(view: View) -> PlotOptions {
    PlotOptions {
        view,
        operation: None,
        allocators: Vec::new(),
        hue: Hue::Size,
        budget: None,
        dark: false,
        width: 900,
        scale: 1.0,
        threads: 2,
    }
}

fn folder(rows: usize) -> (tempfile::TempDir, keel_results::Comparison) {
    let folder = tempfile::tempdir().unwrap();
    let (_, comparison) = common::write(folder.path(), rows, 3, 2);
    (folder, comparison)
}

fn paths(folders: &[&tempfile::TempDir]) -> Vec<PathBuf> {
    folders.iter().map(|folder| folder.path().to_path_buf()).collect()
}

/// Width and height of a PNG, read from its header.
fn size_of(png: &[u8]) -> (u32, u32) {
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[test]
fn every_view_renders_as_svg_and_png() {
    let (folder, _) = folder(30_000);
    let views = [
        (View::Density, 3),
        (View::Sizes, 3),
        (View::Percentiles, 0),
        (View::Memory, 0),
        (View::Frames, 3),
    ];
    for (view, images) in views {
        let picture = plot(&paths(&[&folder]), &options(view)).unwrap();
        let svg = picture.svg().unwrap();
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{view:?}");
        assert_eq!(
            svg.matches("<image ").count(),
            images,
            "{view:?}: one image for each allocator"
        );
        for name in ["keel", "system", "mimalloc"] {
            assert!(svg.contains(&format!(">{name}</text>")), "{view:?} names {name}");
        }
        assert!(!svg.contains(">null</text>"), "null is drawn only if it is selected");
        let (one, two) = (picture.png(1.0).unwrap(), picture.png(2.0).unwrap());
        assert_eq!(size_of(&one).0, 900);
        assert_eq!(size_of(&two), (1800, size_of(&one).1 * 2), "{view:?}");
    }
}

#[test]
fn budget_applies_to_frames_or_audio_buffers() {
    let (folder, _) = folder(30_000);
    let svg = |budget| {
        let options = PlotOptions { budget, ..options(View::Frames) };
        plot(&paths(&[&folder]), &options).unwrap().svg().unwrap()
    };
    let usual = svg(None);
    assert!(
        usual.contains("Frame budget at 60 Hz") && usual.contains("frames over 1 %"),
        "{usual}"
    );
    let faster = svg(Some(Budget::Hertz(240)));
    assert!(faster.contains("Frame budget at 240 Hz"));
    let shares = |svg: &str| {
        svg.lines().filter(|line| line.contains(" %</text>")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_ne!(shares(&usual), shares(&faster), "a shorter frame has a smaller budget");
    let buffers = svg(Some(Budget::Buffer(4_000_000)));
    assert!(buffers.contains("audio buffers of 4 ms") && buffers.contains("worst buffer"));
}

#[test]
fn lifetimes_have_one_image_for_all_allocators() {
    let (folder, _) = folder(30_000);
    let svg = plot(&paths(&[&folder]), &options(View::Lifetimes)).unwrap().svg().unwrap();
    assert_eq!(svg.matches("<image ").count(), 1, "one image for all allocators");
    assert!(svg.contains(" blocks freed, ") && !svg.contains(">keel</text>"), "{svg}");
}

#[test]
fn lateness_requires_a_pace_with_a_schedule() {
    let (folder, mut comparison) = folder(30_000);
    let draw = || plot(&paths(&[&folder]), &options(View::Lateness));
    let message = draw().err().unwrap().to_string();
    assert!(message.contains("pace max") && message.contains("--pace 1x"), "{message}");
    // At this pace every call of the synthetic run is late.
    comparison.settings.pace = "10000x".into();
    comparison.save(folder.path()).unwrap();
    let svg = draw().unwrap().svg().unwrap();
    assert!(svg.contains("Lateness") && svg.contains(">keel</text>"), "{svg}");
    assert_eq!(
        svg.matches("<polyline ").count(),
        6,
        "a curve and a label line for each of three allocators: {svg}"
    );
}

#[test]
fn percentiles_of_several_runs_have_intervals() {
    let (folder, mut comparison) = folder(30_000);
    let areas = || {
        let svg = plot(&paths(&[&folder]), &options(View::Percentiles)).unwrap().svg().unwrap();
        svg.matches("<polygon ").count()
    };
    let several = areas();
    assert!(several >= 3 * 4, "{several}: a range and p50, p90, p99 for each of three allocators");
    comparison.allocators.iter_mut().for_each(|one| one.runs.truncate(1));
    comparison.save(folder.path()).unwrap();
    assert_eq!(areas(), 3, "one run has no intervals");
}

#[test]
fn options_change_the_picture() {
    let (folder, _) = folder(30_000);
    let svg = |change: &dyn Fn(&mut PlotOptions)| {
        let mut options = options(View::Density);
        change(&mut options);
        plot(&paths(&[&folder]), &options).unwrap().svg().unwrap()
    };
    let plain = svg(&|_| ());
    assert_eq!(plain, svg(&|_| ()), "the same options draw the same picture");
    assert!(plain.contains("Every malloc over time"));
    assert!(
        svg(&|options| options.operation = Some("free".into())).contains("Every free over time")
    );
    assert_ne!(plain, svg(&|options| options.hue = Hue::Thread));
    assert_ne!(plain, svg(&|options| options.hue = Hue::Cause));
    assert_ne!(plain, svg(&|options| options.dark = true));
    let chosen = svg(&|options| options.allocators = vec!["null".into(), "keel".into()]);
    assert!(
        chosen.find(">null<") < chosen.find(">keel<"),
        "allocators keep the order of the options"
    );
    assert!(!chosen.contains(">system<"));
}

#[test]
fn several_folders_share_one_picture() {
    let (one, other) = (folder(20_000).0, folder(10_000).0);
    let mut options = options(View::Density);
    options.allocators = vec!["keel".into()];
    let svg = plot(&paths(&[&one, &other]), &options).unwrap().svg().unwrap();
    assert_eq!(svg.matches("<image ").count(), 2);
    assert_eq!(svg.matches(">keel · ").count(), 2, "labels contain the folder");
    options.view = View::Percentiles;
    let svg = plot(&paths(&[&one, &other]), &options).unwrap().svg().unwrap();
    assert_eq!(
        svg.matches("stroke-dasharray").count(),
        1,
        "the curve of the second folder is dashed"
    );
}

#[test]
fn invalid_options_are_rejected_with_a_reason() {
    let (one, _) = folder(5_000);
    let (other, mut comparison) = folder(5_000);
    comparison.settings.pace = "1x".into();
    comparison.save(other.path()).unwrap();
    let rejected = |folders: &[&tempfile::TempDir], options: &PlotOptions| {
        plot(&paths(folders), options).err().unwrap().to_string()
    };
    let message = rejected(&[&one, &other], &options(View::Percentiles));
    assert!(message.contains("different paces (max, 1x)"), "{message}");
    let mut wrong = options(View::Density);
    wrong.allocators = vec!["jemaloc".into()];
    let message = rejected(&[&one], &wrong);
    let expected = "there are no results for jemaloc; there are results for keel, system";
    assert!(message.contains(expected), "{message}");
    let mut wrong = options(View::Density);
    wrong.operation = Some("aligned".into());
    let message = rejected(&[&one], &wrong);
    assert!(message.contains("no call of aligned was measured; there are malloc"), "{message}");
    comparison.allocators.iter_mut().flat_map(|one| &mut one.runs).for_each(|run| run.raw = None);
    comparison.save(other.path()).unwrap();
    let message = rejected(&[&other], &options(View::Density));
    assert!(message.contains("no raw rows of keel were kept"), "{message}");
}
