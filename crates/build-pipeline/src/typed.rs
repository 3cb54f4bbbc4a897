//! The command line as the program understood it, for records and locks, without secrets.
//!
//! Start at [`words`]. The words come from clap's parsed matches, never from argv. Options have
//! their long names. Values come from the command line and the environment; default values are left
//! out. Pasted into a shell, the words run the same command once every `***` is filled in.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use failure::{Failure, Kind, Message};
use names::Secret;

use crate::cli::FromVariable;

/// Options and arguments that name an image, or a place to fetch from or push to.
const PLACES: [&str; 14] = [
    "mirror",
    "outputs",
    "push",
    "set",
    "url",
    "image",
    "target",
    "targets",
    "left",
    "right",
    "input",
    "to",
    "mirror_to",
    "stores",
];

/// Returns the words of the command, with `***` in place of every secret. Without `-C`: a record
/// also contains the folder in which the command ran.
pub(crate) fn words(command: &Command, matches: &ArgMatches) -> Vec<String> {
    let mut all = vec![command.get_name().to_owned()];
    let (mut command, mut matches) = (command, matches);
    let globals = command.get_arguments().filter(|one| one.is_global_set());
    let globals = globals.filter(|one| one.get_id() != "directory");
    globals.for_each(|one| all.extend(words_of(one, matches)));
    loop {
        let own = || command.get_arguments().filter(|one| !one.is_global_set());
        let (options, positionals): (Vec<_>, Vec<_>) = own().partition(|one| !one.is_positional());
        options.into_iter().for_each(|one| all.extend(words_of(one, matches)));
        all.extend(positional_words(&positionals, matches));
        let Some((name, below)) = matches.subcommand() else { return all };
        let Some(found) = command.find_subcommand(name) else { return all };
        all.push(name.to_owned());
        (command, matches) = (found, below);
    }
}

/// Refuses a command line in which the name of an image or a place contains a password or token, or
/// in which a build option precedes the command.
///
/// Must be called before values are split: a password may contain any separator, and a part of a
/// password cannot be recognised as one.
pub(crate) fn check(command: &Command, matches: &ArgMatches) -> Result<(), Failure> {
    check_order(command, matches)?;
    let (mut command, mut matches) = (command, matches);
    loop {
        for one in command.get_arguments().filter(|one| PLACES.contains(&one.get_id().as_str())) {
            let named = if is_from(one, matches, ValueSource::EnvVariable) {
                one.get_env().map(|variable| format!("{}=", variable.to_string_lossy()))
            } else {
                one.get_long().map(|long| format!("--{long} "))
            };
            let named = named.unwrap_or_default();
            values(one, matches).iter().try_for_each(|value| check_one(one, &named, value))?;
        }
        let Some((name, below)) = matches.subcommand() else { return Ok(()) };
        let Some(found) = command.find_subcommand(name) else { return Ok(()) };
        (command, matches) = (found, below);
    }
}

/// Refuses a build option before a command, because the command would ignore it.
fn check_order(command: &Command, matches: &ArgMatches) -> Result<(), Failure> {
    let Some((name, _)) = matches.subcommand() else { return Ok(()) };
    let is_typed =
        |arg: &&Arg| !arg.is_global_set() && is_from(arg, matches, ValueSource::CommandLine);
    match command.get_arguments().filter(is_typed).find_map(Arg::get_long) {
        None => Ok(()),
        Some(long) => {
            let what = format!("`--{long}` is not allowed before the command");
            Err(Failure::new(Kind::Input, what)
                .hint(format!("write it after the command: `build-pipeline {name} --{long} …`")))
        }
    }
}

/// Returns whether the value of an argument comes from `source`.
fn is_from(arg: &Arg, matches: &ArgMatches, source: ValueSource) -> bool {
    matches.value_source(arg.get_id().as_str()) == Some(source)
}

