//! The only module that reads environment variables, with a table of those that have an effect.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use engine::{DockerBuilder, Surroundings};
use failure::{Failure, Kind};
use names::Secret;
use sources::{Hosts, ParseProxyError, Proxies, ProxyUrl};

use crate::mirrors::Mirrors;

/// The variables that the program reads, for `build-pipeline help environment`.
pub const TABLE: [(&str, &str); 34] = [
    ("BUILD_PIPELINE_DIRECTORY", "same as -C"),
    ("BUILD_PIPELINE_MIRROR", "same as --mirror, comma-separated"),
    ("BUILD_PIPELINE_MIRROR_ONLY", "1: same as --mirror-only"),
    ("BUILD_PIPELINE_PROGRESS", "same as --progress"),
    ("BUILD_PIPELINE_COLOR", "same as --color"),
    ("BUILD_PIPELINE_LOCK_TIMEOUT", "same as --lock-timeout"),
    ("BUILD_PIPELINE_ENGINE", "same as --engine"),
    (
        "BUILD_PIPELINE_HOST",
        "the engine's socket, `unix:///…`; takes precedence over all other ways to find an engine",
    ),
    ("CONTAINER_HOST, CONTAINER_CONNECTION", "podman's socket, or the name of a podman connection"),
    ("DOCKER_HOST, DOCKER_CONTEXT", "docker's socket, or the name of a docker context"),
    (
        "DOCKER_BUILDKIT",
        "0: docker uses its classic builder; 1: docker must use BuildKit; not set: BuildKit, or the classic builder with a warning if BuildKit cannot be used",
    ),
    ("BUILD_PIPELINE_INDEX", "same as --index"),
    (
        "BUILDKIT_PROGRESS",
        "used as --progress if --progress is not given: auto, plain, tty or rawjson",
    ),
    (
        "SOURCE_DATE_EPOCH",
        "the image's time in seconds since 1970, instead of the one in versions.toml; part of the plan and the labels",
    ),
    ("NO_COLOR, CLICOLOR, CLICOLOR_FORCE, TERM=dumb", "whether messages have colours"),
    ("CI", "if set (not to false or 0), progress is printed as plain lines even on a terminal"),
    ("REGISTRY_AUTH_FILE", "file with registry credentials, read before all others"),
    (
        "XDG_RUNTIME_DIR",
        "its containers/auth.json contains the credentials of `podman login`; its build-pipeline/ \
         contains the sockets of podman services",
    ),
    (
        "DOCKER_CONFIG",
        "its config.json contains the credentials of `docker login` (default ~/.docker)",
    ),
    (
        "CONTAINERS_REGISTRIES_CONF",
        "registries.conf to read instead of /etc/containers and ~/.config/containers",
    ),
    (
        "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY",
        "proxies for all downloads, and the hosts that need none, comma-separated; also in lower case; never used for loopback addresses (default: `[proxy]` in config.toml)",
    ),
    ("SSL_CERT_FILE, SSL_CERT_DIR", "certificate authorities to trust instead of the system's"),
    (
        "HOME",
        "the home directory: `~` in this list, in versions/run.toml and in files that `run --print` writes",
    ),
    (
        "XDG_CACHE_HOME",
        "its build-pipeline/ contains blobs, sources and finished steps, which can be fetched or built again (default ~/.cache); if it is not set, `cache` in config.toml can select another folder",
    ),
    (
        "XDG_STATE_HOME",
        "its build-pipeline/ contains records, locks, the results of `outdated`, the list of checked blobs and, without XDG_RUNTIME_DIR, sockets (default ~/.local/state)",
    ),
    (
        "XDG_CONFIG_HOME",
        "its containers/ contains auth.json and registries.conf, its build-pipeline/config.toml contains your defaults and mirrors (default ~/.config)",
    ),
    (
        "HSA_*, HIP_*, ROCR_*, AMD_*, GPU_*, VLLM_*, OLLAMA_* and similar",
        "checked by `doctor`; `env` unsets a stale HSA_OVERRIDE_GFX_VERSION",
    ),
    (
        "LOCAL_UID, LOCAL_GID",
        "the user and group that own the files created by `run` and `smoke`, if the engine is not rootless (default: the caller's)",
    ),
    (
        "HF_TOKEN",
        "passed on to the containers of `run` and `smoke`; files that `run --print` writes contain only its name",
    ),
    (
        "PIP_INDEX_URL",
        "the index for release archives and wheels; default: the one that pip uses, or https://pypi.org/simple",
    ),
    (
        "PATH",
        "where to find programs: podman; credential helpers; cmake, g++ or clang++, python3 and sed for `patch`; apt-get, uv and python3 for `lock`",
    ),
    (
        "SUDO_UID",
        "the user who called sudo; root also uses a project of this user in a parent folder",
    ),
    ("TMPDIR", "the folder for small temporary files, for example those of `lock` (default /tmp)"),
    ("RUST_LOG", "what to log to standard error, for debugging this tool"),
];

