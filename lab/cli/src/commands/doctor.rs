//! `keel doctor`: what this machine lets Keel measure, and how to let it measure better.

mod facts;

use crate::format;
use crate::layout::Layout;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use facts::{Finding, Level, Player, System};
use serde_json::json;
use std::process::{Command, ExitCode, Stdio};

/// Tell what this machine allows to be measured, and how to improve it.
///
/// Measures the clock, tries whether sleeps, signals, page faults and system calls inside a call are told, and looks at
/// what makes tails unsteady: processors, hypervisor, frequency, huge pages, limits. Changes nothing.
#[derive(Args)]
pub struct Arguments {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand. Exit code 1 if something without which no result can be trusted is missing.
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
        format::output(&(serde_json::to_string_pretty(&json)? + "\n"))?;
    } else {
        format::output(&text(&findings))?;
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
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("the player's self-test ended with {}: {}", output.status, said.trim());
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