/// Checks a value. `named` is the text that names its argument in a message, such as `--push `.
fn check_one(arg: &Arg, named: &str, value: &Secret) -> Result<(), Failure> {
    let is_mirror = arg.get_id() == "mirror";
    // A comma in a password split the value here.
    let is_rest = is_mirror && value.expose().contains('@') && !value.expose().contains('=');
    if !value.is_secret() && !is_rest {
        return Ok(());
    }
    let shown = if is_rest { "***".to_owned() } else { value.to_string() };
    let what = format!("`{named}{shown}` contains a user name, a password or a token");
    let refused = Failure::new(Kind::Input, what);
    let is_url = is_mirror || arg.get_id() == "url";
    let refused = if is_url { refused.hint(SOURCE_HINT) } else { refused };
    let refused = refused.hint(LOGIN_HINT);
    // `HOST:PORT/NAME:TAG@WORD` has the form of a user name and a password before a host.
    let is_name = !is_url && value.expose().contains('/') && !value.expose().contains("://");
    Err(if is_name && value.expose().contains('@') { refused.hint(DIGEST_HINT) } else { refused })
}

/// The hint for a name whose digest is wrong.
const DIGEST_HINT: &str = "if it contains none of them, the part after `@` is wrong: write a digest, `@sha256:…`, or leave it out";
/// The hint for registry credentials.
const LOGIN_HINT: &str = "leave the credentials out, and log in with `podman login HOST` or `docker login HOST`; the tool then uses that login";
/// The hint for git repositories and package indexes.
const SOURCE_HINT: &str =
    "repositories and package indexes are read without credentials; use a mirror that needs none";

/// Returns the values that come from environment variables.
pub(crate) fn from_variables(command: &Command, matches: &ArgMatches) -> Vec<FromVariable> {
    let (mut command, mut matches) = (command, matches);
    let mut all = Vec::new();
    loop {
        let is_variable = |arg: &&Arg| is_from(arg, matches, ValueSource::EnvVariable);
        for arg in command.get_arguments().filter(is_variable) {
            let variable = arg.get_env().unwrap_or_default().to_string_lossy();
            let long = arg.get_long().map(|long| format!("--{long}"));
            let short = arg.get_short().map(|short| format!("-{short}"));
            let options: Vec<String> = long.into_iter().chain(short).collect();
            all.extend(values(arg, matches).iter().map(|value| FromVariable {
                options: options.iter().map(|option| format!("`{option} {value}`")).collect(),
                variable: format!("`{variable}={value}`"),
            }));
        }
        let Some((name, below)) = matches.subcommand() else { return all };
        let Some(found) = command.find_subcommand(name) else { return all };
        (command, matches) = (found, below);
    }
}

/// Replaces options in an error message with the environment variables that their values come from.
pub(crate) fn name_variables(mut failure: Failure, variables: &[FromVariable]) -> Failure {
    if let Message::Line(line) = &mut failure.message {
        for FromVariable { options, variable } in variables {
            options.iter().for_each(|option| *line = line.replace(option, variable));
        }
    }
    failure
}

/// Returns the values of an argument from the command line or a variable.
fn values(arg: &Arg, matches: &ArgMatches) -> Vec<Secret> {
    let id = arg.get_id().as_str();
    let source = matches.value_source(id);
    if !matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable)) {
        return Vec::new();
    }
    let raw = matches.get_raw(id).into_iter().flatten();
    raw.map(|value| Secret::new(value.to_string_lossy())).collect()
}

