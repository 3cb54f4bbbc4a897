//! Runs uv: from the `PATH`, or else the one that `uv_install` installs.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use failure::{Failure, Kind};
use pins::PythonSet;
use project::environment;
use project::fetch::Fetcher;
use project::mirrors::Mirrors;
use sources::{Asked, ErrorKind, Service, SourceUrl};

use super::uv_install::{can, installed};

/// How many lines of a program's output are shown.
const SHOWN_LINES: usize = 20;

/// uv, and the index that it uses.
#[derive(Debug)]
pub(crate) struct Uv {
    program: PathBuf,
    index: String,
    cache: PathBuf,
    network: BTreeMap<OsString, OsString>,
    /// The hosts of the user's mirrors.
    mirrors: BTreeSet<String>,
}

/// Requirements that uv did not resolve.
#[derive(Debug)]
pub(crate) struct Unresolved {
    /// The failure, as far as uv explains it.
    pub(crate) failure: Box<Failure>,
    /// A package that the mirror of the index does not have. uv reports it the same way if the
    /// mirror sends a login page or the status 404 for everything.
    pub(crate) missing: Option<String>,
}

impl From<Failure> for Unresolved {
    fn from(failure: Failure) -> Self {
        Self { failure: Box::new(failure), missing: None }
    }
}

/// The output format of uv.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A lock (PEP 751).
    Pylock,
    /// Requirements, each with its origin.
    Reasons,
}

impl Uv {
    /// Finds uv, or installs it from `index` and reports that to `tell`. `fetcher` must use the
    /// same index. uv contacts only hosts that `mirrors` allow.
    pub(crate) fn find(
        index: &SourceUrl,
        mirrors: &Mirrors,
        fetcher: &Fetcher,
        tell: &dyn Fn(&str),
    ) -> Result<Self, Failure> {
        let network = environment::network_variables(mirrors)?;
        let cache = environment::cache_folder().ok_or_else(|| {
            Failure::new(Kind::Machine, "no home directory to keep uv's cache in")
                .hint("set `HOME` or `XDG_CACHE_HOME` to an absolute path")
        })?;
        let found = environment::program_in_path("uv").filter(|program| can(program));
        let program = match found {
            Some(program) => program,
            None => {
                let folder = cache.join("tools");
                installed(&folder, index.as_str(), &network, fetcher, tell)?
            }
        };
        let mirrors = mirrors.sources.iter().filter_map(sources::Mirror::host).collect();
        let index = index.as_str().to_owned();
        Ok(Self { program, index, cache: cache.join("uv"), network, mirrors })
    }

