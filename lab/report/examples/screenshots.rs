//! Takes a screenshot of each section of a page:
//! `cargo run --release -p keel-report --example screenshots -- PAGE FOLDER [WIDTH] [dark]
//! [JAVASCRIPT]`.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a developer's tool")]

#[path = "../tests/window/mod.rs"]
mod window;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [page, folder, rest @ ..] = arguments.as_slice() else {
        panic!("PAGE FOLDER [WIDTH] [dark] [JAVASCRIPT]")
    };
    let width = rest.first().map_or(1280, |width| width.parse().expect("WIDTH is a number"));
    let folder = std::path::absolute(folder).unwrap();
    let Some(window) = window::Window::open(width, 900, &folder) else { return };
    window.show(&std::fs::canonicalize(page).unwrap());
    eprintln!(
        "drawn {:.0} ms after the navigation began",
        window.number("Number(document.documentElement.dataset.readyMs)")
    );
    let theme = rest.get(1).map_or("light", String::as_str);
    if window.eval("document.documentElement.dataset.theme") != theme {
        window.eval("document.getElementById('theme').click()");
    }
    if let Some(script) = rest.get(2) {
        window.eval(script);
    }
    window.wait_until_drawn();
    window.wait_until_drawn();
    for section in 0..window.number("document.querySelectorAll('main > section').length") as usize {
        let element = format!("document.querySelectorAll('main > section')[{section}]");
        let name = window.eval(&format!(
            "{element}.id || {element}.className || {element}.querySelector('h2').id"
        ));
        let picture = format!("{}-{width}-{theme}.png", name.as_str().unwrap());
        window.screenshot_of(&picture, &element);
    }
}
