//! Interactive parts of the page in a headless browser: painters, difference, call details,
//! budgets, pairs and several comparisons. Golden images are in `tests/golden/`; `KEEL_BLESS=1`
//! renews them.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests may panic and print why they are skipped"
)]

mod common;
mod window;

use base64::Engine as _;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use window::{Window, screenshots};

fn make_page(folders: &[&Path], rows: usize, allocators: usize) -> PathBuf {
    for (index, folder) in folders.iter().enumerate() {
        common::write(folder, rows + index * 1000, allocators, 2);
    }
    common::page(folders)
}

/// Presses the first button with this text inside an element.
fn press(window: &Window, within: &str, label: &str) {
    let script = format!(
        "(() => {{ const b = [...document.querySelectorAll('{within} button')].find((b) => \
         b.textContent.trim().replaceAll(String.fromCharCode(160), ' ') === {label:?}); if (!b) \
         return false; b.click(); return true; }})()"
    );
    assert_eq!(window.eval(&script), Value::Bool(true), "no button {label} in {within}");
    window.wait_until_drawn();
}

/// The plot of a canvas without its axes, as a data URL.
fn plot(selector: &str) -> String {
    format!(
        "(() => {{ const c = document.querySelector({selector:?}); const o = \
         document.createElement('canvas'); o.width = c.width - 58; o.height = c.height - 30; \
         o.getContext('2d').drawImage(c, -50, -6); return o.toDataURL(); }})()"
    )
}

/// Mean difference of two images per channel, 0 to 255, after scaling both to 160 x 60 pixels.
fn distance(window: &Window, one: &str, other: &str) -> f64 {
    let script = format!(
        "(async () => {{ const read = async (url) => {{ const i = new Image(); i.src = url; await \
         i.decode(); const c = document.createElement('canvas'); c.width = 160; c.height = 60; \
         const x = c.getContext('2d'); x.imageSmoothingQuality = 'high'; x.drawImage(i, 0, 0, 160, \
         60); return x.getImageData(0, 0, 160, 60).data; }}; const [a, b] = [await read({one:?}), \
         await read({other:?})]; let sum = 0; for (let i = 0; i < a.length; i += 1) sum += \
         Math.abs(a[i] - b[i]); return sum / a.length; }})()"
    );
    window.number(&script)
}

const FIRST: &str = "#panels .panel canvas.density";

#[test]
fn both_painters_draw_the_same_picture() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = make_page(&[folder.path()], 80_000, 2);
    let mut pictures = Vec::new();
    for (suffix, painter) in [("?webgl", "webgl2"), ("?canvas", "canvas")] {
        window.show_at(&page, suffix);
        window.wait_until_drawn();
        // Without WebGL2 the page uses the canvas painter, and there is nothing to compare.
        if window.eval("document.documentElement.dataset.painter") != painter {
            eprintln!("SKIPPED: this browser has no WebGL2");
            return;
        }
        let mut views = Vec::new();
        for colour in ["by size", "by cause", "by thread"] {
            press(&window, "#toolbar", colour);
            views.push(window.eval(&plot(FIRST)));
        }
        press(&window, "#toolbar", "+");
        press(&window, "#toolbar", "+");
        views.push(window.eval(&plot(FIRST)));
        pictures.push(views);
        window.assert_no_problems();
    }
    for (one, other) in pictures[0].iter().zip(&pictures[1]) {
        let apart = distance(&window, one.as_str().unwrap(), other.as_str().unwrap());
        assert!(apart < 0.5, "painters differ by {apart} of 255");
    }
    let apart =
        distance(&window, pictures[0][0].as_str().unwrap(), pictures[0][1].as_str().unwrap());
    assert!(apart > 0.5, "colours by size and by cause do not differ: {apart}");
}

