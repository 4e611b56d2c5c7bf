//! What the samples of a journal say about all allocations.

use crate::format;
use keel_journal::{Estimate, Estimates, Metadata, Totals};

/// The totals and the live blocks, as a table. The other tables of `keel info` are about rows, and
/// would say nothing about the program.
pub fn text(totals: &Totals, metadata: &Metadata, line: &mut impl FnMut(String)) {
    line(format!(
        "\nestimated from {} samples, one per {} allocated bytes; ± is one standard error",
        format::count(totals.samples),
        format::count(metadata.sample_bytes)
    ));
    let seconds = totals.duration_ns as f64 / 1e9;
    let mut row = |name: &str, estimates: Estimates, divisor: f64, unit: &str| {
        let part = |Estimate { value, variance }| Estimate {
            value: value / divisor,
            variance: variance / divisor / divisor,
        };
        let blocks = with_error(part(estimates.blocks), format::count);
        let bytes = with_error(part(estimates.bytes), format::bytes);
        line(format!("  {name:<24}{blocks:>24}{bytes:>24}{unit}"));
    };
    row("allocated in total", totals.allocated, 1.0, "");
    if seconds > 0.0 {
        row("  on average", totals.allocated, seconds, " per second");
    }
    row("live at the end", totals.live, 1.0, "");
    line(
        "\n  keel blame shows the call sites; keel export --to pprof writes them for pprof".into(),
    );
}

fn with_error(estimate: Estimate, unit: fn(u64) -> String) -> String {
    let share = estimate.standard_error() * 100.0 / estimate.value.max(1e-9);
    let value = unit(estimate.value.round() as u64);
    if estimate.value > 0.0 { format!("{value} ±{share:.1} %") } else { value }
}
