//! Progress bars on stderr.

use indicatif::{ProgressBar, ProgressStyle};

fn styled(total: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// A bar of `total` steps, each a `unit`. It prints nothing when stderr is not a terminal.
pub fn bar(total: u64, unit: &str) -> ProgressBar {
    styled(total, &format!("{{msg}} [{{bar:32}}] {{human_pos}}/{{human_len}} {unit} {{eta}}"))
}

/// A bar whose message contains the caller's own estimate of the time left.
pub fn estimated(total: u64, unit: &str) -> ProgressBar {
    styled(total, &format!("{{msg}} [{{bar:32}}] {{human_pos}}/{{human_len}} {unit}"))
}