#[test]
fn call_details_and_difference_panel_follow_the_selection() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = make_page(&[folder.path()], 80_000, 3);
    window.show(&page);
    window.wait_until_drawn();
    let hitch = window.eval("document.getElementById('hitch').textContent");
    assert!(
        hitch.as_str().unwrap().starts_with("Slowest call attributed to an allocator: "),
        "{hitch}"
    );
    for part in [
        "Cause: ",
        "Attributed to the allocator, ",
        "The others took ",
        "A longer call, attributed to the operating system: ",
    ] {
        assert!(hitch.as_str().unwrap().contains(part), "{part}: {hitch}");
    }
    let note = window.eval("document.querySelector('#glance .floor-note').textContent");
    assert!(note.as_str().unwrap().contains("only 2 times"), "{note}");
    press(&window, "#hitch", "Show call");
    let detail = window.eval("document.getElementById('detail').textContent");
    let same = window.number("document.querySelectorAll('#detail .same').length");
    assert_eq!(same, 4.0, "three allocators and null: {detail}");
    assert!(detail.as_str().unwrap().contains("Frame"), "{detail}");
    let calls = format!("Number(document.querySelector({FIRST:?}).dataset.calls)");
    let around = window.number(&calls);
    press(&window, "#detail", "Zoom in further");
    assert!(window.number(&calls) < around, "zooming in shows fewer calls");
    press(&window, "#detail", "Close");
    assert_eq!(window.eval("document.getElementById('detail').hidden"), Value::Bool(true));
    press(&window, "#toolbar", "Show all");

    let before = window.number("document.querySelectorAll('#panels .panel').length");
    choose(&window, "Difference: first allocator", "system");
    assert_eq!(window.number("document.querySelectorAll('#panels .panel').length"), before + 1.0);
    let title = window.eval("document.querySelector('#panels .panel figcaption b').textContent");
    assert_eq!(title, "system − keel");
    let difference = window.eval(&plot(FIRST));
    choose(&window, "Difference: second allocator", "mimalloc");
    assert_ne!(window.eval(&plot(FIRST)), difference);
    choose(&window, "Difference: first allocator", "none");
    assert_eq!(window.number("document.querySelectorAll('#panels .panel').length"), before);
    window.assert_no_problems();
}

fn choose(window: &Window, label: &str, option: &str) {
    let script = format!(
        "(() => {{ const s = document.querySelector('select[aria-label={label:?}]'); s.value = \
         [...s.options].find((o) => o.text === {option:?}).value; s.dispatchEvent(new \
         Event('change')); }})()"
    );
    window.eval(&script);
    window.wait_until_drawn();
}

#[test]
fn keys_step_through_slow_calls_and_enter_shows_details() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = make_page(&[folder.path()], 40_000, 1);
    window.show(&page);
    window.wait_until_drawn();
    window.tab.find_element(FIRST).unwrap().focus().unwrap();
    window.tab.press_key("n").unwrap();
    window.wait_until_drawn();
    assert_eq!(
        window.eval("document.getElementById('tip').hidden"),
        Value::Bool(false),
        "n highlights the first mark"
    );
    window.tab.press_key("Enter").unwrap();
    window.wait_until_drawn();
    let detail = || window.eval("document.querySelector('#detail h3')?.textContent ?? ''");
    let first = detail();
    assert!(first.as_str().unwrap().contains(" in malloc, keel"), "{first}");
    window.tab.press_key("n").unwrap();
    window.tab.press_key("Enter").unwrap();
    window.wait_until_drawn();
    assert_ne!(detail(), first, "the details are those of the next mark");
    window.assert_no_problems();
}

#[test]
fn budget_options_change_the_budget_tables() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = make_page(&[folder.path()], 80_000, 3);
    window.show(&page);
    window.wait_until_drawn();
    let cells =
        "[...document.querySelectorAll('#frames-table tbody td')].map((c) => c.textContent).join()";
    let at_60 = window.eval(cells);
    press(&window, "#frames-toolbar", "240 Hz");
    let at_240 = window.eval(cells);
    assert_ne!(at_60, at_240, "the budget of a shorter frame is smaller");
    press(&window, "#frames-toolbar", "Busiest thread only");
    assert_ne!(window.eval(cells), at_240, "one thread spends less time than all threads");
    press(&window, "#frames-toolbar", "10 ms buffer");
    let heads = window.eval("document.querySelector('#worst-frames caption').textContent");
    assert_eq!(heads, "Worst buffers");
    let calls = format!("Number(document.querySelector({FIRST:?}).dataset.calls)");
    let all = window.number(&calls);
    window.eval("document.querySelector('#worst-frames tbody button').click()");
    window.wait_until_drawn();
    let shown = window.number(&calls);
    assert!(shown < all * 0.5, "the link shows the period: {shown} of {all}");
    window.eval("document.querySelectorAll('#frames-table thead button')[2].click()");
    window.wait_until_drawn();
    let sorted = "document.querySelectorAll('#frames-table th[aria-sort=ascending]').length";
    assert_eq!(window.number(sorted), 1.0);
    for (chart, words) in [("frames", "of the budget"), ("lanes", "thread 0")] {
        let tips = tooltips(&window, chart);
        assert!(
            tips.iter().any(|tip| tip.contains(words) && tip.contains("keel")),
            "{chart}: {tips:?}"
        );
    }
    for chart in ["lanes", "lifetimes", "memory"] {
        let name =
            window.eval(&format!("document.getElementById('{chart}').getAttribute('aria-label')"));
        assert!(name.as_str().is_some_and(|name| name.len() > 20), "{chart}: {name}");
    }
    assert_eq!(window.number("document.querySelectorAll('#planes canvas').length"), 3.0);
    window.assert_no_problems();
}

