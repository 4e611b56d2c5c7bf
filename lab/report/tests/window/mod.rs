//! A headless browser that opens a page, for tests and tools.
#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests may panic and print why they are skipped"
)]

use base64::Engine as _;
use headless_chrome::browser::tab::Tab;
use headless_chrome::protocol::cdp::{Emulation, Page, types::Method};
use headless_chrome::{Browser, LaunchOptions};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The quality of WebP pictures. The checkout contains 20 of them, so they must be small; text and
/// lines stay sharp.
const WEBP_QUALITY: u32 = 30;

/// Installed before the scripts of the page: collects errors and warnings in `window.problems`.
const WATCH_ERRORS: &str = "window.problems = [];addEventListener('error', (e) => \
    problems.push(String(e.message)));addEventListener('unhandledrejection', (e) => \
    problems.push(String(e.reason && e.reason.stack || e.reason)));for (const level of ['error', \
    'warn']) {const plain = console[level];console[level] = (...words) => { \
    problems.push(words.join(' ')); plain.apply(console, words); };}";

/// A command of the DevTools protocol with its parameters as JSON.
macro_rules! command {
    ($name:ident, $method:literal) => {
        #[derive(Debug, serde::Serialize)]
        #[serde(transparent)]
        struct $name(Value);

        impl Method for $name {
            const NAME: &'static str = $method;
            type ReturnObject = Value;
        }
    };
}
command!(TouchEvent, "Input.dispatchTouchEvent");
command!(MouseEvent, "Input.dispatchMouseEvent");
command!(TouchDevice, "Emulation.setTouchEmulationEnabled");
command!(AccessibilityTree, "Accessibility.getFullAXTree");
command!(Pdf, "Page.printToPDF");
command!(Scripts, "Emulation.setScriptExecutionDisabled");
command!(EmulatedMedia, "Emulation.setEmulatedMedia");
command!(EnableMetrics, "Performance.enable");
command!(Metrics, "Performance.getMetrics");

/// The folder of the tests' screenshots.
pub fn screenshots() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/screenshots")
}

/// A browser with one tab. Dropping it closes both.
pub struct Window {
    // Dropping the browser closes it, so it must outlive the tab.
    _browser: Browser,
    _profile: tempfile::TempDir,
    pub tab: Arc<Tab>,
    screenshots: PathBuf,
}

fn chromium() -> Option<PathBuf> {
    let known = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    let found = known.iter().map(PathBuf::from).find(|path| path.exists());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "CI needs a browser: install chromium");
        eprintln!("SKIPPED: no Chromium found; install it with `apt install chromium`");
    }
    found
}

impl Window {
    /// Opens a window of this size. Without Chromium, prints a message and returns None.
    pub fn open(width: u32, height: u32, screenshots: &Path) -> Option<Window> {
        let path = chromium()?;
        let profile = tempfile::tempdir().unwrap();
        let flags = [
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--force-color-profile=srgb",
            "--hide-scrollbars",
        ];
        let options = LaunchOptions::default_builder()
            .path(Some(path))
            .sandbox(false)
            .user_data_dir(Some(profile.path().to_path_buf()))
            .window_size(Some((width, height)))
            .idle_browser_timeout(Duration::from_secs(120))
            .args(flags.iter().map(|flag| OsStr::new(*flag)).collect())
            .build()
            .unwrap();
        let browser = Browser::new(options).unwrap();
        let tab = browser.new_tab().unwrap();
        tab.set_default_timeout(Duration::from_secs(60));
        tab.call_method(metrics(width, height)).unwrap();
        tab.call_method(Page::AddScriptToEvaluateOnNewDocument {
            source: WATCH_ERRORS.into(),
            world_name: None,
            include_command_line_api: None,
            run_immediately: None,
        })
        .unwrap();
        Some(Window {
            _browser: browser,
            _profile: profile,
            tab,
            screenshots: screenshots.to_path_buf(),
        })
    }

    pub fn show(&self, page: &Path) -> Duration {
        self.show_at(page, "")
    }

    /// Opens a page with a suffix to its address, such as `?webgl` or `#2`, waits until it is
    /// drawn, and unfolds its sections.
    pub fn show_at(&self, page: &Path, suffix: &str) -> Duration {
        let taken = self.show_folded(page, suffix);
        self.eval(
            "document.querySelectorAll('.folded').forEach((one) => \
             one.querySelector('.fold').click()) ?? null",
        );
        taken
    }

