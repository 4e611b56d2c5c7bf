//! `keel --help`: the commands in groups, in the order of work. Commands that do not work on this
//! system are hidden; their names stand at the end.

use clap::builder::Styles;
use clap::{Command, CommandFactory};

const GROUPS: [(&str, &[&str]); 5] = [
    ("Record a program", &["record", "attach", "watch", "try", "check"]),
    ("Work with journals", &["import", "capture", "info", "slice", "blame", "export"]),
    ("Compare allocators", &["compare", "time", "report", "plot", "diff"]),
    ("Benchmarks and this machine", &["bench", "allocators", "doctor"]),
    ("This command", &["completions", "manual"]),
];

const TEMPLATE: &str = "\
{about-with-newline}
{usage-heading} {usage}{after-help}

Options:
{options}

`keel COMMAND --help` describes a command with its defaults, units and examples.
";

/// The command line of `Arguments`, with the grouped list of its subcommands in its help.
pub fn grouped<Arguments: CommandFactory>() -> Command {
    let command = Arguments::command();
    let header = *Styles::styled().get_header();
    let (mut list, mut elsewhere) = (String::new(), Vec::new());
    for (title, names) in GROUPS {
        let (shown, hidden): (Vec<&str>, Vec<&str>) = names.iter().copied().partition(|name| {
            command.find_subcommand(name).is_none_or(|command| !command.is_hide_set())
        });
        elsewhere.extend(hidden);
        if shown.is_empty() {
            continue;
        }
        list += &format!("{header}{title}:{header:#}\n");
        for name in shown {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            list +=
                &format!("  {name:<12}{}\n", about.map(ToString::to_string).unwrap_or_default());
        }
        list += "\n";
    }
    if !elsewhere.is_empty() {
        list += &format!("{header}Only on Linux:{header:#}\n  {}\n", elsewhere.join(", "));
    }
    command.after_help(list.trim_end().to_owned()).help_template(TEMPLATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    enum Elsewhere {
        #[command(hide = true)]
        Record,
        #[command(hide = true)]
        Bench,
        /// Reads
        Info,
    }

    #[test]
    fn hidden_commands_stand_at_the_end() {
        let text = grouped::<Elsewhere>().render_help().to_string();
        assert!(text.contains("\n  info        Reads\n"), "{text}");
        assert!(text.contains("Only on Linux:\n  record, bench\n"), "{text}");
        assert!(!text.contains("\n  record  "), "{text}");
    }
}