/// The tooltips that appear when the pointer moves along the first lane of a chart.
fn tooltips(window: &Window, chart: &str) -> Vec<String> {
    let script = format!(
        "(() => {{ const c = document.getElementById({chart:?}); const b = \
         c.getBoundingClientRect(); const tip = document.getElementById('tip'); const tips = []; \
         for (let x = 96; x < b.width; x += 2) {{ c.dispatchEvent(new PointerEvent('pointermove', \
         {{ clientX: b.left + x, clientY: b.top + 13, bubbles: true }})); if (!tip.hidden) \
         tips.push(tip.textContent); }} c.dispatchEvent(new PointerEvent('pointerleave')); return \
         tips; }})()"
    );
    serde_json::from_value(window.eval(&script)).unwrap()
}

/// Group and cells of each row in the table of two allocators.
fn pair_rows(window: &Window) -> Vec<Vec<String>> {
    let rows = "[...document.querySelectorAll('#pair-table tbody')].flatMap((b) => \
        [...b.querySelectorAll('tr:not(.group)')].map((r) => \
        [b.querySelector('.group').textContent, ...[...r.children].map((c) => \
        c.textContent.replaceAll('\\u00a0', ' '))]))";
    serde_json::from_value(window.eval(rows)).unwrap()
}

#[test]
fn pair_table_matches_the_report_of_the_command_line() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    common::write(folder.path(), 80_000, 4, 5);
    let page = common::page(&[folder.path()]);
    window.show(&page);
    window.wait_until_drawn();
    choose(&window, "First allocator", "system");
    choose(&window, "Second allocator", "keel");
    let rows = pair_rows(&window);
    let of = |rows: &[Vec<String>], group: &str, figure: &str| {
        rows.iter().find(|row| row[0] == group && row[1] == figure).unwrap().clone()
    };
    // The command line prints the rows of `keel_report::pair`.
    let comparison = keel_results::Comparison::load(folder.path()).unwrap();
    let expected = keel_report::pair(&comparison, "system", "keel").unwrap();
    assert_eq!(rows.len(), expected.rows.len(), "{rows:?}");
    for (row, expected) in rows.iter().zip(&expected.rows) {
        let ratio = expected.ratio.unwrap();
        let shown: f64 = row[4].parse().unwrap();
        assert!((shown / ratio.value - 1.0).abs() < 0.01, "{row:?}: {expected:?}");
        let lower = match expected.lower {
            "a" => "system lower",
            "b" => "keel lower",
            _ if ratio.low > 1.0 => "keel possibly lower",
            _ if ratio.high < 1.0 => "system possibly lower",
            _ => "no significant difference",
        };
        assert!(row[7].starts_with(lower), "{row:?}: {expected:?}");
    }
    let words = window.eval("document.getElementById('pair-summary').textContent");
    assert_eq!(words.as_str().unwrap().replace('\u{a0}', " "), expected.words);
    assert!(of(&rows, "malloc", "p50")[7] == "keel lower", "{:?}", of(&rows, "malloc", "p50"));
    assert!(rows.iter().any(|row| row[0] == "time in calls per frame"), "{rows:?}");

    press(&window, "#pair-toolbar", "Swap");
    let swapped = of(&pair_rows(&window), "malloc", "p50");
    let was = of(&rows, "malloc", "p50");
    assert_eq!((&swapped[2], &swapped[3]), (&was[3], &was[2]), "the columns are swapped");
    assert_eq!(swapped[7], "keel lower");
    choose(&window, "Second allocator", "mimalloc");
    let heads = window.eval("document.querySelector('#pair-table thead').textContent");
    assert!(heads.as_str().unwrap().contains("keel / mimalloc"), "{heads}");
    window.assert_no_problems();
}

