//! `keel allocators`: what can be compared.

use super::compare::places;
use crate::format;
use crate::layout::Layout;
use anyhow::Result;
use clap::Args;
use keel_allocators::{Allocator, Kind};
use serde_json::json;
use std::process::ExitCode;

/// List the allocators that `keel compare` knows, with their versions.
#[derive(Args)]
pub struct Arguments {
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand: each allocator is loaded once, in a process of its own, to be asked for its version.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let layout = Layout::discover()?;
    let player = layout.private("keel-player")?;
    let described: Vec<(Allocator, Result<String, String>)> = places(&layout)
        .all()
        .into_iter()
        .map(|allocator| {
            let version = allocator.describe(&player);
            (allocator, version)
        })
        .collect();
    if arguments.json {
        print_json(&described)?;
    } else {
        format::output(&table(&described))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_json(described: &[(Allocator, Result<String, String>)]) -> Result<()> {
    let list: Vec<_> = described
        .iter()
        .map(|(allocator, version)| {
            json!({
                "name": allocator.name,
                "kind": allocator.kind,
                "file": allocator.file,
                "available": version.is_ok(),
                "version": version.as_ref().ok(),
                "reason": version.as_ref().err(),
            })
        })
        .collect();
    format::output(&(serde_json::to_string_pretty(&list)? + "\n"))?;
    Ok(())
}

fn table(described: &[(Allocator, Result<String, String>)]) -> String {
    let mut text = String::new();
    let width = described.iter().map(|(allocator, _)| allocator.name.len()).max().unwrap_or(0);
    for (allocator, version) in described {
        let kind = match allocator.kind {
            Kind::Floor => "the floor",
            Kind::System => "the C library",
            Kind::Keel => "this project",
            Kind::Peer => "peer",
            Kind::Preload => "by LD_PRELOAD",
            Kind::Prefixed => "by name",
        };
        let told = match version {
            Ok(version) => version.clone(),
            Err(reason) => format!("not available: {reason}"),
        };
        text += &format!("{:<width$}  {kind:<13}  {told}\n", allocator.name);
    }
    for (name, kind, how) in [
        ("any .so", "by LD_PRELOAD", "its path, as in `keel compare FILE -a keel,./libfoo.so`"),
        (
            "any .so",
            "by name",
            "its path and prefix, as in `--allocator ./libfoo.so:symbols=foo_` (for foo_malloc ...)",
        ),
        ("any", "with settings", "as in `--allocator keel --allocator keel:KEEL_KEEPER=off`"),
    ] {
        text += &format!("{name:<width$}  {kind:<13}  {how}\n");
    }
    text
}
