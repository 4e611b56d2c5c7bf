//! The forms of the result that are text.

use super::findings::{Finding, Findings, Part};
use keel_check::Outcome;
use std::fmt::Write as _;

/// Call sites of zones that the text shows.
const PARTS: usize = 5;

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Kept => "kept",
        Outcome::Broken => "BROKEN",
        Outcome::Unknown(_) => "CANNOT CHECK",
    }
}

/// For people: what is broken comes last, where the terminal shows it.
pub fn text(findings: &Findings) -> String {
    let mut text = String::new();
    for note in &findings.checked.notes {
        let _ = writeln!(text, "note: {note}");
    }
    for (suppression, calls) in findings.checked.suppressed.iter().filter(|(_, calls)| *calls > 0) {
        let (symbol, reason) = (&suppression.symbol.0, &suppression.reason.0);
        let _ = writeln!(text, "accepted: {calls} calls in {symbol}: {reason}");
    }
    let failed = findings.all.iter().filter(|finding| finding.outcome != Outcome::Kept);
    for finding in failed {
        let _ = writeln!(text, "{}  {}", word(&finding.outcome), sentence(finding));
        for part in finding.parts.iter().take(PARTS) {
            let _ = writeln!(text, "    {}", part.message);
            for (index, call) in part.calls.iter().enumerate() {
                let _ = writeln!(text, "        {}{call}", if index == 0 { "" } else { "< " });
            }
            if let Some(cost) = &part.cost {
                let _ = writeln!(text, "        {cost}");
            }
        }
        let more = finding.left_out + finding.parts.len().saturating_sub(PARTS);
        if more > 0 {
            let _ = writeln!(text, "    {more} more call sites: --format json lists all");
        }
    }
    let _ = writeln!(text, "keel check: {}", findings.summary());
    text
}

fn sentence(finding: &Finding) -> String {
    format!("{}: {}", finding.name, finding.message)
}

/// A table, and the call sites of what is broken.
pub fn markdown(findings: &Findings) -> String {
    let cell = |text: &str| text.replace('\\', "\\\\").replace('|', "\\|").replace('\n', " ");
    let mut text = format!("### keel check: {}\n\n", cell(&findings.summary()));
    text += "| result | limit or zone | |\n| --- | --- | --- |\n";
    for finding in &findings.all {
        let (name, message) = (cell(&finding.name), cell(&finding.message));
        let _ = writeln!(text, "| {} | {name} | {message} |", word(&finding.outcome));
    }
    for finding in findings.all.iter().filter(|finding| !finding.parts.is_empty()) {
        let _ = write!(text, "\n**{}**\n\n```\n", finding.name);
        for part in finding.parts.iter().take(PARTS) {
            let _ = writeln!(text, "{}\n    {}", part.message, part.calls.join("\n    < "));
            if let Some(cost) = &part.cost {
                let _ = writeln!(text, "    {cost}");
            }
        }
        text += "```\n";
    }
    text
}

/// Annotations of GitHub Actions: one for each call site.
pub fn github(findings: &Findings) -> String {
    let message = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |text: &str| message(text).replace(':', "%3A").replace(',', "%2C");
    let mut text = String::new();
    for finding in findings.all.iter().filter(|finding| finding.outcome != Outcome::Kept) {
        let title = property(&format!("keel check: {}", finding.name));
        let line = |text: &mut String, place: &str, body: &str| {
            let _ = writeln!(text, "::error {place}title={title}::{}", message(body));
        };
        if finding.parts.is_empty() {
            line(&mut text, "", &finding.message);
        }
        for part in &finding.parts {
            let place = part.place.as_ref().map_or_else(String::new, |(file, line)| {
                format!("file={},line={line},", property(file))
            });
            line(&mut text, &place, &described(finding, part));
        }
    }
    if let Some(failure) = &findings.failure {
        let _ = writeln!(
            text,
            "::error title=keel check::{}",
            message(&format!("the program failed: {failure}"))
        );
    }
    let _ = writeln!(text, "::notice title=keel check::{}", message(&findings.summary()));
    text
}

/// A call site in several lines.
pub fn described(finding: &Finding, part: &Part) -> String {
    let what = if part.in_zone { String::new() } else { format!("{}\n", finding.message) };
    let cost = part.cost.as_ref().map_or_else(String::new, |cost| format!("\n{cost}"));
    format!("{what}{}\n{}{cost}", part.message, part.calls.join("\n< "))
}

/// A test case for each limit and each zone.
pub fn junit(findings: &Findings) -> String {
    let [_, broken, unknown] = findings.counts();
    let failed = usize::from(findings.failure.is_some());
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite \
         name=\"keel check\" tests=\"{}\" failures=\"{broken}\" errors=\"{}\">\n",
        findings.all.len() + failed,
        unknown + failed
    );
    let mut case = |name: &str, kind: Option<(&str, &str)>, body: &str| {
        let _ = write!(text, "    <testcase classname=\"keel check\" name=\"{}\"", escaped(name));
        let _ = match kind {
            None => writeln!(text, "/>"),
            Some((kind, message)) => writeln!(
                text,
                ">\n      <{kind} message=\"{}\">{}</{kind}>\n    </testcase>",
                escaped(message),
                escaped(body)
            ),
        };
    };
    for finding in &findings.all {
        let parts = finding.parts.iter().map(|part| described(finding, part));
        let body = parts.collect::<Vec<_>>().join("\n\n");
        match &finding.outcome {
            Outcome::Kept => case(&finding.name, None, ""),
            Outcome::Broken => case(&finding.name, Some(("failure", &finding.message)), &body),
            Outcome::Unknown(reason) => case(&finding.name, Some(("error", reason)), &body),
        }
    }
    if let Some(failure) = &findings.failure {
        case("the program", Some(("error", failure)), "");
    }
    text + "  </testsuite>\n</testsuites>\n"
}

/// As text or an attribute of XML, which cannot hold most control characters.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\n' => escaped += "&#10;",
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}