#[test]
fn page_and_plots_use_the_same_budget_colours() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = make_page(&[folder.path()], 40_000, 2);
    window.show(&page);
    window.wait_until_drawn();
    let options = |dark| keel_report::PlotOptions {
        view: keel_report::View::Frames,
        operation: None,
        allocators: Vec::new(),
        hue: keel_report::Hue::Size,
        budget: None,
        dark,
        width: 900,
        scale: 1.0,
        threads: 1,
    };
    for (dark, next) in [(false, "Dark"), (true, "Light")] {
        let picture = keel_report::plot(&[folder.path().to_path_buf()], &options(dark)).unwrap();
        let svg = picture.svg().unwrap();
        let swatches = window.eval(
            "[...document.querySelectorAll('#frames-legend .swatch')].map((s) => \
             getComputedStyle(s).backgroundColor.match(/\\d+/g) .reduce((text, part) => text + \
             Number(part).toString(16).padStart(2, '0'), '#'))",
        );
        let swatches: Vec<String> = serde_json::from_value(swatches).unwrap();
        assert_eq!(swatches.len(), 4);
        for colour in &swatches {
            let swatch = format!("width=\"9.0\" height=\"9.0\" fill=\"{colour}\"");
            assert!(svg.contains(&swatch), "{colour} of the page is not in the legend of the plot");
        }
        press(&window, "header", next);
    }
    window.assert_no_problems();
}

#[test]
fn page_switches_between_several_comparisons() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let page = make_page(&[folders[0].path(), folders[1].path()], 20_000, 2);
    window.show(&page);
    window.wait_until_drawn();
    let malloc = format!("document.querySelector({FIRST:?}).dataset.calls");
    let first = window.eval(&malloc);
    assert_eq!(
        window.number("document.querySelectorAll('#comparisons-table tbody tr').length"),
        2.0
    );
    window.eval(
        "document.querySelectorAll('#comparisons-toolbar \
         .choice')[0].querySelectorAll('button')[1].click()",
    );
    window.until("location.hash === '#2' && document.documentElement?.dataset.ready === 'true'");
    window.until(&format!("{malloc} !== {first}"));
    let medians =
        "[...document.querySelectorAll('#comparisons-table td')].map((c) => c.textContent).join()";
    let before = window.eval(medians);
    press(&window, "#comparisons-toolbar", "worst");
    assert_ne!(window.eval(medians), before);
    window.assert_no_problems();
}

#[test]
fn charts_match_their_golden_images() {
    let Some(window) = Window::open(1280, 900, &screenshots()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = make_page(&[folder.path()], 60_000, 2);
    window.show_at(&page, "?canvas");
    window.wait_until_drawn();
    let views = [
        ("density", FIRST.to_owned(), "by size"),
        ("density-thread", "#panels .panel:nth-child(2) canvas.density".to_owned(), "by thread"),
        ("percentiles", "#percentiles".to_owned(), "by size"),
        ("sizes", "#planes canvas".to_owned(), "by size"),
        ("lifetimes", "#lifetimes".to_owned(), "by size"),
    ];
    for (name, selector, colour) in views {
        press(&window, "#toolbar", colour);
        let picture = window.eval(&plot(&selector));
        let picture = picture.as_str().unwrap();
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.png"));
        let engine = &base64::engine::general_purpose::STANDARD;
        if std::env::var_os("KEEL_BLESS").is_some() {
            let bytes =
                engine.decode(picture.trim_start_matches("data:image/png;base64,")).unwrap();
            std::fs::write(&golden, bytes).unwrap();
        }
        let bytes = std::fs::read(&golden).unwrap_or_else(|_| {
            panic!("{} is missing; create it with KEEL_BLESS=1", golden.display())
        });
        let expected = format!("data:image/png;base64,{}", engine.encode(bytes));
        let apart = distance(&window, picture, &expected);
        assert!(apart < 2.0, "{name} differs from {} by {apart} of 255", golden.display());
    }
    assert_eq!(window.eval("window.problems"), json!([]));
}
