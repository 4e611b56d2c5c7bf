//! Still pictures: what is asked for is in them, and what cannot be drawn is refused with a sentence.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

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

/// Width and height of a PNG, from its first chunk.
fn size_of(png: &[u8]) -> (u32, u32) {
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[test]
fn every_view_becomes_svg_and_png() {
    let (folder, _) = folder(30_000);
    let views =
        [(View::Density, 3), (View::Sizes, 3), (View::Percentiles, 0), (View::Memory, 0), (View::Frames, 3)];
    for (view, images) in views {
        let picture = plot(&paths(&[&folder]), &options(view)).unwrap();
        let svg = picture.svg().unwrap();
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{view:?}");
        assert_eq!(svg.matches("<image ").count(), images, "{view:?}: a panel or a lane each");
        for name in ["keel", "system", "mimalloc"] {
            assert!(svg.contains(&format!(">{name}</text>")), "{view:?} names {name}");
        }
        assert!(!svg.contains(">null</text>"), "the floor is drawn only when asked for");
        let (one, two) = (picture.png(1.0).unwrap(), picture.png(2.0).unwrap());
        assert_eq!(size_of(&one).0, 900);
        assert_eq!(size_of(&two), (1800, size_of(&one).1 * 2), "{view:?}");
    }
}

#[test]
fn a_budget_is_of_frames_or_of_audio_buffers() {
    let (folder, _) = folder(30_000);
    let svg = |budget| {
        let options = PlotOptions { budget, ..options(View::Frames) };
        plot(&paths(&[&folder]), &options).unwrap().svg().unwrap()
    };
    let usual = svg(None);
    assert!(usual.contains("Frame budget at 60 Hz") && usual.contains("frames over 1 %"), "{usual}");
    let faster = svg(Some(Budget::Hertz(240)));
    assert!(faster.contains("Frame budget at 240 Hz"));
    let shares = |svg: &str| {
        svg.lines().filter(|line| line.contains(" %</text>")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_ne!(shares(&usual), shares(&faster), "a quarter of the time is sooner spent");
    let buffers = svg(Some(Budget::Buffer(4_000_000)));
    assert!(buffers.contains("audio buffers of 4 ms") && buffers.contains("worst buffer"));
}

#[test]
fn lifetimes_are_the_programs_and_need_no_allocator() {
    let (folder, _) = folder(30_000);
    let svg = plot(&paths(&[&folder]), &options(View::Lifetimes)).unwrap().svg().unwrap();
    assert_eq!(svg.matches("<image ").count(), 1, "one for all allocators");
    assert!(svg.contains(" blocks released, ") && !svg.contains(">keel</text>"), "{svg}");
}

#[test]
fn lateness_is_of_paces_with_a_schedule() {
    let (folder, mut comparison) = folder(30_000);
    let draw = || plot(&paths(&[&folder]), &options(View::Lateness));
    let said = draw().err().unwrap().to_string();
    assert!(said.contains("pace max") && said.contains("--pace 1x"), "{said}");
    // So fast that no call of the synthetic run is in time.
    comparison.settings.pace = "10000x".into();
    comparison.save(folder.path()).unwrap();
    let svg = draw().unwrap().svg().unwrap();
    assert!(svg.contains("Lateness") && svg.contains(">keel</text>"), "{svg}");
    assert_eq!(
        svg.matches("<polyline ").count(),
        6,
        "a line and a lead to its name for each of three: {svg}"
    );
}

#[test]
fn percentiles_show_the_intervals_of_several_runs() {
    let (folder, mut comparison) = folder(30_000);
    let areas = || {
        let svg = plot(&paths(&[&folder]), &options(View::Percentiles)).unwrap().svg().unwrap();
        svg.matches("<polygon ").count()
    };
    let several = areas();
    assert!(several >= 3 * 4, "{several}: a shaded range and p50, p90, p99 of three allocators");
    comparison.allocators.iter_mut().for_each(|one| one.runs.truncate(1));
    comparison.save(folder.path()).unwrap();
    assert_eq!(areas(), 3, "of one run nothing is known but itself");
}

#[test]
fn choices_change_the_picture() {
    let (folder, _) = folder(30_000);
    let svg = |change: &dyn Fn(&mut PlotOptions)| {
        let mut options = options(View::Density);
        change(&mut options);
        plot(&paths(&[&folder]), &options).unwrap().svg().unwrap()
    };
    let plain = svg(&|_| ());
    assert_eq!(plain, svg(&|_| ()), "the same twice");
    assert!(plain.contains("Every malloc over time"));
    assert!(svg(&|options| options.operation = Some("free".into())).contains("Every free over time"));
    assert_ne!(plain, svg(&|options| options.hue = Hue::Thread));
    assert_ne!(plain, svg(&|options| options.hue = Hue::Cause));
    assert_ne!(plain, svg(&|options| options.dark = true));
    let chosen = svg(&|options| options.allocators = vec!["null".into(), "keel".into()]);
    assert!(chosen.find(">null<") < chosen.find(">keel<"), "in the order asked for");
    assert!(!chosen.contains(">system<"));
}

#[test]
fn several_folders_stand_side_by_side() {
    let (one, other) = (folder(20_000).0, folder(10_000).0);
    let mut options = options(View::Density);
    options.allocators = vec!["keel".into()];
    let svg = plot(&paths(&[&one, &other]), &options).unwrap().svg().unwrap();
    assert_eq!(svg.matches("<image ").count(), 2);
    assert_eq!(svg.matches(">keel · ").count(), 2, "each is called by its folder");
    options.view = View::Percentiles;
    let svg = plot(&paths(&[&one, &other]), &options).unwrap().svg().unwrap();
    assert_eq!(svg.matches("stroke-dasharray").count(), 1, "the second folder's line is dashed");
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    let (one, _) = folder(5_000);
    let (other, mut comparison) = folder(5_000);
    comparison.settings.pace = "1x".into();
    comparison.save(other.path()).unwrap();
    let refused = |folders: &[&tempfile::TempDir], options: &PlotOptions| {
        plot(&paths(folders), options).err().unwrap().to_string()
    };
    let said = refused(&[&one, &other], &options(View::Percentiles));
    assert!(said.contains("different paces (max, 1x)"), "{said}");
    let mut wrong = options(View::Density);
    wrong.allocators = vec!["jemaloc".into()];
    let said = refused(&[&one], &wrong);
    assert!(said.contains("no results of jemaloc; there are keel, system"), "{said}");
    let mut wrong = options(View::Density);
    wrong.operation = Some("aligned".into());
    let said = refused(&[&one], &wrong);
    assert!(said.contains("no call of aligned was measured; there are malloc"), "{said}");
    comparison.allocators.iter_mut().flat_map(|one| &mut one.runs).for_each(|run| run.raw = None);
    comparison.save(other.path()).unwrap();
    let said = refused(&[&other], &options(View::Density));
    assert!(said.contains("no raw rows of keel were kept"), "{said}");
}
