//! Rewrites clap's errors in this program's style: with hints, and with the environment variable
//! that a wrong value comes from.

use std::path::PathBuf;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Command};
use failure::{is_nearly, nearest};
use names::{Secret, TrackName};
use project::Project;
use terminal::output;

/// A command-line error, as it is printed.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// What is wrong, in clap's colours.
    message: String,
    /// What to do next.
    hints: Vec<String>,
    /// The usage, and where to find the help.
    rest: String,
}

impl Refusal {
    /// Rewrites an error. `words` are the arguments without the program's name. `command` must be
    /// built.
    pub(crate) fn new(error: &clap::Error, command: &Command, words: &[String]) -> Self {
        let rendered = error.render();
        let (text, ansi) = (rendered.to_string(), rendered.ansi().to_string());
        let paragraphs = text.split("\n\n").zip(ansi.split("\n\n"));
        // clap's own tips are printed as hints instead.
        let mut kept = paragraphs.filter(|(plain, _)| !plain.trim_start().starts_with("tip:"));
        let message = kept.next().map(|(_, styled)| styled.trim_end().to_owned());
        let mut message = message.unwrap_or_default();
        let line = Line::new(command, words);
        // clap's usage contains the option that it suggests.
        let is_risky =
            text_of(error, ContextKind::SuggestedArg).is_some_and(|name| !may_suggest(error, name));
        let usage = line.command.clone().render_usage().ansi().to_string();
        let safe = |(plain, styled): (&str, &str)| {
            if is_risky && plain.starts_with("Usage:") { usage.clone() } else { styled.to_owned() }
        };
        let typed = typed_usage(error, command, words).filter(|_| !is_risky);
        let rest = typed.unwrap_or_else(|| kept.map(safe).collect::<Vec<_>>().join("\n\n"));
        let mut hints = line.hints(error);
        // Our value parsers put the next step after a semicolon.
        if error.kind() == ErrorKind::ValueValidation
            && let Some((wrong, step)) = message.clone().split_once("; ")
        {
            message = wrong.to_owned();
            hints.push(step.to_owned());
        }
        if let Some(shown) = text_of(error, ContextKind::InvalidArg)
            && let Some(variable) = line.variable(shown)
        {
            message = message.replace(shown, &variable);
        }
        Self { message, hints, rest }
    }

    /// Prints the error. Its text quotes the arguments, so secrets are masked.
    pub(crate) fn print(&self, typed: &[Secret]) {
        // Mask each argument separately first: in the whole text, a quote inside a password would look
        // like its end.
        let masked = |text: &str| {
            typed
                .iter()
                .filter(|word| word.is_secret())
                .fold(text.to_owned(), |text, word| text.replace(word.expose(), &word.masked()))
        };
        output::say(&masked(&self.message));
        self.hints.iter().for_each(|one| output::hint(&masked(one)));
        if !self.rest.is_empty() {
            output::say(&format!("\n{}", masked(self.rest.trim_end())));
        }
    }
}

/// Options that weaken a check, or that write where nothing is written otherwise.
const RISKY: [&str; 7] = [
    "--force",
    "--accept-broken-patches",
    "--accept-moved",
    "--allow-downgrade",
    "--no-probes",
    "--unconfined-probes",
    "--write",
];

/// Returns whether a name may be suggested. A risky option is suggested only for one that is almost
/// equal.
fn may_suggest(error: &clap::Error, name: &str) -> bool {
    let typed = text_of(error, ContextKind::InvalidArg).unwrap_or_default();
    !RISKY.contains(&name) || is_nearly(typed, name)
}

/// Returns the usage, and where to find the help, for an error that does not depend on environment
/// variables. clap's usage also contains the options that variables set.
fn typed_usage(error: &clap::Error, command: &Command, words: &[String]) -> Option<String> {
    fn without_variables(command: Command) -> Command {
        command.mut_args(|arg| arg.env(Resettable::Reset)).mut_subcommands(without_variables)
    }
    let all = [command.get_name()].into_iter().chain(words.iter().map(String::as_str));
    let other = without_variables(command.clone()).try_get_matches_from(all).err()?;
    let text = other.render().ansi().to_string();
    let usage = |one: &str| one.find("Usage:").map(|at| one[..at].matches("\n\n").count());
    let skipped = usage(&other.render().to_string()).filter(|_| other.kind() == error.kind())?;
    Some(text.split("\n\n").skip(skipped).collect::<Vec<_>>().join("\n\n"))
}