fn words_of(arg: &Arg, matches: &ArgMatches) -> Vec<String> {
    let Some(long) = arg.get_long() else { return Vec::new() };
    let given = values(arg, matches);
    match arg.get_action() {
        ArgAction::Set | ArgAction::Append => {
            given.iter().flat_map(|value| option(arg, long, value)).collect()
        }
        ArgAction::SetTrue if !given.is_empty() && matches.get_flag(arg.get_id().as_str()) => {
            vec![format!("--{long}")]
        }
        ArgAction::Count if !given.is_empty() => {
            let count = matches.get_count(arg.get_id().as_str());
            (0..count).map(|_| format!("--{long}")).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the words of an option with its value. Some options accept their value only after `=`,
/// and may have none; a value that looks like an option needs the `=`, too.
fn option(arg: &Arg, long: &str, value: &Secret) -> Vec<String> {
    if arg.is_require_equals_set() && value.expose().is_empty() {
        return vec![format!("--{long}")];
    }
    let whole = Secret::new(format!("--{long}={}", value.expose()));
    let shown = value.to_string();
    // The option's own name may mark the whole value as secret.
    let is_named = whole.to_string() == format!("--{long}=***");
    let needs_equals = arg.is_require_equals_set() || value.expose().starts_with('-');
    match (is_named, needs_equals) {
        (true, _) => vec![whole.to_string()],
        (false, true) => vec![format!("--{long}={shown}")],
        (false, false) => vec![format!("--{long}"), shown],
    }
}

/// Returns the positional arguments. `--` precedes those that clap accepts only after it; if there
/// are none, it precedes all if one looks like an option.
fn positional_words(args: &[&Arg], matches: &ArgMatches) -> Vec<String> {
    let of = |is_last: bool| -> Vec<String> {
        let args = args.iter().filter(|arg| arg.is_last_set() == is_last);
        args.flat_map(|arg| values(arg, matches)).map(|value| value.to_string()).collect()
    };
    let (first, last) = (of(false), of(true));
    let dashes = vec!["--".to_owned()];
    let looks_like_option = first.iter().any(|word| word.starts_with('-'));
    match (last.is_empty(), looks_like_option) {
        (true, false) => first,
        (true, true) => [dashes, first].concat(),
        (false, _) => [first, dashes, last].concat(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use text::shell_line;

    use super::*;
    use crate::cli::Cli;

    /// Returns the command line for some arguments, including the program's name.
    fn typed(arguments: &[&str]) -> String {
        let mut command = Cli::command();
        let all = ["build-pipeline"].iter().chain(arguments);
        let matches = command.try_get_matches_from_mut(all).unwrap();
        shell_line(&words(&command, &matches))
    }

    #[test]
    fn the_words_are_those_that_were_understood() {
        for (arguments, wanted) in [
            (vec![], "build-pipeline"),
            (vec!["-t", "ollama", "-vv"], "build-pipeline --verbose --verbose --track ollama"),
            (
                vec!["build", "--track=ollama,official", "--rehearse", "-C", "a b"],
                "build-pipeline build --track ollama --track official --rehearse",
            ),
            (
                vec!["build", "-t", "ollama", "--rehearse", "official", "D"],
                "build-pipeline build --track ollama --rehearse official D",
            ),
            (vec!["plan", "official,D"], "build-pipeline plan official D"),
            (
                vec!["--mirror", "a.io=b.io,c.io=https://u:p@h", "verify", "x"],
                "build-pipeline --mirror 'a.io=b.io' --mirror 'c.io=https://***@h' verify x",
            ),
            (
                vec!["run", "ollama", "--", "serve", "--api-key=abc"],
                "build-pipeline run ollama -- serve '--api-key=***'",
            ),
            (vec!["run", "ollama", "--", "serve"], "build-pipeline run ollama -- serve"),
            (vec!["diff", "--", "-a", "b"], "build-pipeline diff -- -a b"),
            (vec!["build", "D", "--slim"], "build-pipeline build --slim D"),
            (vec!["build", "D", "--slim=off"], "build-pipeline build '--slim=off' D"),
        ] {
            assert_eq!(typed(&arguments), wanted);
        }
    }

    #[test]
    fn what_is_pasted_is_understood_in_the_same_way() {
        for arguments in [
            &["-C", "it's", "--track", "ollama", "--set", "a=b c", "--load"][..],
            &["run", "ollama", "-i", "--", "serve", "-v"],
            &["diff", "--", "-a", "b"],
            &["build", "D", "--slim"],
            &["build", "D", "--slim=gfx1151,gfx1100"],
        ] {
            let first = typed(arguments);
            let again = shlex::split(&first).unwrap();
            let again: Vec<&str> = again.iter().skip(1).map(String::as_str).collect();
            assert_eq!(typed(&again), first);
        }
    }

    #[test]
    fn a_place_with_a_password_is_refused() {
        for arguments in [
            ["--push", "me:canary@h.example/x"],
            ["--output", "registry:me:can,ary@h.example/x"],
            ["--mirror", "https://g.example/a=https://me:canary@h.example"],
            ["--mirror", "docker.io=https://me:12,canary@h.example"],
            ["verify", "me:canary@h.example/x:1"],
        ] {
            let mut command = Cli::command();
            let all = ["build-pipeline"].iter().chain(&arguments);
            let matches = command.try_get_matches_from_mut(all).unwrap();
            let error = check(&command, &matches).unwrap_err();
            assert!(!format!("{error:?}").contains("ary"), "{error:?}");
            assert!(format!("{error:?}").contains("podman login"), "{error:?}");
        }
    }
}
