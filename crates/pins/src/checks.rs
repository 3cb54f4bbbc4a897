//! Checks single values: URLs, git refs, versions, dates, names, environment variables.
//!
//! Each function takes the text of one value, and returns the problem and the correct form if it is
//! invalid. The module `reader` adds the position in the file. Commits and digests are checked in
//! `hashes`.

use names::{Repository, Secret, Tag};

use crate::problem::{Wrong, named, quote, wrong};
use names::{GfxVersion, GpuTarget, ParseGfxVersionError, PinName};

/// Accepts any one-line text of at most `longest` characters.
pub(crate) fn line(longest: usize) -> impl Fn(&str) -> Result<String, Wrong> {
    move |text| match text.chars().count() {
        length if length <= longest => Ok(text.to_owned()),
        length => {
            let message = format!("{} is {length} characters long", quote(text));
            Err(wrong(message, format!("shorten it to {longest} characters")))
        }
    }
}

/// Accepts the name of a program that uses a GPU, such as `llama.cpp`.
///
/// # Errors
/// It has other characters than such a name.
pub fn program(text: &str) -> Result<String, Wrong> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    if text.len() <= 40 && !text.is_empty() && text.chars().all(is_plain) {
        return Ok(text.to_owned());
    }
    Err(wrong(
        format!("{} is not the name of a program", quote(text)),
        "write it in lower case, for example `vllm` or `llama.cpp`",
    ))
}

/// Accepts an `https` URL without credentials, a query or a fragment.
pub(crate) fn https_url(text: &str) -> Result<String, Wrong> {
    let refuse = |why: &str, help: String| Err(wrong(format!("{} {why}", quote(text)), help));
    // This comes before the text is split, because a password can contain any separator.
    if text.contains('@') && Secret::from(text).is_secret() {
        let masked = Secret::from(text).to_string();
        let bare = masked.split(['?', '#']).next().unwrap_or_default().replace("***@", "");
        let bare = bare.split_once("://").map_or(bare.as_str(), |(_, rest)| rest);
        let help = format!(
            "write `https://{bare}`, and replace the secret, because everyone who can read the file could see it"
        );
        return refuse("has a user name or password", help);
    }
    if let Some((user_host, path)) = text.split_once(':')
        && let Some((_, host)) = user_host.split_once('@')
        && !user_host.contains('/')
    {
        return refuse("is an ssh address", format!("write `https://{host}/{path}`"));
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return refuse(
            "is not a URL",
            "write the full URL, for example `https://github.com/vllm-project/vllm`".to_owned(),
        );
    };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let bare = format!("https://{rest}");
    let bare = bare.split(['?', '#']).next().unwrap_or_default();
    if scheme != "https" {
        let help = format!("only https is supported; write `{bare}`");
        return refuse("does not start with `https://`", help);
    }
    if text.contains(['?', '#']) {
        return refuse("has a query or fragment", format!("write `{bare}`"));
    }
    if !is_host(authority) {
        return refuse("has no valid host", "a host consists of letters, digits, dots and dashes, with an optional `:port`, for example `https://github.com/…`".to_owned());
    }
    if let Some(character) = path.chars().find(|c| !is_path_character(*c)) {
        return refuse(&format!("has {} in its path", named(character)), "a URL has no spaces, quotes or letters outside ASCII; write such a character as `%` and two hexadecimal digits".to_owned());
    }
    if path.split('/').any(|part| matches!(part, "." | "..")) || path.contains("//") {
        return refuse(
            "has `.`, `..` or an empty part in its path",
            "write the path without them".to_owned(),
        );
    }
    Ok(text.to_owned())
}

/// Accepts the `https` URL of a git repository.
pub(crate) fn repository_url(text: &str) -> Result<String, Wrong> {
    let url = https_url(text)?;
    if url.trim_start_matches("https://").trim_end_matches('/').contains('/') {
        Ok(url)
    } else {
        Err(wrong(
            format!("{} contains a host, but no repository", quote(text)),
            "write the full URL, for example `https://github.com/vllm-project/vllm`",
        ))
    }
}

fn is_host(text: &str) -> bool {
    let (host, port) = text.split_once(':').unwrap_or((text, "443"));
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    host.split('.').all(is_label)
        && port.bytes().all(|b| b.is_ascii_digit())
        && port.parse::<u16>().is_ok_and(|port| port > 0)
}