fn text_of(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        // clap lists the most similar one last.
        Some(ContextValue::Strings(texts)) => texts.last().map(String::as_str),
        _ => None,
    }
}

/// Returns a hint with one of the possible values of the argument, if it has such values.
fn example(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::Strings(values)) = error.get(ContextKind::ValidValue) else {
        return None;
    };
    let (shown, value) = (text_of(error, ContextKind::InvalidArg)?, values.first()?);
    let option = shown.split([' ', '=', '[']).next().filter(|name| name.starts_with('-'));
    let example = option.map_or_else(|| value.clone(), |option| format!("{option} {value}"));
    Some(format!("use one of the possible values, for example `{example}`"))
}

/// The command that builds a track.
const BUILD: &str = "build-pipeline build ";

/// A command line with an error.
struct Line<'a> {
    /// Its arguments.
    words: &'a [String],
    /// The part that clap can parse.
    matches: Option<ArgMatches>,
    /// The subcommand that it names.
    command: &'a Command,
}

impl<'a> Line<'a> {
    fn new(root: &'a Command, words: &'a [String]) -> Self {
        let all = [root.get_name()].into_iter().chain(words.iter().map(String::as_str));
        let matches = root.clone().ignore_errors(true).try_get_matches_from(all).ok();
        let (mut command, mut below) = (root, matches.as_ref());
        while let Some((name, next)) = below.and_then(ArgMatches::subcommand)
            && let Some(found) = command.find_subcommand(name)
        {
            (command, below) = (found, Some(next));
        }
        // The part that clap can parse ends before the subcommand whose arguments are wrong.
        let last = words.iter().find_map(|word| command.find_subcommand(word));
        let command = last.filter(|_| command.get_name() != root.get_name()).unwrap_or(command);
        Self { words, matches, command }
    }

    /// Returns the variable that gave an argument its value, unless the user typed the argument.
    /// `shown` is clap's name for the argument, such as `--color <COLOR>`.
    fn variable(&self, shown: &str) -> Option<String> {
        let long = shown.split([' ', '=', '[']).next()?;
        let is_shown =
            |arg: &&Arg| arg.get_long().is_some() && arg.get_long() == long.strip_prefix("--");
        let arg = self.command.get_arguments().find(is_shown)?;
        let short = arg.get_short().map(|short| format!("-{short}"));
        let is_typed = |word: &String| {
            word.split('=').next() == Some(long)
                || short.as_ref().is_some_and(|short| word.starts_with(short))
        };
        let variable = arg.get_env().filter(|_| !self.words.iter().any(is_typed))?;
        Some(variable.to_string_lossy().into_owned())
    }

    /// Returns hints: what the user probably meant, or what is missing.
    fn hints(&self, error: &clap::Error) -> Vec<String> {
        let meant = self.meant(error);
        // A word that is only similar to the name of a track may be a wrong command. A letter is a
        // track.
        let typed = text_of(error, ContextKind::InvalidSubcommand).unwrap_or_default();
        let is_guess = |one: &String| {
            one.contains(BUILD) && typed.len() > 1 && !one.contains(&format!("{BUILD}{typed}`"))
        };
        match error.kind() {
            ErrorKind::MissingRequiredArgument => self.missing(error),
            ErrorKind::InvalidSubcommand if meant.iter().all(is_guess) => {
                let all = self.command.get_subcommands().map(Command::get_name);
                let all: Vec<String> = all.map(|name| format!("`{name}`")).collect();
                let all =
                    format!("the commands of `{}` are {}", self.command.get_name(), all.join(", "));
                meant.into_iter().chain([all]).collect()
            }
            ErrorKind::InvalidValue if meant.is_empty() => example(error).into_iter().collect(),
            _ => meant,
        }
    }

    /// Returns the help of the missing arguments.
    fn missing(&self, error: &clap::Error) -> Vec<String> {
        let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else {
            return Vec::new();
        };
        let help = |shown: &String| {
            let is_shown = |arg: &&Arg| match arg.get_long() {
                Some(long) => shown.split(' ').next() == Some(&format!("--{long}")),
                None => {
                    let mut names = arg.get_value_names().into_iter().flatten();
                    names.any(|name| shown.starts_with(&format!("<{name}>")))
                }
            };
            let arg = self.command.get_arguments().find(is_shown)?;
            Some(format!("`{shown}`: {}", arg.get_help()?))
        };
        missing.iter().filter_map(help).collect()
    }