    /// Opens a page as a reader sees it first.
    pub fn show_folded(&self, page: &Path, suffix: &str) -> Duration {
        let begin = Instant::now();
        self.tab.navigate_to(&format!("file://{}{suffix}", page.display())).unwrap();
        self.until(
            "document.documentElement?.dataset.ready === 'true' && \
             (!document.getElementById('contents') || !!document.querySelector('#contents a'))",
        );
        begin.elapsed()
    }

    /// The value of a JavaScript expression.
    pub fn eval(&self, expression: &str) -> Value {
        self.try_eval(expression).unwrap()
    }

    /// The value, or an error if the page is replaced by another meanwhile.
    fn try_eval(&self, expression: &str) -> Result<Value, String> {
        let wrapped = format!("(async () => JSON.stringify(await ({expression})))()");
        let found = self.tab.evaluate(&wrapped, true).map_err(|error| error.to_string())?;
        let value = found.value.unwrap_or(Value::Null);
        Ok(serde_json::from_str(value.as_str().unwrap_or("null")).unwrap())
    }

    pub fn number(&self, expression: &str) -> f64 {
        self.eval(expression).as_f64().unwrap_or_else(|| panic!("not a number: {expression}"))
    }

    pub fn until(&self, condition: &str) {
        let begin = Instant::now();
        while self.try_eval(condition).ok() != Some(Value::Bool(true)) {
            let problems = self.try_eval("window.problems").unwrap_or_default();
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "timeout: {condition}; problems: {problems}"
            );
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Waits until the page has drawn everything that was requested, including the drawing that a
    /// gesture deferred.
    pub fn wait_until_drawn(&self) {
        let frames =
            "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 150)))";
        self.eval(&format!("new Promise((done) => {frames})"));
        self.until("!document.documentElement.hasAttribute('data-moving')");
    }

    pub fn assert_no_problems(&self) {
        assert_eq!(self.eval("window.problems"), serde_json::json!([]));
    }

    /// From the next page on, the browser runs no scripts of pages.
    pub fn disable_scripts(&self) {
        self.tab.call_method(Scripts(json!({ "value": true }))).unwrap();
    }

    /// Emulates a touch screen.
    pub fn enable_touch(&self) {
        let device = json!({ "enabled": true, "maxTouchPoints": 5 });
        self.tab.call_method(TouchDevice(device)).unwrap();
    }

    /// Sends `touchStart`, `touchMove` or `touchEnd` with the fingers that are on the screen.
    pub fn touch(&self, kind: &str, fingers: &[(f64, f64)]) {
        let points =
            fingers.iter().enumerate().map(|(id, (x, y))| json!({ "x": x, "y": y, "id": id }));
        let event = json!({ "type": kind, "touchPoints": points.collect::<Vec<_>>() });
        self.tab.call_method(TouchEvent(event)).unwrap();
    }

    /// Moves fingers in ten steps and lifts them.
    pub fn swipe(&self, from: &[(f64, f64)], to: &[(f64, f64)]) {
        self.touch("touchStart", from);
        for step in 1..=10 {
            let part = f64::from(step) / 10.0;
            let between = |(a, b): (&(f64, f64), &(f64, f64))| {
                (a.0 + (b.0 - a.0) * part, a.1 + (b.1 - a.1) * part)
            };
            let fingers: Vec<(f64, f64)> = from.iter().zip(to).map(between).collect();
            self.touch("touchMove", &fingers);
        }
        self.touch("touchEnd", &[]);
        self.wait_until_drawn();
    }

    /// Drags with the left mouse button in ten steps.
    pub fn drag(&self, from: (f64, f64), to: (f64, f64)) {
        let event = |kind: &str, (x, y): (f64, f64), buttons: u32| {
            let button = if kind == "mouseMoved" { "none" } else { "left" };
            let event = json!({ "type": kind, "x": x, "y": y, "button": button,
                "buttons": buttons, "clickCount": 1 });
            self.tab.call_method(MouseEvent(event)).unwrap();
        };
        event("mouseMoved", from, 0);
        event("mousePressed", from, 1);
        for step in 1..=10 {
            let part = f64::from(step) / 10.0;
            event(
                "mouseMoved",
                (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part),
                1,
            );
        }
        event("mouseReleased", to, 0);
        self.wait_until_drawn();
    }

    /// Turns the wheel. `modifiers`: 2 is Ctrl, 8 is Shift.
    pub fn wheel(&self, (x, y): (f64, f64), (across, down): (f64, f64), modifiers: u32) {
        let event = json!({ "type": "mouseWheel", "x": x, "y": y, "deltaX": across, "deltaY": down,
            "modifiers": modifiers });
        self.tab.call_method(MouseEvent(event)).unwrap();
    }

    /// Role and name of every element in the accessibility tree.
    pub fn accessible_elements(&self) -> Vec<(String, String)> {
        let tree = self.tab.call_method(AccessibilityTree(json!({}))).unwrap();
        let nodes = tree["nodes"].as_array().unwrap().iter().filter(|node| node["ignored"] != true);
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        nodes.map(|node| (text(&node["role"]), text(&node["name"]))).collect()
    }

    /// Prints the page as PDF into the folder of the screenshots and returns its bytes.
    pub fn print(&self, name: &str) -> Vec<u8> {
        let options = json!({ "printBackground": true, "paperWidth": 8.27, "paperHeight": 11.69 });
        let pdf = self.tab.call_method(Pdf(options)).unwrap();
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(pdf["data"].as_str().unwrap())
            .unwrap();
        std::fs::create_dir_all(&self.screenshots).unwrap();
        std::fs::write(self.screenshots.join(name), &bytes).unwrap();
        bytes
    }

    /// Emulates a CSS medium, such as `print`. An empty string restores the screen.
    pub fn emulate_media(&self, media: &str) {
        self.tab.call_method(EmulatedMedia(json!({ "media": media }))).unwrap();
    }

    /// Seconds of task time of the page's main thread, as reported by the browser.
    pub fn task_seconds(&self) -> f64 {
        self.tab.call_method(EnableMetrics(json!({}))).unwrap();
        let found = self.tab.call_method(Metrics(json!({}))).unwrap();
        let metrics = found["metrics"].as_array().unwrap();
        metrics.iter().find(|one| one["name"] == "TaskDuration").unwrap()["value"].as_f64().unwrap()
    }

    /// Left, top, width and height of an element in the window.
    pub fn bounds_of(&self, selector: &str) -> [f64; 4] {
        let script = format!(
            "(() => {{ const b = document.querySelector({selector:?}).getBoundingClientRect(); \
             return [b.left, b.top, b.width, b.height]; }})()"
        );
        serde_json::from_value(self.eval(&script)).unwrap()
    }

    /// Saves a screenshot of the visible part or of the whole page.
    pub fn screenshot(&self, name: &str, whole: bool) {
        self.capture(name, None, whole);
    }

    /// Saves a screenshot of one element.
    pub fn screenshot_of(&self, name: &str, element: &str) {
        let side = |of: &str| {
            self.number(&format!(
                "(() => {{ const b = {element}.getBoundingClientRect(); return {of}; }})()"
            ))
        };
        let area = ["b.left + scrollX", "b.top + scrollY", "b.width", "b.height"].map(side);
        if area[3] > 0.0 {
            self.screenshot_of_area(name, area);
        }
    }

    /// Saves a screenshot of an area of the page: left, top, width and height.
    pub fn screenshot_of_area(&self, name: &str, [x, y, width, height]: [f64; 4]) {
        let clip = Page::Viewport { x, y, width, height, scale: 1.0 };
        self.capture(name, Some(clip), true);
    }

    /// The ending of the name selects the format: `.webp`, otherwise PNG.
    fn capture(&self, name: &str, clip: Option<Page::Viewport>, beyond: bool) {
        std::fs::create_dir_all(&self.screenshots).unwrap();
        let (format, quality) = match name.ends_with(".webp") {
            true => (Page::CaptureScreenshotFormatOption::Webp, Some(WEBP_QUALITY)),
            false => (Page::CaptureScreenshotFormatOption::Png, None),
        };
        let image = self
            .tab
            .call_method(Page::CaptureScreenshot {
                format: Some(format),
                quality,
                clip,
                from_surface: Some(true),
                capture_beyond_viewport: Some(beyond),
                optimize_for_speed: None,
            })
            .unwrap();
        let bytes = base64::engine::general_purpose::STANDARD.decode(image.data).unwrap();
        std::fs::write(self.screenshots.join(name), bytes).unwrap();
    }
}

fn metrics(width: u32, height: u32) -> Emulation::SetDeviceMetricsOverride {
    Emulation::SetDeviceMetricsOverride {
        width,
        height,
        device_scale_factor: 1.0,
        mobile: false,
        scale: None,
        screen_width: None,
        screen_height: None,
        position_x: None,
        position_y: None,
        dont_set_visible_size: None,
        screen_orientation: None,
        viewport: None,
        display_feature: None,
        device_posture: None,
    }
}