fn is_path_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-._~/%+!$&'()*,;=:@".contains(character)
}

/// Accepts the name of a tag or branch.
pub(crate) fn git_ref(text: &str) -> Result<String, Wrong> {
    const RULE: &str = "a tag or branch has letters, digits and `.` `_` `/` `+` `-`, starts with a letter or digit, has no part that ends in `.lock`, and is at most 201 characters long";
    let refuse = |why: &str, help: &str| Err(wrong(format!("{} {why}", quote(text)), help));
    if matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return refuse(
            "is a commit, not a tag or branch",
            "write it in `commit`, and write the tag or branch that it came from in `ref`",
        );
    }
    if text.contains("@{") {
        return refuse("is a reflog entry, not a tag or branch", RULE);
    }
    if text.contains("..") {
        return refuse("is a range of commits, not a tag or branch", RULE);
    }
    if let Some(character) =
        text.chars().find(|c| !(c.is_ascii_alphanumeric() || "._/+-".contains(*c)))
    {
        return refuse(
            &format!("contains {}, which is not allowed in a tag or branch", named(character)),
            RULE,
        );
    }
    let is_part =
        |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    let is_valid = text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.len() <= 201
        && !text.ends_with('.')
        && text.split('/').all(is_part);
    if is_valid { Ok(text.to_owned()) } else { refuse("is not a tag or branch", RULE) }
}

/// Accepts the version of a release, without a leading `v`.
pub(crate) fn version(text: &str) -> Result<String, Wrong> {
    let numeric = text.strip_prefix('b').unwrap_or(text);
    let is_build_number = numeric != text && numeric.bytes().all(|b| b.is_ascii_digit());
    let help = match text.strip_prefix(['v', 'V', '=']) {
        Some(rest) => {
            let rest = rest.trim_start_matches(['=', ' ']);
            format!("write `{rest}`; the `v` belongs in `ref`")
        }
        None => {
            "a version starts with a digit and has no spaces, for example `0.10.2` or `2.8.3.post1`"
                .to_owned()
        }
    };
    let is_valid = text.len() <= 100
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._+!-".contains(c))
        && (text.starts_with(|c: char| c.is_ascii_digit())
            || is_build_number && !numeric.is_empty());
    if is_valid {
        Ok(text.to_owned())
    } else {
        Err(wrong(format!("{} is not a version", quote(text)), help))
    }
}

/// Accepts one exact version of a package: no ranges.
pub(crate) fn exact_version(text: &str) -> Result<String, Wrong> {
    if let Some(exact) = text.strip_prefix("==").map(str::trim)
        && !exact.contains(['*', ','])
    {
        return Err(wrong(
            format!("{} has an operator", quote(text)),
            format!("only exact versions are accepted, without an operator; write `{exact}`"),
        ));
    }
    if text.contains(['<', '>', '~', '^', '*', '=', ',']) {
        return Err(wrong(
            format!("{} is a range of versions", quote(text)),
            "a pin is one exact version, for example `2.11.0+rocm7.14.0`",
        ));
    }
    version(text)
}

