//! Measures how long pages take to open in a real browser, from the start of the navigation to the
//! last drawn panel: `cargo run --release -p keel-report --example opening -- TIMES PAGE...`.
//! Prints one line per page: its name and its milliseconds.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer's tool"
)]

#[path = "../tests/window/mod.rs"]
mod window;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [times, pages @ ..] = arguments.as_slice() else { panic!("TIMES PAGE...") };
    let times: usize = times.parse().expect("TIMES is a number");
    let folder = std::env::temp_dir();
    let Some(window) = window::Window::open(1280, 900, &folder) else { return };
    for page in pages {
        let path = std::fs::canonicalize(page).unwrap();
        let took: Vec<String> = (0..times)
            .map(|_| {
                window.show(&path);
                window.assert_no_problems();
                format!("{:.0}", window.number("Number(document.documentElement.dataset.readyMs)"))
            })
            .collect();
        println!("{page} {}", took.join(" "));
    }
}
