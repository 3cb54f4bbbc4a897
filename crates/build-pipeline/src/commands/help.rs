//! `build-pipeline help`: prints the help of commands, and of topics that do not belong to one
//! command.

use clap::CommandFactory as _;
use failure::{Failure, Kind};
use project::environment;

use crate::cli::Cli;
use terminal::output;

const TOPICS: [&str; 2] = ["exit-codes", "environment"];

/// Prints the help of a command or topic.
pub(crate) fn run(topic: Option<&str>) -> Result<(), Failure> {
    let mut cli = Cli::command();
    match topic {
        None => output::result(&cli.render_long_help().ansi().to_string()),
        Some("exit-codes") => {
            let lines =
                terminal::exit_code::TABLE.map(|(code, meaning)| format!("{code:>4}  {meaning}\n"));
            output::result(&lines.concat())
        }
        Some("environment") => {
            let lines =
                environment::TABLE.map(|(name, meaning)| format!("{name}\n    {meaning}\n"));
            output::result(&lines.concat())
        }
        Some(name) => {
            cli.build();
            if let Some(command) = cli.find_subcommand_mut(name) {
                return output::result(&command.render_long_help().ansi().to_string());
            }
            let names: Vec<&str> =
                cli.get_subcommands().map(clap::Command::get_name).chain(TOPICS).collect();
            let told = Failure::new(Kind::Input, format!("there is no command or topic `{name}`"));
            let otherwise = format!("the commands and topics are {}", names.join(", "));
            Err(told.did_you_mean(name, names.iter().copied(), otherwise))
        }
    }
}
