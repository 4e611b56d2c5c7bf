//! Makes the pictures of the README and of the documents: `scripts/gallery.sh` makes the
//! comparisons, calls `keel plot` and then `gallery PAGE PLOTS IMAGES`. The pictures are parts of
//! PAGE, and the PNG files in PLOTS as WebP. Fails if IMAGES has a picture that it did not make.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a developer's tool")]

#[path = "../tests/window/mod.rs"]
mod window;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use window::Window;

/// The sections of the page that are pictures, each with the picture's name.
const SECTIONS: [(&str, &str); 4] = [
    ("threads-section", "gallery-threads.webp"),
    ("lifetimes-section", "gallery-lifetimes.webp"),
    ("frames-section", "gallery-budget.webp"),
    ("sizes-section", "gallery-sizes.webp"),
];
/// Long pictures are cut, each at this height.
const CUT: [(&str, u32); 3] =
    [("gallery-budget.webp", 641), ("gallery-pair.webp", 608), ("gallery-sizes.webp", 452)];
const WIDTH: u32 = 1280;
const PHONE: [f64; 2] = [390.0, 534.0];
const REPORT_HEIGHT: u32 = 900;

fn main() {
    let arguments: Vec<PathBuf> = std::env::args().skip(1).map(PathBuf::from).collect();
    let [page, plots, images] = arguments.as_slice() else { panic!("PAGE PLOTS IMAGES") };
    let page = std::fs::canonicalize(page).unwrap();
    let images = std::path::absolute(images).unwrap();
    let mut made = BTreeSet::new();
    sections(&page, &images, &mut made);
    phone(&page, &images, &mut made);
    convert(plots, &images, &mut made);
    for entry in std::fs::read_dir(&images).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // The pictures of the guide to `keel blame` are of a recording with call stacks.
        let is_known = made.contains(&name) || name.starts_with("blame-");
        assert!(is_known, "{name} is in {}, but it was not made", images.display());
    }
    eprintln!("{} pictures in {}", made.len(), images.display());
}

fn open(width: u32, height: u32, images: &Path) -> Window {
    Window::open(width, height, images).expect("Chromium is needed")
}

/// A picture of one element, given as JavaScript.
fn picture(window: &Window, made: &mut BTreeSet<String>, name: &str, element: &str) {
    window.wait_until_drawn();
    for (_, height) in CUT.iter().filter(|(cut, _)| *cut == name) {
        let style = format!("{{maxHeight: '{height}px', overflow: 'hidden'}}");
        window.eval(&format!("Object.assign({element}.style, {style})"));
    }
    window.screenshot_of(name, element);
    made.insert(name.to_owned());
}

fn sections(page: &Path, images: &Path, made: &mut BTreeSet<String>) {
    let window = open(WIDTH, REPORT_HEIGHT, images);
    window.show(page);
    window.wait_until_drawn();
    window.screenshot("report.webp", false);
    made.insert("report.webp".to_owned());
    for (section, name) in SECTIONS {
        picture(&window, made, name, &format!("document.getElementById('{section}')"));
    }
    choose(&window, "First allocator", "keel");
    choose(&window, "Second allocator", "glibc");
    picture(&window, made, "gallery-pair.webp", "document.getElementById('pair-section')");
    window.eval("document.querySelector('#hitch button').click()");
    picture(&window, made, "gallery-call.webp", "document.getElementById('detail')");
    window.eval("document.getElementById('all').click()");
    choose(&window, "Difference: first allocator", "keel");
    choose(&window, "Difference: second allocator", "glibc");
    let panel = "document.querySelector('#panels .panel')";
    picture(&window, made, "gallery-difference.webp", panel);
    window.assert_no_problems();
}

/// Selects an option of the list with this label.
fn choose(window: &Window, label: &str, option: &str) {
    window.eval(&format!(
        "(() => {{ const list = document.querySelector('select[aria-label={label:?}]'); \
         list.value = [...list.options].find((one) => one.text === {option:?}).value; \
         list.dispatchEvent(new Event('change')); }})()"
    ));
}

/// The top of the page at the width of a phone.
fn phone(page: &Path, images: &Path, made: &mut BTreeSet<String>) {
    let window = open(PHONE[0] as u32, REPORT_HEIGHT, images);
    window.show(page);
    window.wait_until_drawn();
    window.screenshot_of_area("gallery-phone.webp", [0.0, 0.0, PHONE[0], PHONE[1]]);
    made.insert("gallery-phone.webp".to_owned());
}

/// Every PNG of the folder as WebP.
fn convert(plots: &Path, images: &Path, made: &mut BTreeSet<String>) {
    let window = open(WIDTH, REPORT_HEIGHT, images);
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(plots).unwrap() {
        let path = std::fs::canonicalize(entry.unwrap().path()).unwrap();
        let name = format!("{}.webp", path.file_stem().unwrap().to_str().unwrap());
        let page = folder.path().join("picture.html");
        let body = format!("<body style=\"margin:0\"><img src=\"file://{}\">", path.display());
        std::fs::write(&page, format!("<html data-ready=\"true\">{body}")).unwrap();
        window.show(&page);
        window.until("document.images[0].complete");
        picture(&window, made, &name, "document.images[0]");
    }
}
