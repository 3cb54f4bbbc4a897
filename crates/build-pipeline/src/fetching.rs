//! Makes what asks git servers and Python indexes about pins: `bump` and `outdated` ask for many
//! things at once, where `fetch` fetches one tree after the other.

use sources::{Settings, SourceUrl, Sources};

use crate::cli::Global;
use crate::error::CommandError;
use crate::exit_code::ExitCode;
use crate::{environment, fetch, mirrors};

/// Makes the way to sources of a run.
pub(crate) fn sources(global: &Global) -> Result<Sources, CommandError> {
    let cache = environment::cache_folder().ok_or_else(|| {
        CommandError::new(ExitCode::Machine, "there is no home directory to keep sources in")
            .hint("set `HOME` or `XDG_CACHE_HOME` to an absolute path")
    })?;
    let mirrors = mirrors::read(global)?.sources;
    // A rule of the user's own may lead to a path; urls of data files may not.
    let allow_local = !mirrors.is_empty();
    Ok(Sources::new(Settings { allow_local, mirrors, ..Settings::new(cache.join("sources")) }))
}

/// Returns the Python index to ask: the one that was named, else that of pip.
pub(crate) fn index(named: Option<&str>) -> Result<SourceUrl, CommandError> {
    match named {
        Some(text) => fetch::url(text),
        None => fetch::url(&fetch::python_index()?),
    }
}
