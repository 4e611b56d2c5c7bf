//! `keel --help`: the commands in groups, in the order of work.

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
    let mut list = String::new();
    for (title, names) in GROUPS {
        list += &format!("{header}{title}:{header:#}\n");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            list +=
                &format!("  {name:<12}{}\n", about.map(ToString::to_string).unwrap_or_default());
        }
        list += "\n";
    }
    command.after_help(list.trim_end().to_owned()).help_template(TEMPLATE)
}