    fn meant(&self, error: &clap::Error) -> Vec<String> {
        let kinds = [
            ContextKind::SuggestedSubcommand,
            ContextKind::SuggestedArg,
            ContextKind::SuggestedValue,
        ];
        let meant = kinds.iter().find_map(|kind| text_of(error, *kind));
        let meant = meant.filter(|name| may_suggest(error, name)).map(str::to_owned);
        let elsewhere = || match error.get(ContextKind::Suggested) {
            // An option of another command: `'plan --format' exists`.
            Some(ContextValue::StyledStrs(texts)) => texts.iter().find_map(|text| {
                let text = text.to_string();
                Some(text.strip_prefix('\'')?.strip_suffix("' exists")?.to_owned())
            }),
            _ => None,
        };
        let track = self.track_to_build(error, meant.is_some());
        let meant = track.or(meant).or_else(elsewhere);
        meant.into_iter().map(|name| format!("did you mean `{name}`?")).collect()
    }

    /// Returns the command that builds a track whose name was written instead of a command. If the
    /// word is similar to a command, the track must have exactly this name.
    fn track_to_build(&self, error: &clap::Error, is_like_command: bool) -> Option<String> {
        let matches = self.matches.as_ref()?;
        if error.kind() != ErrorKind::InvalidSubcommand || matches.subcommand_name().is_some() {
            return None;
        }
        let name = text_of(error, ContextKind::InvalidSubcommand)?;
        let folder = matches.try_get_one::<PathBuf>("directory").ok().flatten();
        let folder = std::env::current_dir().ok()?.join(folder.cloned().unwrap_or_default());
        let tracks = Project::find_or_built_in(&folder).tracks().ok()?;
        let known = tracks.tracks.keys().map(TrackName::as_str);
        let track = match tracks.find(name) {
            Some(track) => track.as_str(),
            None => nearest(name, known).filter(|_| !is_like_command)?,
        };
        Some(format!("{BUILD}{track}"))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    /// Returns the hints for arguments that are wrong, and the text after them.
    fn refused(words: &[&str]) -> (Vec<String>, String) {
        let mut command = Cli::command();
        command.build();
        let all = ["build-pipeline"].iter().chain(words);
        let error = command.try_get_matches_from_mut(all).unwrap_err();
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let refusal = Refusal::new(&error, &command, &words);
        (refusal.hints, refusal.rest)
    }

    #[test]
    fn an_option_that_weakens_a_check_is_suggested_only_for_a_slip() {
        let force = "did you mean `--force`?";
        let (told, rest) = refused(&["run", "official", "--format", "json"]);
        assert!(!told.iter().any(|one| one == force), "{told:?}");
        assert!(rest.contains("build-pipeline run") && !rest.contains("--force"), "{rest}");
        assert_eq!(refused(&["run", "official", "--forec"]).0, [force]);
        assert_eq!(refused(&["records", "--fromat", "json"]).0, ["did you mean `--format`?"]);
        for wrong in ["--wide", "--probes", "--rewrite", "--accept", "--confined-probes"] {
            for command in [["patch", "apply"], ["patch", "revert"], ["lock", "x"], ["bump", "x"]] {
                let (hints, after) = refused(&[command[0], command[1], wrong]);
                let is_risky = |one: &String| RISKY.iter().any(|risky| one.contains(risky));
                assert!(!hints.iter().any(is_risky), "{command:?} {wrong}: {hints:?}");
                assert!(!is_risky(&after), "{command:?} {wrong}: {after}");
            }
        }
    }

    #[test]
    fn a_wrong_number_is_refused_in_plain_words() {
        let mut command = Cli::command();
        command.build();
        for line in [
            "records --limit",
            "records prune --keep",
            "records prune --older-than",
            "doctor --model x --context",
            "step clean --store dir:x --unused-for",
            "build --lock-timeout",
            "build --store-verify",
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            for value in ["x", "1.5", "99999999999999999999999", ""] {
                let all = ["build-pipeline"].into_iter().chain(words.clone()).chain([value]);
                let error = command.try_get_matches_from_mut(all).unwrap_err();
                let told = error.to_string();
                for odd in ["digit", "non-zero", "in 1..", "too large to fit", "empty string"] {
                    assert!(!told.contains(odd), "{line} {value}: {told}");
                }
                assert_eq!(error.kind(), ErrorKind::ValueValidation, "{line} {value}: {told}");
            }
        }
        for line in [["records", "--limit", "0"], ["doctor", "--context", "0"]] {
            let all = ["build-pipeline"].into_iter().chain(line);
            let told = command.try_get_matches_from_mut(all).unwrap_err().to_string();
            assert!(told.contains("not a whole number above 0"), "{told}");
        }
    }
}
