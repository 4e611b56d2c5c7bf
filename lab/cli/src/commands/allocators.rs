//! `keel allocators`: the allocators that can be compared.

use crate::layout::Layout;
use crate::{output, selection};
use anyhow::Result;
use clap::Args;
use keel_allocators::{Allocator, Kind};
use serde_json::json;
use std::process::ExitCode;

/// List the allocators that the other commands know, with their versions
///
/// The command loads each allocator in its own process to read its version. The last lines of the
/// output show how to specify an allocator that is not in the list.
#[derive(Args)]
pub struct Arguments {
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let layout = Layout::discover()?;
    let player = layout.private("keel-player")?;
    let described: Vec<(Allocator, Result<String, String>)> = selection::places(&layout)
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
        output::print_text(&table(&described))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_json(described: &[(Allocator, Result<String, String>)]) -> Result<()> {
    let list: Vec<_> = described
        .iter()
        .map(|(allocator, version)| {
            json!({
                "name": allocator.name,
                "remark": allocator.remark,
                "environment": allocator.environment,
                "kind": allocator.kind,
                "file": allocator.file,
                "available": version.is_ok(),
                "version": version.as_ref().ok(),
                "reason": version.as_ref().err(),
            })
        })
        .collect();
    output::print_json(&list)?;
    Ok(())
}

fn table(described: &[(Allocator, Result<String, String>)]) -> String {
    let mut text = String::new();
    let width = described.iter().map(|(allocator, _)| allocator.name.len()).max().unwrap_or(0);
    for (allocator, version) in described {
        let kind = match allocator.kind {
            Kind::Floor => "null",
            Kind::System => "the C library",
            Kind::Keel => "this project",
            Kind::Peer => "peer",
            Kind::Preload => "by LD_PRELOAD",
            Kind::Prefixed => "by name",
        };
        let mut version = match version {
            Ok(version) => version.clone(),
            Err(reason) => format!("not available: {reason}"),
        };
        if !allocator.remark.is_empty() {
            version += &format!(" ({})", allocator.remark);
        }
        text += &format!("{:<width$}  {kind:<13}  {version}\n", allocator.name);
    }
    for (name, kind, how) in [
        ("any .so", "by LD_PRELOAD", "give its path: `keel compare FILE -a keel,./libfoo.so`"),
        (
            "any .so",
            "by name",
            "give its path and prefix: `--allocator ./libfoo.so:symbols=foo_` (for foo_malloc ...)",
        ),
        (
            "any",
            "with settings",
            "give variables: `--allocator keel --allocator keel:KEEL_KEEPER=off`",
        ),
    ] {
        text += &format!("{name:<width$}  {kind:<13}  {how}\n");
    }
    text
}
