//! Shell completions: clap's, with the names in the project as values of arguments.

use std::collections::{BTreeMap, BTreeSet};

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, ValueHint};
use clap_complete::Shell;
use launch::machine::Data;
use names::{GpuTarget, PinName};
use project::state;

/// The start of a script for zsh.
const ZSH_START: &str = "autoload -U is-at-least\n";

/// Arguments that take a track, an image on a registry or a file, by their value names in the help.
const TRACK_OR_FILE: [&str; 4] = ["IMAGE|TRACK", "A", "B", "INPUT"];

/// Returns the completion script of a shell. The names are read from the files in `data`. An
/// invalid file must not break a shell's profile, so its names are left out.
pub(crate) fn script(shell: Shell, mut command: Command, data: &Data) -> String {
    let values = values(shell, data);
    command.build();
    command = with_values(command, &values);
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "build-pipeline", &mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    // clap_complete 4.6.11 uses two names for each function if the program's name contains a `-`.
    let text = text.replace("build__subcmd__pipeline", "build__pipeline");
    let words = |name| values.get(name).map(|values| values.join(" ")).unwrap_or_default();
    if shell == Shell::Fish {
        return fish(&text, &command, &values);
    }
    let (tracks, images) = (words("TRACK"), words("REF"));
    let images = if images.is_empty() { images } else { format!(" 'images:image:({images})'") };
    let function = format!(
        "{ZSH_START}\n_build_pipeline_tracks_or_files() {{\n    _alternative 'tracks:track:({tracks})'{images} 'files:file:_files'\n}}\n"
    );
    text.replace(ZSH_START, &function).replace(":_hosts", ":_build_pipeline_tracks_or_files")
}

/// Returns clap's script for fish with the values of positional arguments. clap_complete 4.6.11
/// leaves them out, and does not recognise an option that still lacks its value.
fn fish(text: &str, command: &Command, values: &BTreeMap<&'static str, Vec<String>>) -> String {
    const FAILS: &str = "-- $cmd 2>/dev/null\n    or return\n";
    const WITH_VALUE: &str = "-- $cmd '' 2>/dev/null\n    or return\n";
    let retried = FAILS.replace("or return\n", "or argparse -s (OPTIONS) ") + WITH_VALUE;
    let retried = retried.replace("OPTIONS", "__fish_build_pipeline_global_optspecs");
    let mut text = text.replace(FAILS, &retried);
    for below in command.get_subcommands() {
        let used = format!("__fish_build_pipeline_using_subcommand {}", below.get_name());
        text.push_str(&positional(below, &used, values));
        for lowest in below.get_subcommands() {
            let used = format!("{used}; and __fish_seen_subcommand_from {}", lowest.get_name());
            text.push_str(&positional(lowest, &used, values));
        }
    }
    text
}

/// Returns the lines for fish that offer the values of a command's positional arguments. `used` is
/// the condition that the command line has the command.
fn positional(
    command: &Command,
    used: &str,
    values: &BTreeMap<&'static str, Vec<String>>,
) -> String {
    let line = |arg: &Arg| {
        let name = arg.get_value_names()?.first()?.as_str();
        let words = values.get(name)?.join(" ");
        let no_files = if TRACK_OR_FILE.contains(&name) { "" } else { " -f" };
        Some(format!("complete -c build-pipeline -n \"{used}\"{no_files} -a \"{words}\"\n"))
    };
    command.get_positionals().filter_map(line).collect()
}

/// Returns the values of arguments, by the name of the value in the help.
fn values(shell: Shell, data: &Data) -> BTreeMap<&'static str, Vec<String>> {
    let in_order = |tracks: pins::Tracks| -> Vec<String> {
        tracks.in_order().into_iter().map(|(name, _)| name.to_string()).collect()
    };
    let tracks = data.tracks().map(in_order).unwrap_or_default();
    let pins = data.pins().ok();
    let names = pins.iter().flat_map(|pins| pins.names().into_keys());
    let bases = pins.iter().flat_map(|pins| pins.images.keys());
    let images = references(data);
    let gpus = data.gpus().map(|all| all.gpus.keys().map(GpuTarget::to_string).collect());
    let rules = lint::rules().iter().map(|rule| rule.id.to_string());
    let mut all = BTreeMap::from([
        ("TRACK", tracks.clone()),
        ("RULE|TRACK", tracks.iter().cloned().chain(rules).collect()),
        ("LOCK|TRACK", tracks.clone()),
        ("PIN", names.map(PinName::to_string).collect()),
        ("PIN=VALUE", bases.map(|name| format!("{name}=")).collect()),
        ("GFX", gpus.unwrap_or_default()),
        ("COMPONENT", data.patched().unwrap_or_default()),
        ("REF", images.clone()),
    ]);
    // With these values, zsh would offer no files. The function after `ZSH_START` offers both.
    if shell != Shell::Zsh {
        let both: Vec<String> = tracks.into_iter().chain(images).collect();
        all.extend(TRACK_OR_FILE.map(|name| (name, both.clone())));
    }
    all.retain(|_, values| !values.is_empty());
    all
}

/// Returns the image names that builds of the project have pushed to, except those with a digest.
fn references(data: &Data) -> Vec<String> {
    let Some(folder) = data.folder() else { return Vec::new() };
    let records = state::read_records_of(folder, |_, _| ()).unwrap_or_default();
    let outputs = records.iter().flat_map(|record| &record.outputs);
    let pushed = outputs.filter_map(|outcome| outcome.output.strip_prefix("registry:"));
    // The words in the script must not contain quotes or other special characters.
    let is_plain = |text: &&str| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"./:_-".contains(&byte))
    };
    let references: BTreeSet<&str> = pushed.filter(is_plain).collect();
    references.into_iter().map(str::to_owned).collect()
}

/// Returns the command with `values` as the possible values of its arguments and of those of its
/// subcommands.
fn with_values(command: Command, values: &BTreeMap<&'static str, Vec<String>>) -> Command {
    let parser = |allowed: &[String]| PossibleValuesParser::new(allowed.to_vec());
    let with_value = |arg: Arg| {
        let name = arg.get_value_names().and_then(<[_]>::first).map(|name| name.to_string());
        let name = name.as_deref();
        match name.and_then(|name| values.get(name)) {
            // No space follows `PIN=`.
            Some(values) if name == Some("PIN=VALUE") => {
                arg.value_parser(parser(values)).value_hint(ValueHint::Other)
            }
            Some(values) => arg.value_parser(parser(values)),
            // For this hint, zsh calls the function `_hosts`, which `script` replaces. No other
            // argument has this hint.
            None if name.is_some_and(|name| TRACK_OR_FILE.contains(&name)) => {
                arg.value_hint(ValueHint::Hostname)
            }
            None => arg,
        }
    };
    command.mut_args(with_value).mut_subcommands(|below| with_values(below, values))
}