    /// Resolves requirements, which are grouped by the file that contains them. The given index, if
    /// any, takes precedence over the default index.
    pub(crate) fn compile(
        &self,
        set: &PythonSet,
        texts: &BTreeMap<String, BTreeSet<String>>,
        index: Option<&SourceUrl>,
        form: Form,
    ) -> Result<String, Unresolved> {
        let machine = |error: std::io::Error| {
            Failure::caused(Kind::Machine, "cannot write files for uv", &error)
                .hint("temporary files are under `TMPDIR` (default `/tmp`); check its space and permissions")
        };
        let work = tempfile::tempdir().map_err(machine)?;
        let put = |name: &str, lines: &BTreeSet<String>| -> std::io::Result<()> {
            let path = work.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap_or(work.path()))?;
            let mut file = std::fs::File::create(path)?;
            lines.iter().try_for_each(|line| writeln!(file, "{line}"))
        };
        let mut arguments: Vec<&str> = vec![
            "pip",
            "compile",
            "--quiet",
            "--no-header",
            "--no-sources",
            "--only-binary",
            ":all:",
            "--python-version",
            &set.python,
            "--python-platform",
            &set.platform,
        ];
        match form {
            Form::Pylock => arguments.extend(["--format", "pylock.toml", "--generate-hashes"]),
            Form::Reasons => arguments.extend(["--annotation-style", "split"]),
        }
        if !set.provided.is_empty() {
            put(EXCLUDES, &set.provided).map_err(machine)?;
            arguments.extend(["--excludes", EXCLUDES]);
        }
        if let Some(index) = index {
            arguments.extend(["--index", index.as_str()]);
        }
        // uv does not read a file named `pyproject.toml` as a list of requirements.
        let names: Vec<String> = texts.keys().map(|file| format!("{file}{LIST}")).collect();
        for (name, lines) in names.iter().zip(texts.values()) {
            put(name, lines).map_err(machine)?;
        }
        arguments.extend(names.iter().map(String::as_str));
        let output = self.call(&arguments, work.path())?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(self.failed(&output))
        }
    }

    fn call(&self, arguments: &[&str], folder: &Path) -> Result<Output, Failure> {
        let mut command = Command::new(&self.program);
        let said = command
            .args(arguments)
            .env_clear()
            .envs(&self.network)
            .env("PATH", environment::program_path())
            .env("HOME", folder)
            .env("LC_ALL", "C.UTF-8")
            .env("UV_CACHE_DIR", &self.cache)
            .env("UV_DEFAULT_INDEX", &self.index)
            .env("UV_HTTP_TIMEOUT", "180")
            .env("UV_NO_CONFIG", "1")
            .env("UV_NO_PROGRESS", "1")
            .env("UV_PYTHON_DOWNLOADS", "never")
            .env("UV_SYSTEM_CERTS", "1")
            .current_dir(folder)
            .stdin(Stdio::null())
            .output();
        said.map_err(|error| {
            let what = format!("running `{}` failed", self.program.display());
            Failure::caused(Kind::Machine, what, &error)
        })
    }
}

/// The file of excluded packages.
const EXCLUDES: &str = "excludes.txt";
/// The suffix of requirements files while uv reads them.
const LIST: &str = ".txt";

/// Returns the last lines of a program's output.
pub(super) fn last_lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(SHOWN_LINES);
    lines[from..].iter().map(|line| (*line).to_owned()).collect()
}

/// Returns why a program cannot write to the disk, if its output says so. uv writes `(os error 28)`
/// behind the message of the system; Python writes `[Errno 28]`, and apt `(28: `, before it.
pub(super) fn of_disk(said: &str) -> Option<&'static str> {
    const KINDS: [(u32, &str); 6] = [
        (28, "the disk is full"),
        (122, "the disk quota is used up"),
        (30, "the file system is read-only"),
        (13, "the permissions do not allow it"),
        (5, "the disk has errors"),
        (27, "a file would become too large"),
    ];
    // A firewall can also deny a connection.
    let mut lines = said.lines().filter(|line| !line.contains("connect"));
    lines.find_map(|line| {
        let has = |number| {
            line.contains(&format!("(os error {number})"))
                || line.contains(&format!("[Errno {number}]"))
                || line.contains(&format!("({number}: "))
        };
        KINDS.iter().find(|(number, _)| has(*number)).map(|(_, why)| *why)
    })
}

/// Returns the failure of a program that cannot write to the disk. It runs with its files below
/// `folder`.
pub(super) fn disk_failure(program: &str, folder: &Path, why: &str, said: &[u8]) -> Failure {
    let what = format!("{program} cannot write into `{}`: {why}", folder.display());
    Failure { log: last_lines(said), ..Failure::new(Kind::Machine, what) }
        .hint(CACHE)
        .hint("nothing was written to the locks")
}

/// The hint for a cache folder that cannot be used.
pub(super) const CACHE: &str = "check its space and permissions; `XDG_CACHE_HOME`, or `cache` in \
                                config.toml, selects another cache";

/// Finds the first failed request in uv's output: its URL, and the kind of failure according to the
/// HTTP status. uv writes `(500 Internal Server Error) for url (URL)`, and a similar text for an
/// index that denies access.
fn refused(said: &str) -> Option<(SourceUrl, ErrorKind)> {
    said.lines().find_map(|line| {
        let start = line.find("https://").or_else(|| line.find("http://"))?;
        let url = line[start..].split(|c: char| c.is_whitespace() || ")`'\"".contains(c)).next()?;
        let words = line.split([' ', '(']).zip(line.split([' ', '(']).skip(1));
        let is_reason = |word: &str| word.starts_with(|c: char| c.is_ascii_uppercase());
        let status = words.filter(|(_, reason)| is_reason(reason));
        let kind = status.filter_map(|(status, _)| status.parse().ok()).find_map(kind_of)?;
        Some((url.parse().ok()?, kind))
    })
}

