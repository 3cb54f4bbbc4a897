//! Runs programs in containers of a track's image, for the chores that build a track for real.

use anyhow::{Context as _, Result, ensure};

use crate::run::output;

/// The options for `podman run`: no network, and only limits that this machine can set.
const RUN: &[&str] =
    &["run", "--rm", "--network=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"];

/// Runs a program in a container of the image, and returns its output, which must contain `wanted`.
pub(crate) fn run_in(
    image: &str,
    words: &[&str],
    options: &[&str],
    wanted: &str,
) -> Result<String> {
    let podman = |runtime: &str, program: &[&str]| {
        let shell = format!("podman --runtime={runtime} \"$@\" 2>&1");
        output("sh", &[&["-c", &shell, "sh"], RUN, options, &[image], program].concat())
    };
    // On some machines, crun does not work with the cgroups; on others, runc does not.
    let works = |runtime: &&str| podman(runtime, &["true"]).is_ok();
    let runtime = ["crun", "runc"].into_iter().find(works).unwrap_or("crun");
    let said = podman(runtime, words)?;
    ensure!(
        said.contains(wanted),
        "the output of `{}` does not contain `{wanted}`:\n{said}",
        words.join(" ")
    );
    Ok(said)
}

/// Returns the text that llama.cpp's `--version` must print for the source that a track pins.
pub(crate) fn llama_version(tool: &str, track: &str) -> Result<String> {
    let plan = output(tool, &["plan", track, "--format", "json"])?;
    let plan: serde_json::Value = serde_json::from_str(&plan)?;
    let steps = plan["steps"].as_array().context("the plan has no steps")?;
    let arg = |name: &str| -> Result<&str> {
        let found = steps.iter().find_map(|step| find(step, name));
        found.with_context(|| format!("no step of track `{track}` has the argument `{name}`"))
    };
    let (number, commit) = (arg("LLAMA_BUILD_NUMBER")?, arg("LLAMA_BUILD_COMMIT")?);
    Ok(format!("(build {number}, commit {commit})"))
}

/// Returns the string value of a key, at any depth.
fn find<'a>(value: &'a serde_json::Value, key: &str) -> Option<&'a str> {
    let object = value.as_object()?;
    let own = object.get(key).and_then(serde_json::Value::as_str);
    own.or_else(|| object.values().find_map(|nested| find(nested, key)))
}