/// Accepts a ROCm release: numbers with dots, with a stamp if it is a nightly.
pub(crate) fn rocm_release(text: &str) -> Result<String, Wrong> {
    let core = text.find(['a', 'b', 'r']).map_or(text, |at| &text[..at]);
    let stamp = text[core.len()..].trim_start_matches("rc").trim_start_matches(['a', 'b']);
    let is_number = |part: &str| {
        (1..=3).contains(&part.len())
            && part.bytes().all(|b| b.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let is_valid = matches!(core.split('.').count(), 2 | 3)
        && core.split('.').all(is_number)
        && (core.len() == text.len()
            || !stamp.is_empty() && stamp.bytes().all(|b| b.is_ascii_digit()));
    if is_valid {
        return Ok(text.to_owned());
    }
    let bare = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let help = if bare != text && rocm_release(bare).is_ok() {
        format!("write only the number: `{bare}`")
    } else {
        "a ROCm release is two or three numbers, for example `7.2.1`; a nightly has a stamp after them, for example `7.14.0a20260608`".to_owned()
    };
    Err(wrong(format!("{} is not a ROCm release", quote(text)), help))
}

/// Returns `false` if `git_ref` names a release other than `version`.
pub(crate) fn agrees(git_ref: &str, version: &str) -> bool {
    let name = git_ref.rsplit('/').next().unwrap_or(git_ref);
    let name = name.strip_prefix('v').unwrap_or(name);
    let is_numbered = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let is_build = |text: &str| text.strip_prefix('b').is_some_and(is_numbered);
    if is_build(name) || is_build(version) {
        return !is_build(name) || name == version;
    }
    // A branch such as `main_perf` does not name a version.
    if !is_numbered(name) || name == version {
        return true;
    }
    // A vendor's own flavour follows a dash: `2.7.4-cktile` is 2.7.4, but `2.7.4-rc1` is not.
    let flavour = name.strip_prefix(version).and_then(|rest| rest.strip_prefix('-'));
    flavour.is_some_and(|flavour| {
        !["rc", "alpha", "beta", "pre", "dev"].iter().any(|stage| flavour.starts_with(stage))
    })
}

/// Accepts a directory inside an archive.
pub(crate) fn subdirectory(text: &str) -> Result<String, Wrong> {
    relative(text, "archive", "vendor/llama.cpp")
}

/// Accepts a folder of a build context.
pub(crate) fn context_folder(text: &str) -> Result<String, Wrong> {
    relative(text, "build context", "vllm")
}

/// Accepts a file inside the tree of a source or archive.
pub(crate) fn source_file(text: &str) -> Result<String, Wrong> {
    relative(text, "source", "requirements/common.txt")
}

/// Accepts a project file, as a path from the project's root.
pub(crate) fn project_file(text: &str) -> Result<String, Wrong> {
    relative(text, "project", "dockerfiles/mine.Dockerfile")
}

/// Accepts a relative path inside `place`, in the form that all systems interpret in the same way.
fn relative(text: &str, place: &str, example: &str) -> Result<String, Wrong> {
    let refuse = |why: &str, help: &str| Err(wrong(format!("{} {why}", quote(text)), help));
    let has_drive = text.get(1..2) == Some(":");
    if text.starts_with('/') || has_drive {
        return refuse(
            "is an absolute path",
            &format!("write the path from the root of the {place}, for example `{example}`"),
        );
    }
    if text.contains('\\') {
        return refuse("has a backslash", "write `/` between directories");
    }
    if text.split('/').any(|part| part == "..") {
        return refuse(
            &format!("is outside the {place}"),
            &format!("write a path inside the {place}, without `..`, for example `{example}`"),
        );
    }
    if text.split('/').any(|part| matches!(part, "" | ".")) {
        return refuse(
            "has an empty part or a `.`",
            "write single slashes between names, and none at the end",
        );
    }
    line(255)(text)
}

/// Accepts the name of a component, which is the name of a folder under `patches/`.
pub(crate) fn component(text: &str) -> Result<String, Wrong> {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_valid = text.len() <= 64
        && text.starts_with(is_word)
        && text.chars().all(|c| is_word(c) || "._-".contains(c));
    if is_valid {
        Ok(text.to_owned())
    } else {
        Err(wrong(
            format!("{} is not the name of a component", quote(text)),
            "write the name of a folder under `patches/`, for example `vllm`",
        ))
    }
}

/// Accepts the name of a project or package on a Python package index.
pub(crate) fn package_name(text: &str) -> Result<String, Wrong> {
    let is_word = |c: char| c.is_ascii_alphanumeric();
    let is_valid = text.len() <= 100
        && text.starts_with(is_word)
        && text.ends_with(is_word)
        && text.chars().all(|c| is_word(c) || "._-".contains(c));
    if is_valid {
        return Ok(text.to_owned());
    }
    let help = match text.split_once('[') {
        Some((name, _)) => format!("extras are not part of the name; write `{name}`"),
        None => "a package name has letters, digits, `.`, `_` and `-`, and starts and ends with a letter or digit".to_owned(),
    };
    Err(wrong(format!("{} is not a package name", quote(text)), help))
}

/// Accepts the repository of an image, without a tag or digest.
pub(crate) fn repository(text: &str) -> Result<Repository, Wrong> {
    if let Some((name, digest)) = text.split_once('@')
        && digest.starts_with("sha")
    {
        return Err(wrong(
            format!("{} has a digest", quote(text)),
            format!("write `repository = \"{name}\"` and `digest = \"{digest}\"`"),
        ));
    }
    let last = text.rfind('/').map_or(0, |slash| slash + 1);
    if let Some((name, tag)) = text[last..].split_once(':')
        && last > 0
    {
        let name = format!("{}{name}", &text[..last]);
        return Err(wrong(
            format!("{} has a tag", quote(text)),
            format!("write `repository = \"{name}\"` and `tag = \"{tag}\"`"),
        ));
    }
    text.parse::<Repository>().map_err(|error| split_sentence(&error.to_string()))
}

/// Accepts a tag.
pub(crate) fn tag(text: &str) -> Result<Tag, Wrong> {
    text.parse::<Tag>().map_err(|error| split_sentence(&error.to_string()))
}

/// Accepts a GPU target.
pub(crate) fn gpu_target(text: &str) -> Result<GpuTarget, Wrong> {
    text.parse::<GpuTarget>().map_err(|error| {
        let lower = text.to_ascii_lowercase().replace(' ', "");
        let candidates =
            [lower.clone(), format!("gfx{lower}"), format!("gfx{}", lower.replace('.', ""))];
        let wrong = split_sentence(&error.to_string());
        match candidates.iter().find(|candidate| candidate.parse::<GpuTarget>().is_ok()) {
            Some(target) => Wrong { help: format!("write `{target}`"), ..wrong },
            None => wrong,
        }
    })
}

/// Accepts the name of a pin.
pub(crate) fn pin_name(text: &str) -> Result<PinName, Wrong> {
    text.parse::<PinName>().map_err(|error| {
        let wrong = split_sentence(&error.to_string());
        let better = text.to_ascii_lowercase().replace(['_', '.', ' '], "-");
        match better.parse::<PinName>() {
            Ok(name) => Wrong { help: format!("write `{name}`; {}", wrong.help), ..wrong },
            Err(_) => wrong,
        }
    })
}

/// Accepts a value of `HSA_OVERRIDE_GFX_VERSION` that differs from the native version of `target`.
pub(crate) fn spoof(text: &str, target: Option<&GpuTarget>) -> Result<GfxVersion, Wrong> {
    let own = target.and_then(GfxVersion::of_target);
    match text.parse::<GfxVersion>() {
        Ok(version) if Some(version) == own => Err(wrong(
            format!("{} is the GPU's own version", quote(text)),
            "a spoof is the version of another GPU, for example `11.0.0` for gfx1100; if the GPU needs none, remove the line",
        )),
        Ok(version) => Ok(version),
        Err(error @ ParseGfxVersionError::TargetName { version, .. }) => {
            let help = if Some(version) == own {
                "write three numbers, `major.minor.stepping`, of the GPU to imitate, for example `10.3.0` for gfx1030 or `11.0.0` for gfx1100".to_owned()
            } else {
                format!("write `{version}`")
            };
            Err(Wrong { help, ..split_sentence(&error.to_string()) })
        }
        Err(error @ ParseGfxVersionError::Form(_)) => Err(split_sentence(&error.to_string())),
    }
}

/// Accepts a date that exists.
pub(crate) fn date(text: &str) -> Result<String, Wrong> {
    let refuse = || {
        wrong(
            format!("{} is not a valid date", quote(text)),
            "write year, month and day, for example 2026-11-20",
        )
    };
    let numbers: Vec<u32> = text.split('-').filter_map(|part| part.parse().ok()).collect();
    let [year, month, day] = numbers.as_slice() else { return Err(refuse()) };
    if text.len() != 10 || !text.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
        return Err(refuse());
    }
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return Err(refuse()),
    };
    if (1..=days).contains(day) { Ok(text.to_owned()) } else { Err(refuse()) }
}

/// Splits the error message of another type, which has the form `problem; correct form`.
fn split_sentence(text: &str) -> Wrong {
    // Quoted values can contain anything, so the message is split at the last semicolon.
    match text.rsplit_once("; ") {
        Some((message, help)) => wrong(message, help),
        None => wrong(text, "correct it and try again"),
    }
}