fn kind_of(status: u16) -> Option<ErrorKind> {
    match status {
        401 | 403 => Some(ErrorKind::Authentication),
        404 | 410 => Some(ErrorKind::NotFound),
        407 => Some(ErrorKind::Proxy),
        429 => Some(ErrorKind::RateLimited),
        500..=599 => Some(ErrorKind::Server),
        _ => None,
    }
}

impl Uv {
    fn failed(&self, output: &Output) -> Unresolved {
        let said = String::from_utf8_lossy(&output.stderr);
        let told = |kind| {
            let told =
                Failure::new(kind, "uv found no set of packages that meets the requirements");
            Failure { log: last_lines(&output.stderr), ..told }.hint("nothing was written")
        };
        if let Some(why) = of_disk(&said) {
            return disk_failure("uv", &self.cache, why, &output.stderr).into();
        }
        let is_mirror =
            |url: &SourceUrl| url.host().is_some_and(|host| self.mirrors.contains(&host));
        if let Some((url, kind)) = refused(&said) {
            let is_mirror = is_mirror(&url);
            let asked = Asked { url, is_mirror, service: Service::Index };
            return failure::at_server(told(Kind::Network), kind, &asked).into();
        }
        let missing = missing(&said);
        if !said.contains("No solution found") && missing.is_none() {
            return told(Kind::Network)
                .hint("check the network, `HTTPS_PROXY` and `--index`")
                .into();
        }
        let failure = told(Kind::Input).hint("change the requirements in `versions/python.toml`; a package without a wheel for its platform counts as missing");
        let is_at_mirror = self.index.parse().is_ok_and(|url| is_mirror(&url));
        Unresolved { failure: Box::new(failure), missing: missing.filter(|_| is_at_mirror) }
    }
}

/// Returns the package that the index does not have, according to uv: `X was not found in the
/// package registry`, or, if a page lists no file, `there are no versions of X`.
fn missing(said: &str) -> Option<String> {
    // uv breaks lines anywhere.
    let words: Vec<&str> = said.split_whitespace().collect();
    let place = |phrase: &[&str]| words.windows(phrase.len()).position(|some| some == phrase);
    let before = place(&["was", "not", "found", "in"]).and_then(|at| at.checked_sub(1));
    let name = words.get(before.or_else(|| Some(place(&["no", "versions", "of"])? + 3))?)?;
    let is_end = |c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c));
    name.split(is_end).next().filter(|name| !name.is_empty()).map(str::to_owned)
}

