//! Runs uv: from the `PATH`, or else installed from a package index, at a pinned version and by
//! hash.

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

/// The version of uv to install if there is none, with the hashes of its wheels for Linux on x86_64
/// and aarch64, glibc and musl.
const VERSION: &str = "0.13.9";
const WHEELS: [&str; 4] = [
    "2c45530751517d6c3bbc69a19473f6effe47cce047bede01ffd8af7ea7b36b25",
    "5435c5ce14a56431208ca0996416d310f1598e8c2c8ba707688985a16bb82dbe",
    "d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",
    "ecb6028d79dc96fbeafffe5c8af62a7099487ebc05a701e76714eebcffd06375",
];

/// The features that uv must have.
const NEEDED: [&str; 2] = ["--excludes", "pylock.toml"];

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

/// Returns whether the uv at this path has all required features.
fn can(program: &Path) -> bool {
    let help = Command::new(program)
        .args(["pip", "compile", "--help"])
        .env("UV_NO_CONFIG", "1")
        .stdin(Stdio::null())
        .output();
    let help = help.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    help.is_ok_and(|help| NEEDED.iter().all(|word| help.contains(word)))
}

/// Installs uv below `folder` with pip, which checks its hash. Returns the path of the program.
fn installed(
    folder: &Path,
    index: &str,
    network: &BTreeMap<OsString, OsString>,
    fetcher: &Fetcher,
    tell: &dyn Fn(&str),
) -> Result<PathBuf, Failure> {
    let home = folder.join(format!("uv-{VERSION}"));
    let program = home.join("bin/uv");
    if program.is_file() {
        return Ok(program);
    }
    tell(&format!("installing uv {VERSION} from the package index"));
    // pip does not say clearly why it cannot read an index.
    fetcher.releases("uv")?;
    let machine = |error: std::io::Error| {
        let what = format!("writing into `{}` failed", folder.display());
        Failure::caused(Kind::Machine, what, &error).hint(
            "check its space and permissions; `XDG_CACHE_HOME`, or `cache` in config.toml, \
             selects another cache",
        )
    };
    std::fs::create_dir_all(folder).map_err(machine)?;
    let work = tempfile::tempdir_in(folder).map_err(machine)?;
    let hashes: String = WHEELS.iter().map(|hash| format!(" --hash=sha256:{hash}")).collect();
    let list = work.path().join("requirements.txt");
    std::fs::write(&list, format!("uv=={VERSION}{hashes}\n")).map_err(machine)?;
    let target = work.path().join("uv");
    let mut arguments: Vec<OsString> = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-cache-dir",
        // If pip retries, it waits as long as `Retry-After` says, which may be a day.
        "--retries",
        "0",
        "--require-hashes",
        "--only-binary",
        ":all:",
    ]
    .map(OsString::from)
    .into();
    arguments.extend(["--target".into(), target.clone().into(), "-r".into(), list.into()]);
    let install = || {
        let mut command = Command::new("python3");
        let command = command.args(&arguments).env("PIP_INDEX_URL", index).envs(network);
        command.stdin(Stdio::null()).output().map_err(|error| {
            Failure::caused(Kind::Machine, "running `python3 -m pip` failed", &error)
                .hint("install uv, or python3 with pip")
        })
    };
    let mut output = install()?;
    if !output.status.success() {
        output = install()?;
    }
    if !output.status.success() {
        let told = Failure::new(Kind::Network, format!("cannot install uv {VERSION}"));
        return Err(Failure { log: last_lines(&output.stderr), ..told }
            .hint("install uv some other way; the tool uses the `uv` on your `PATH`"));
    }
    // Another run may have been faster; its files are the same.
    match std::fs::rename(&target, &home) {
        Err(error) if !program.is_file() => Err(machine(error)),
        Ok(()) | Err(_) => Ok(program),
    }
}

fn last_lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(SHOWN_LINES);
    lines[from..].iter().map(|line| (*line).to_owned()).collect()
}

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
