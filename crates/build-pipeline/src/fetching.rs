//! Makes what asks git servers and Python indexes, from the command line and the machine's files.

use sources::{ErrorKind, Mirror, Settings, SourceError, SourceUrl, Sources};

use crate::environment;
use crate::error::CommandError;
use crate::exit_code::ExitCode;

/// Returns whether a `--mirror` speaks of urls. Others speak of registries.
pub(crate) fn is_source_mirror(text: &str) -> bool {
    text.split('=').next().is_some_and(|from| from.contains("://"))
}

/// Makes the way to sources of a run.
pub(crate) fn sources(mirrors: &[String]) -> Result<Sources, CommandError> {
    let cache = environment::cache_folder().ok_or_else(|| {
        CommandError::new(ExitCode::Machine, "there is no home directory to keep sources in")
            .hint("set `HOME` or `XDG_CACHE_HOME` to an absolute path")
    })?;
    let mut settings = Settings::new(cache.join("sources"));
    for text in mirrors.iter().filter(|text| is_source_mirror(text)) {
        let mirror: Mirror = text.parse().map_err(|error: sources::ParseSourceError| {
            CommandError::caused(ExitCode::Input, format!("`--mirror {text}` cannot be used"), &error)
                .hint("write `--mirror https://github.com/vllm-project/vllm=https://git.example.org/vllm`, or a part: `--mirror https://github.com=https://git.example.org/github`")
        })?;
        // Who names a path of this machine as a mirror wants it read.
        settings.allow_local |=
            text.split_once('=').is_some_and(|(_, to)| to.starts_with("file://"));
        settings.mirrors.push(mirror);
    }
    Ok(Sources::new(settings))
}

/// Reads the url of a source.
pub(crate) fn url(text: &str) -> Result<SourceUrl, CommandError> {
    text.parse().map_err(|error: sources::ParseSourceError| {
        CommandError::from_chain(ExitCode::Input, &error)
    })
}

/// Returns the Python index to ask: the one that was named, else that of uv or pip.
pub(crate) fn index(named: Option<&str>) -> Result<SourceUrl, CommandError> {
    let found = named.map(str::to_owned).or_else(environment::python_index);
    let text = found.ok_or_else(|| {
        CommandError::new(ExitCode::Input, "no Python index was named")
            .hint("write `--index URL`, or set `PIP_INDEX_URL`; it is the url of the simple API that pip uses")
    })?;
    url(&text)
}

/// Makes the error of a source that could not be asked or fetched.
pub(crate) fn failed(error: &SourceError) -> CommandError {
    let told = CommandError::from_chain(code(error.kind()), error);
    match error.kind() {
        ErrorKind::NotFound => told.hint("check the name; if the repository moved, `--mirror FROM=TO` reads it from its new place for one run"),
        ErrorKind::Unreachable | ErrorKind::Timeout => told.hint("check the network and `HTTPS_PROXY`; `--mirror FROM=TO` reads from a place you can reach"),
        ErrorKind::Authentication => told.hint("only public repositories and indexes are read; `--mirror FROM=TO` reads from a copy"),
        ErrorKind::Moved | ErrorKind::Integrity => told.hint("nothing was written; look at what changed there before you trust it"),
        ErrorKind::Refused => told.hint("this is a rule of build-pipeline, not a fault of the line"),
        ErrorKind::Disk => told.hint("sources are kept under `XDG_CACHE_HOME` (default `~/.cache`); check its space and permissions"),
        ErrorKind::Tool => told.hint("check that the address is that of a git server or a Python index, and no login page stands between"),
    }
}

/// Returns the exit code of what went wrong with a source.
pub(crate) fn code(kind: ErrorKind) -> ExitCode {
    match kind {
        ErrorKind::NotFound | ErrorKind::Unreachable | ErrorKind::Timeout | ErrorKind::Tool => {
            ExitCode::Network
        }
        ErrorKind::Moved | ErrorKind::Integrity => ExitCode::Integrity,
        ErrorKind::Authentication => ExitCode::Authentication,
        ErrorKind::Refused => ExitCode::Input,
        ErrorKind::Disk => ExitCode::Machine,
    }
}