/// Returns a variable if it is set and not empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns whether a variable is set and empty.
pub fn is_empty(name: &OsStr) -> bool {
    env::var_os(name).is_some_and(|value| value.is_empty())
}

/// Returns whether a variable of this program is set and empty.
pub fn has_empty() -> bool {
    let mut own = TABLE.iter().filter(|(name, _)| name.starts_with("BUILD_PIPELINE_"));
    own.any(|(name, _)| is_empty(name.as_ref()))
}

/// Returns the ID of the user who called sudo, if this program runs under it.
pub(crate) fn sudo_caller() -> Option<u32> {
    variable("SUDO_UID")?.parse().ok()
}

/// Returns the docker builder that `DOCKER_BUILDKIT` selects, if its value is one that docker's own
/// client accepts (strconv.ParseBool).
pub fn docker_builder() -> Option<DockerBuilder> {
    match variable("DOCKER_BUILDKIT")?.as_str() {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(DockerBuilder::BuildKit),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(DockerBuilder::Classic),
        _ => None,
    }
}

fn path_variable(name: &str) -> Option<PathBuf> {
    // XDG: "all paths must be absolute; a relative path is to be ignored".
    env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Returns the path in a variable of podman or docker, which may be relative to the current folder.
fn engine_path_variable(name: &str) -> Option<PathBuf> {
    let path = env::var_os(name).filter(|path| !path.is_empty())?;
    std::path::absolute(path).ok()
}

fn under_home(variable: &str, default: &str) -> Option<PathBuf> {
    path_variable(variable).or_else(|| Some(path_variable("HOME")?.join(default)))
}

/// Returns the folder with docker's configuration.
fn docker_folder() -> Option<PathBuf> {
    engine_path_variable("DOCKER_CONFIG").or_else(|| Some(path_variable("HOME")?.join(".docker")))
}

/// The folder for data that can be fetched again, from the user's configuration.
static CACHE: OnceLock<PathBuf> = OnceLock::new();

/// Sets the folder for data that can be fetched again, unless the environment sets it. Only the
/// first call has an effect.
pub fn use_cache_folder(folder: PathBuf) {
    drop(CACHE.set(folder));
}

/// Returns the folder for data that can be fetched again, if there is a home directory.
pub fn cache_folder() -> Option<PathBuf> {
    match CACHE.get().filter(|_| path_variable("XDG_CACHE_HOME").is_none()) {
        Some(folder) => Some(folder.clone()),
        None => Some(under_home("XDG_CACHE_HOME", ".cache")?.join("build-pipeline")),
    }
}

/// Returns the folder for data that can be fetched again, as a path that may start with `~/`.
pub fn shown_cache_folder() -> String {
    let is_chosen = CACHE.get().is_some() || path_variable("XDG_CACHE_HOME").is_some();
    let chosen = cache_folder().filter(|_| is_chosen);
    chosen.map_or("~/.cache/build-pipeline".to_owned(), |folder| folder.display().to_string())
}

/// Returns the folder for large temporary files, if there is a home directory.
pub fn work_folder() -> Option<PathBuf> {
    Some(cache_folder()?.join("work"))
}

/// Returns the folder for sockets, whose path must be short.
///
/// # Errors
/// There is neither a runtime folder nor a home directory.
pub fn socket_folder() -> Result<PathBuf, Failure> {
    match path_variable("XDG_RUNTIME_DIR").filter(|folder| folder.is_dir()) {
        Some(folder) => Ok(folder.join("build-pipeline")),
        None => Ok(state_folder()?.join("sockets")),
    }
}

/// Returns the folder that rootless podman uses for its state without `XDG_RUNTIME_DIR`, if it
/// would look for it below `TMPDIR`. podman writes its path into its database, and keeps a process
/// that uses it, so it must outlive any folder of this tool.
pub fn podman_state() -> Option<PathBuf> {
    let user = rustix::process::getuid();
    let usual = format!("/run/user/{}", user.as_raw());
    if user.is_root() || variable("XDG_RUNTIME_DIR").is_some() || Path::new(&usual).exists() {
        return None;
    }
    let folder = env::temp_dir().join(format!("podman-run-{}", user.as_raw()));
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    let found = fs::symlink_metadata(&folder).ok()?;
    (made.is_ok() && found.is_dir() && found.uid() == user.as_raw()).then_some(folder)
}

/// Returns apt's configuration folder.
pub fn apt_folder() -> PathBuf {
    PathBuf::from("/etc/apt")
}

/// Returns the folder of finished steps.
///
/// # Errors
/// There is no home directory.
pub fn store_folder() -> Result<PathBuf, Failure> {
    let cache = cache_folder().ok_or_else(|| {
        Failure::new(Kind::Machine, "no home directory to keep finished steps in")
            .hint("set `HOME` or `XDG_CACHE_HOME` to an absolute path")
    })?;
    Ok(cache.join("store"))
}

/// Returns the settings for engines in the environment and in the files of podman and docker.
pub fn engines() -> Surroundings {
    let text = |path: Option<PathBuf>| path.and_then(|path| std::fs::read_to_string(path).ok());
    let containers = under_home("XDG_CONFIG_HOME", ".config").map(|one| one.join("containers"));
    let docker = docker_folder();
    let contexts = docker.as_ref().map(|folder| folder.join("contexts/meta"));
    let contexts = contexts.and_then(|folder| std::fs::read_dir(folder).ok());
    let contexts = contexts.into_iter().flatten().flatten();
    Surroundings {
        wanted: None,
        own_host: variable("BUILD_PIPELINE_HOST"),
        container_host: variable("CONTAINER_HOST"),
        container_connection: variable("CONTAINER_CONNECTION"),
        podman_connections: text(containers.map(|one| one.join("podman-connections.json"))),
        docker_host: variable("DOCKER_HOST"),
        docker_context: variable("DOCKER_CONTEXT"),
        docker_config: text(docker.map(|one| one.join("config.json"))),
        docker_contexts: contexts
            .filter_map(|entry| text(Some(entry.path().join("meta.json"))))
            .collect(),
        runtime_dir: path_variable("XDG_RUNTIME_DIR"),
        podman_program: program_in_path("podman"),
    }
}

/// Returns the path of a program.
pub fn program_in_path(name: &str) -> Option<PathBuf> {
    let folders = program_path();
    env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Returns the user's configuration file, which may not exist.
pub fn config_file() -> Option<PathBuf> {
    Some(under_home("XDG_CONFIG_HOME", ".config")?.join("build-pipeline/config.toml"))
}

/// Returns the Python package index in `PIP_INDEX_URL`, if it is set.
pub fn python_index() -> Option<Secret> {
    variable("PIP_INDEX_URL").map(Secret::new)
}

/// Returns the folder for records and locks.
///
/// # Errors
/// There is no home directory.
pub fn state_folder() -> Result<PathBuf, Failure> {
    let folder = under_home("XDG_STATE_HOME", ".local/state").ok_or_else(|| {
        Failure::new(Kind::Machine, "no home directory to keep records in")
            .hint("set `HOME` or `XDG_STATE_HOME` to an absolute path")
    })?;
    Ok(folder.join("build-pipeline"))
}

/// Returns the credential files in search order (containers-auth.json(5)).
pub fn credential_files() -> Vec<PathBuf> {
    let files = [
        engine_path_variable("REGISTRY_AUTH_FILE"),
        path_variable("XDG_RUNTIME_DIR").map(|folder| folder.join("containers/auth.json")),
        under_home("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("containers/auth.json")),
        docker_folder().map(|folder| folder.join("config.json")),
        path_variable("HOME").map(|home| home.join(".docker/config.json")),
    ];
    let mut all: Vec<PathBuf> = Vec::new();
    for file in files.into_iter().flatten() {
        if !all.contains(&file) {
            all.push(file);
        }
    }
    all
}

/// Returns the registries.conf files in merge order (containers-registries.conf(5): a user's file
/// replaces the system's, drop-ins are applied last). `CONTAINERS_REGISTRIES_CONF` replaces all.
pub fn registries_conf_files() -> Vec<PathBuf> {
    if let Some(file) = engine_path_variable("CONTAINERS_REGISTRIES_CONF") {
        return vec![file];
    }
    let user = under_home("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("containers"));
    let system = Path::new("/etc/containers");
    let in_user =
        user.as_ref().map(|folder| folder.join("registries.conf")).filter(|file| file.is_file());
    let in_system = Some(system.join("registries.conf")).filter(|file| file.is_file());
    let mut files: Vec<PathBuf> = in_user.or(in_system).into_iter().collect();
    for folder in [Some(system), user.as_deref()].into_iter().flatten() {
        let entries = std::fs::read_dir(folder.join("registries.conf.d"));
        let mut dropins: Vec<PathBuf> =
            entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        dropins.retain(|file| file.extension().is_some_and(|extension| extension == "conf"));
        dropins.sort();
        files.extend(dropins);
    }
    files
}

/// Returns the time of every image of this run, if the environment sets one.
///
/// # Errors
/// `SOURCE_DATE_EPOCH` is not a number.
pub fn source_date_epoch() -> Result<Option<u64>, Failure> {
    let Some(text) = variable("SOURCE_DATE_EPOCH") else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        Failure::new(Kind::Input, format!("SOURCE_DATE_EPOCH `{text}` is not a Unix timestamp (seconds since 1970)"))
            .hint("`date +%s` prints one; `unset SOURCE_DATE_EPOCH` selects the time in `versions/versions.toml`")
    })
}

/// Returns whether a CI system runs this program.
pub fn is_ci() -> bool {
    variable("CI").is_some_and(|value| value != "false" && value != "0")
}

/// Returns the progress format that BuildKit's variable requests.
pub fn buildkit_progress() -> Option<String> {
    variable("BUILDKIT_PROGRESS")
}

/// Returns the proxies for downloads: from the environment, or else from the configuration.
///
/// # Errors
/// A variable is not the URL of a proxy.
pub fn proxies(configured: &Proxies) -> Result<Proxies, Failure> {
    let of = |names: &[&str], fallback: &Option<ProxyUrl>| {
        let found = names.iter().find_map(|name| Some((*name, variable(name)?)));
        let Some((name, text)) = found else { return Ok(fallback.clone()) };
        text.parse().map(Some).map_err(|error: ParseProxyError| {
            Failure::caused(Kind::Input, format!("cannot use the variable `{name}`"), &error).hint(
                format!(
                    "write a URL such as `http://proxy.example.org:3128`, or run `unset {name}`"
                ),
            )
        })
    };
    let except = ["NO_PROXY", "no_proxy"].into_iter().find_map(variable);
    Ok(Proxies {
        http: of(&["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"], &configured.http)?,
        https: of(&["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"], &configured.https)?,
        except: except.map_or_else(|| configured.except.clone(), |hosts| vec![hosts]),
    })
}

/// Returns the variables that define how programs reach the network. If only some hosts may be
/// contacted and there is no proxy, programs get the URL of a proxy that does not exist, which they
/// use for all other hosts.
///
/// # Errors
/// A variable is not the URL of a proxy.
pub fn network_variables(mirrors: &Mirrors) -> Result<BTreeMap<OsString, OsString>, Failure> {
    let Proxies { http, https, except } = proxies(&mirrors.proxies)?;
    let certificates = ["SSL_CERT_DIR", "SSL_CERT_FILE"];
    let mut all: BTreeMap<OsString, OsString> = certificates
        .into_iter()
        .filter_map(|name| Some((name.into(), env::var_os(name)?)))
        .collect();
    let mut set = |names: [&str; 2], value: &str| {
        all.extend(names.map(|name| (OsString::from(name), OsString::from(value))));
    };
    let (has_proxy, hosts) = (http.is_some() || https.is_some(), mirrors.hosts());
    if let Hosts::Only(hosts) = &hosts
        && !has_proxy
    {
        set(["HTTP_PROXY", "http_proxy"], NO_PROGRAM_LISTENS);
        set(["HTTPS_PROXY", "https_proxy"], NO_PROGRAM_LISTENS);
        // Programs expect names without ports.
        let host = |host: &String| match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name.to_owned(),
            _ => host.clone(),
        };
        let direct = hosts.iter().map(host).collect::<Vec<_>>().join(",");
        set(["NO_PROXY", "no_proxy"], &direct);
        return Ok(all);
    }
    if let Some(url) = http {
        set(["HTTP_PROXY", "http_proxy"], url.secret().expose());
    }
    if let Some(url) = https {
        set(["HTTPS_PROXY", "https_proxy"], url.secret().expose());
    }
    if has_proxy {
        let here = HERE.map(str::to_owned);
        let direct = except.into_iter().chain(here).collect::<Vec<_>>().join(",");
        set(["NO_PROXY", "no_proxy"], &direct);
    }
    Ok(all)
}

/// The names of this machine, which is never contacted through a proxy.
const HERE: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The URL of a proxy that does not exist: the port "discard" of this machine.
const NO_PROGRAM_LISTENS: &str = "http://127.0.0.1:9";

/// Returns the directories to search for programs.
pub fn program_path() -> OsString {
    env::var_os("PATH").unwrap_or_default()
}

/// Returns `HOME` and the variables that change how a GPU appears or how programs use it.
pub fn gpu_variables() -> BTreeMap<String, String> {
    const STARTS: [&str; 12] = [
        "HSA_", "HIP_", "ROC_", "ROCR_", "AMD_", "GPU_", "CUDA_", "TORCH_", "PYTORCH_", "VLLM_",
        "OLLAMA_", "GGML_",
    ];
    env::vars_os()
        .filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            let is_wanted = name == "HOME" || STARTS.iter().any(|start| name.starts_with(start));
            is_wanted.then(|| (name, value.to_string_lossy().into_owned()))
        })
        .collect()
}

