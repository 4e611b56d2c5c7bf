//! Measures how fast a page follows the wheel in a real browser: zooms in, then pans and zooms for
//! some seconds, one event per frame; then the same on the strips below the calls. Prints one line
//! each: the number of frames, the median, the 95th percentile and the maximum of the time between
//! two frames, and the work of the page's thread per frame, in ms:
//! `cargo run --release -p keel-report --example panning -- SECONDS PAGE...`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer's tool"
)]

#[path = "../tests/window/mod.rs"]
mod window;

const FIRST: &str = "#panels .panel canvas.density";
/// Charts with the same time axis.
const STRIPS: [&str; 4] = ["memory", "frames", "lateness", "lanes"];
const CTRL: u32 = 2;
/// Turns the wheel above `chart` once per frame, back and forth; returns the times of the frames.
const MOVE: &str = "(chart, keys, there, turns, seconds) => new Promise((done) => { const element \
    = document.querySelector(chart); const box = element.getBoundingClientRect(); const place = { \
    clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 }; const drawn = []; \
    const each = (at) => { drawn.push(at); if (at - drawn[0] > seconds * 1000) { done(drawn); \
    return; } const deltaY = Math.floor(drawn.length / turns) % 2 ? -there : there; \
    element.dispatchEvent(new WheelEvent('wheel', { bubbles: true, cancelable: true, deltaY, \
    ...place, ...keys })); requestAnimationFrame(each); }; requestAnimationFrame(each); })";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seconds, pages @ ..] = arguments.as_slice() else { panic!("SECONDS PAGE...") };
    let seconds: f64 = seconds.parse().expect("SECONDS is a number");
    let Some(window) = window::Window::open(1280, 800, &std::env::temp_dir()) else { return };
    for page in pages {
        window.show(&std::fs::canonicalize(page).unwrap());
        let zoom_in = |middle| (0..4).for_each(|_| window.wheel(middle, (0.0, -120.0), CTRL));
        zoom_in(middle_of(&window, FIRST).unwrap());
        window.wait_until_drawn();
        for (selector, name) in
            [(FIRST.to_owned(), "calls")].into_iter().chain(STRIPS.map(|id| (format!("#{id}"), id)))
        {
            if middle_of(&window, &selector).is_none() {
                continue;
            }
            let moved = |what: &str, how: &str| {
                let script = format!("({MOVE})({selector:?}, {how}, {seconds})");
                measure(&window, &format!("{page} {what} {name}"), &script);
            };
            moved("pan", "{ shiftKey: true }, 12, 60");
            moved("zoom", "{ ctrlKey: true }, -12, 30");
        }
        window.assert_no_problems();
    }
}

/// Brings a chart into view; None if the page does not show it.
fn middle_of(window: &window::Window, selector: &str) -> Option<(f64, f64)> {
    let seen = format!("document.querySelector({selector:?})?.clientHeight > 0");
    if window.eval(&seen) != true {
        return None;
    }
    window.eval(&format!(
        "document.querySelector({selector:?}).scrollIntoView({{ behavior: 'instant' }})"
    ));
    window.wait_until_drawn();
    let [left, top, width, height] = window.bounds_of(selector);
    Some((left + width / 2.0, top + height / 2.0))
}

fn measure(window: &window::Window, what: &str, script: &str) {
    let worked = window.task_seconds();
    let moments: Vec<f64> = serde_json::from_value(window.eval(script)).unwrap();
    let worked = window.task_seconds() - worked;
    let mut between: Vec<f64> = moments.windows(2).map(|pair| pair[1] - pair[0]).collect();
    between.sort_by(f64::total_cmp);
    let at = |part: f64| between[((between.len() - 1) as f64 * part) as usize];
    println!(
        "{what}: {} frames; between frames {:.1} median, {:.1} p95, {:.1} most; worked {:.1} a \
         frame",
        moments.len(),
        at(0.5),
        at(0.95),
        at(1.0),
        worked * 1000.0 / moments.len() as f64
    );
}