/// Returns the origin of a package from uv's `# via` comments: a file, the chain of packages that
/// requires the package, and the package itself.
pub(crate) fn chain(reasons: &str, package: &str) -> Vec<String> {
    let mut via: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut name = "";
    for line in reasons.lines() {
        let words = line.trim_start_matches([' ', '#']).trim();
        if !line.starts_with([' ', '#']) {
            name = line.split(['=', '[', ' ']).next().unwrap_or_default();
        } else if let Some(one) = words.strip_prefix("via").map(str::trim).or(Some(words)) {
            via.entry(name).or_default().extend(Some(one).filter(|one| !one.is_empty()));
        }
    }
    // Search breadth-first to find the shortest chain.
    let mut ways = std::collections::VecDeque::from([vec![package]]);
    let mut seen = BTreeSet::from([package]);
    while let Some(way) = ways.pop_front() {
        let parents = way.last().and_then(|last| via.get(last)).map_or(&[][..], Vec::as_slice);
        for parent in parents {
            let mut longer = way.clone();
            if let Some(file) = parent.strip_prefix("-r ") {
                longer.push(file.strip_suffix(LIST).unwrap_or(file));
                return longer.into_iter().rev().map(str::to_owned).collect();
            }
            if seen.insert(parent) {
                longer.push(parent);
                ways.push_back(longer);
            }
        }
    }
    vec![package.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uv_says_which_index_failed_and_why() {
        for (said, kind) in [
            (
                "hint: An index URL (http://127.0.0.1:9/simple) could not be queried due to a lack of valid authentication credentials (401 Unauthorized)",
                Some(ErrorKind::Authentication),
            ),
            (
                "hint: An index (http://127.0.0.1:9/simple) returned a 403 Forbidden error. Check it.",
                Some(ErrorKind::Authentication),
            ),
            (
                "error: x\n  cause: Failed to fetch: http://127.0.0.1:9/simple\n  cause: HTTP status client error (429 Too Many Requests) for url (http://127.0.0.1:9/simple)",
                Some(ErrorKind::RateLimited),
            ),
            (
                "cause: HTTP status server error (500 Internal Server Error) for url (http://127.0.0.1:9/simple)",
                Some(ErrorKind::Server),
            ),
            ("Because six was not found in the package registry", None),
            ("cause: Failed to fetch: http://127.0.0.1:9/simple", None),
        ] {
            let found = refused(said);
            assert_eq!(found.as_ref().map(|(_, found)| *found), kind, "{said}");
            assert!(found.is_none_or(|(url, _)| url.as_str() == "http://127.0.0.1:9/simple"));
        }
    }

    #[test]
    fn a_disk_that_cannot_be_written_is_found_in_what_a_program_says() {
        for (said, why) in [
            (
                "error: Could not acquire lock\n  cause: Read-only file system (os error 30) at path \"/h/uv\"",
                Some("the file system is read-only"),
            ),
            (
                "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
                Some("the disk is full"),
            ),
            (
                "error: x\n  cause: failed to open file `/h`: Permission denied (os error 13)",
                Some("the permissions do not allow it"),
            ),
            ("cause: Disk quota exceeded (os error 122)", Some("the disk quota is used up")),
            ("  Write error - write (28: No space left on device)", Some("the disk is full")),
            (
                "  Could not open file /x/partial/y - open (30: Read-only file system)",
                Some("the file system is read-only"),
            ),
            ("cause: tcp connect error: Permission denied (os error 13)", None),
            (
                "NewConnectionError: Failed to establish a new connection: [Errno 13] Permission denied",
                None,
            ),
            ("cause: Connection refused (os error 111)", None),
            ("cause: Resource temporarily unavailable (os error 11)", None),
        ] {
            assert_eq!(of_disk(said), why, "{said}");
        }
    }

    #[test]
    fn the_shortest_way_to_a_package_is_told() {
        let reasons = "\
numpy==2.4.0
    # via
    #   -r requirements/common.txt.txt
    #   torch
nvidia-cublas==13.4
    # via torch
torch==2.15.0
    # via
    #   compressed-tensors
    #   xgrammar
compressed-tensors[x]==0.11
    # via -r requirements/common.txt.txt
xgrammar==1
    # via compressed-tensors
";
        let told = |package| chain(reasons, package).join(" > ");
        assert_eq!(told("torch"), "requirements/common.txt > compressed-tensors > torch");
        assert_eq!(
            told("nvidia-cublas"),
            "requirements/common.txt > compressed-tensors > torch > nvidia-cublas"
        );
        assert_eq!(told("numpy"), "requirements/common.txt > numpy");
        assert_eq!(told("other"), "other");
    }

    #[test]
    fn the_missing_package_is_found_in_what_uv_says() {
        for (said, name) in [
            ("Because demo was not found in the package registry and you require", Some("demo")),
            ("Because a-b.c was\n      not found in the package registry", Some("a-b.c")),
            ("Because there are no versions of demo and you require demo, we", Some("demo")),
            ("Because there are no\n versions of demo>=2 and", Some("demo")),
            ("Because only demo<2 is available and you require demo>=2", None),
            ("was not found in the package registry", None),
            ("there are no versions of", None),
        ] {
            assert_eq!(missing(said).as_deref(), name, "{said}");
        }
    }
}
