//! How fast a page follows a hand in a real browser: zooms in, then pans and zooms with the wheel for some seconds, as
//! the browser passes it on. One line each: frames, the median, the 95th percentile and the longest time between two of
//! them, and how long the page's thread worked for each, in ms:
//! `cargo run --release -p keel-report --example panning -- SECONDS PAGE...`.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "a developer's tool")]

#[path = "../tests/window/mod.rs"]
mod window;

use std::time::{Duration, Instant};

const FIRST: &str = "#panels .panel canvas.density";
const CTRL: u32 = 2;
const SHIFT: u32 = 8;
/// Keeps the moment of each frame that the browser draws.
const COUNT: &str = "(() => { window.drawn = []; window.counting = true; \
    const each = (at) => { drawn.push(at); if (counting) requestAnimationFrame(each); }; \
    requestAnimationFrame(each); return 0; })()";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seconds, pages @ ..] = arguments.as_slice() else { panic!("SECONDS PAGE...") };
    let seconds = Duration::from_secs(seconds.parse().expect("SECONDS is a number"));
    let Some(window) = window::Window::open(1280, 900, &std::env::temp_dir()) else { return };
    for page in pages {
        window.show(&std::fs::canonicalize(page).unwrap());
        window.eval(&format!("document.querySelector({FIRST:?}).scrollIntoView({{ behavior: 'instant' }})"));
        window.settle();
        let [left, top, width, height] = window.place_of(FIRST);
        let middle = (left + width / 2.0, top + height / 2.0);
        for _ in 0..4 {
            window.wheel(middle, (0.0, -120.0), CTRL);
        }
        window.settle();
        measure(&window, page, "pan", seconds, |step| {
            let back = if step / 60 % 2 == 0 { 12.0 } else { -12.0 };
            window.wheel(middle, (0.0, back), SHIFT);
        });
        measure(&window, page, "zoom", seconds, |step| {
            let back = if step / 30 % 2 == 0 { -12.0 } else { 12.0 };
            window.wheel(middle, (0.0, back), CTRL);
        });
        window.no_problems();
    }
}

fn measure(window: &window::Window, page: &str, what: &str, seconds: Duration, act: impl Fn(u32)) {
    let worked = window.worked();
    window.eval(COUNT);
    let begin = Instant::now();
    let mut step = 0;
    while begin.elapsed() < seconds {
        act(step);
        step += 1;
        // A hand's events come about as often as the screen shows anything.
        std::thread::sleep(Duration::from_millis(10));
    }
    window.eval("(() => { counting = false; return 0; })()");
    let worked = window.worked() - worked;
    let moments: Vec<f64> = serde_json::from_value(window.eval("drawn")).unwrap();
    let mut between: Vec<f64> = moments.windows(2).map(|pair| pair[1] - pair[0]).collect();
    between.sort_by(f64::total_cmp);
    let at = |part: f64| between[((between.len() - 1) as f64 * part) as usize];
    println!(
        "{page} {what}: {} frames, {step} events; between frames {:.1} median, {:.1} p95, {:.1} most; \
         worked {:.1} a frame",
        moments.len(),
        at(0.5),
        at(0.95),
        at(1.0),
        worked * 1000.0 / moments.len() as f64
    );
}