/// Returns a variable that the user passes on to a container, if it is set.
pub fn passed(name: &str) -> Option<Secret> {
    env::var(name).ok().map(Secret::new)
}

/// Returns the user and group that should own a container's files, if the environment sets them.
///
/// # Errors
/// A variable is not a number.
pub fn local_ids() -> Result<(Option<u32>, Option<u32>), Failure> {
    let number = |name: &str| {
        match variable(name) {
        None => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| {
            Failure::new(Kind::Input, format!("{name} `{text}` is not a numeric ID"))
                .hint("`id -u` and `id -g` print yours, which are the default if the variables are not set")
        }),
    }
    };
    Ok((number("LOCAL_UID")?, number("LOCAL_GID")?))
}

/// Returns the path of this program.
///
/// # Errors
/// The system does not report it.
pub fn program() -> Result<PathBuf, Failure> {
    env::current_exe().map_err(|error| {
        Failure::caused(Kind::Machine, "cannot find this program's own path", &error)
    })
}

/// Returns the path at which `PATH` finds this program or a copy of it.
pub fn program_as_installed() -> Option<PathBuf> {
    let own = program().ok()?.canonicalize().ok()?;
    let found = program_in_path("build-pipeline").filter(|path| path.is_absolute())?;
    let is_copy = || {
        let size = |path: &Path| path.metadata().map(|file| file.len()).ok();
        size(&found) == size(&own) && std::fs::read(&found).ok() == std::fs::read(&own).ok()
    };
    let is_same = found.canonicalize().ok().as_ref() == Some(&own) || is_copy();
    is_same.then_some(found)
}

/// Returns the log filter, if one is set.
pub fn log_filter() -> Option<String> {
    variable("RUST_LOG")
}
