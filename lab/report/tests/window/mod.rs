//! A real browser to look at the page with.
#![allow(dead_code, reason = "each user needs a part of it")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test may panic, and a skipped one must say so"
)]

use base64::Engine as _;
use headless_chrome::browser::tab::Tab;
use headless_chrome::protocol::cdp::{Emulation, Page};
use headless_chrome::{Browser, LaunchOptions};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Installed before any script of the page: everything that a console would show as an error.
const WATCH_ERRORS: &str = "window.problems = [];\
    addEventListener('error', (e) => problems.push(String(e.message)));\
    addEventListener('unhandledrejection', (e) => problems.push(String(e.reason && e.reason.stack || e.reason)));\
    for (const level of ['error', 'warn']) {\
      const plain = console[level];\
      console[level] = (...words) => { problems.push(words.join(' ')); plain.apply(console, words); };\
    }";

/// Where the tests leave pictures to look at.
pub fn screenshots() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/screenshots")
}

/// A browser with one tab, both gone when it is dropped.
pub struct Window {
    // Dropping the browser ends it, so it must outlive the tab.
    _browser: Browser,
    _profile: tempfile::TempDir,
    pub tab: Arc<Tab>,
    screenshots: PathBuf,
}

fn chromium() -> Option<PathBuf> {
    let known = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    let found = known.iter().map(PathBuf::from).find(|path| path.exists());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "CI must have a browser: install chromium");
        eprintln!("SKIPPED: no Chromium found; `apt install chromium` runs this test");
    }
    found
}

impl Window {
    /// A window of this size, whose screenshots go to a folder; None, loudly, where there is no Chromium.
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
        Some(Window { _browser: browser, _profile: profile, tab, screenshots: screenshots.to_path_buf() })
    }

    pub fn show(&self, page: &Path) -> Duration {
        self.show_at(page, "")
    }

    /// With what follows the file's name in the address: `?webgl`, `#2`.
    pub fn show_at(&self, page: &Path, suffix: &str) -> Duration {
        let begin = Instant::now();
        self.tab.navigate_to(&format!("file://{}{suffix}", page.display())).unwrap();
        self.until("document.documentElement?.dataset.ready === 'true'");
        begin.elapsed()
    }

    /// The value of a JavaScript expression.
    pub fn eval(&self, expression: &str) -> Value {
        let wrapped = format!("(async () => JSON.stringify(await ({expression})))()");
        let value = self.tab.evaluate(&wrapped, true).unwrap().value.unwrap_or(Value::Null);
        serde_json::from_str(value.as_str().unwrap_or("null")).unwrap()
    }

    pub fn number(&self, expression: &str) -> f64 {
        self.eval(expression).as_f64().unwrap_or_else(|| panic!("no number: {expression}"))
    }

    pub fn until(&self, condition: &str) {
        let begin = Instant::now();
        while self.eval(condition) != Value::Bool(true) {
            let problems = self.eval("window.problems");
            assert!(begin.elapsed() < Duration::from_secs(60), "never: {condition}; problems: {problems}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Two frames later everything that a click asked for is drawn, as long as it is decoded.
    pub fn settle(&self) {
        let frames = "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 150)))";
        self.eval(&format!("new Promise((done) => {frames})"));
    }

    pub fn no_problems(&self) {
        assert_eq!(self.eval("window.problems"), serde_json::json!([]));
    }

    /// The visible part, or the whole page.
    pub fn screenshot(&self, name: &str, whole: bool) {
        self.capture(name, None, whole);
    }

    /// One element, wherever it is on the page.
    pub fn screenshot_of(&self, name: &str, element: &str) {
        let side = |of: &str| {
            self.number(&format!("(() => {{ const b = {element}.getBoundingClientRect(); return {of}; }})()"))
        };
        let clip = Page::Viewport {
            x: side("b.left + scrollX"),
            y: side("b.top + scrollY"),
            width: side("b.width"),
            height: side("b.height"),
            scale: 1.0,
        };
        if clip.height > 0.0 {
            self.capture(name, Some(clip), true);
        }
    }

    fn capture(&self, name: &str, clip: Option<Page::Viewport>, beyond: bool) {
        std::fs::create_dir_all(&self.screenshots).unwrap();
        let image = self
            .tab
            .call_method(Page::CaptureScreenshot {
                format: Some(Page::CaptureScreenshotFormatOption::Png),
                quality: None,
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
