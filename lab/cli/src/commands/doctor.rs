//! `keel doctor`: what Keel can measure on this machine, and how to improve it.

mod facts;

use crate::layout::Layout;
use crate::output;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use facts::{Finding, Level, Player, System};
use serde_json::json;
use std::process::{Command, ExitCode, Stdio};

/// Check whether this machine measures reliably, and suggest improvements
///
/// The command measures the clock. It tests whether keel detects sleeps, signals, page faults and
/// system calls inside a call of an allocator. It checks what can disturb measurements: processors,
/// hypervisor, frequency, huge pages and limits. It changes no setting.
///
/// The exit code is 1 if measurements on this machine are not reliable.
#[derive(Args)]
pub struct Arguments {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand. Exit code 1 if results from this machine are not reliable.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let layout = Layout::discover()?;
    let player = self_test(&layout)?;
    let system = System::read();
    let findings = facts::findings(&keel_results::machine(), &system, &player);
    if arguments.json {
        let json = json!({
            "machine": keel_results::machine(),
            "player": player.facts,
            "findings": findings,
        });
        output::print_json(&json)?;
    } else {
        output::print_text(&text(&findings))?;
    }
    let broken = findings.iter().any(|finding| finding.level == Level::Bad);
    Ok(if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn self_test(layout: &Layout) -> Result<Player> {
    let player = layout.private("keel-player")?;
    let output = Command::new(&player)
        .arg("--self-test")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("the player {} cannot be started", player.display()))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("the player's self-test ended with {}: {}", output.status, message.trim());
    }
    Ok(Player::parse(&String::from_utf8_lossy(&output.stdout)))
}

fn text(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.what.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.level {
            Level::Good => "ok  ",
            Level::Fair => "note",
            Level::Bad => "BAD ",
        };
        text += &format!("{mark}  {:<width$}  {}\n", finding.what, finding.found);
        if let Some(advice) = &finding.advice {
            text += &format!("      {:<width$}  -> {advice}\n", "");
        }
    }
    text
}
