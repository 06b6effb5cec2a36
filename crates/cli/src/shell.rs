// SPDX-License-Identifier: GPL-2.0-or-later
//! `wakelab completions` and `wakelab man`: the command line described for a shell and for man(1).

use anyhow::Result;
use clap::{Args, Command};
use clap_complete::Shell;

use crate::error::bad_input;
use crate::print;
use wakelab_ask::did_you_mean;

const NAME: &str = "wakelab";

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    source <(wakelab completions bash)\n  \
    wakelab completions fish > ~/.config/fish/completions/wakelab.fish")]
pub(crate) struct CompletionsArgs {
    /// Shell for which to print the script
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wakelab man | man -l -\n  \
    wakelab man compare > wakelab-compare.1")]
pub(crate) struct ManArgs {
    /// Command whose manual page to print [default: the page of wakelab itself]
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

/// Prints the completion script.
pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, NAME, &mut script);
    print::text(&String::from_utf8(script)?)
}

/// Prints the manual page in roff.
pub(crate) fn man(args: &ManArgs, mut command: Command) -> Result<()> {
    // Gives each subcommand its full name, `wakelab-compare`.
    command.build();
    let page = match &args.command {
        None => command,
        Some(name) => {
            let name = name.strip_prefix("wakelab-").unwrap_or(name);
            command.find_subcommand(name).cloned().ok_or_else(|| {
                let known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
                let meant = did_you_mean(name, known.iter().copied());
                bad_input(format!("no command '{name}'; expected one of {}{meant}", known.join(", ")))
            })?
        }
    };
    let mut roff = Vec::new();
    clap_mangen::Man::new(page).render(&mut roff)?;
    print::text(&String::from_utf8(roff)?)
}
