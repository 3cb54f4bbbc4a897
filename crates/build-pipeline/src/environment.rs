//! The only place that reads environment variables, and the table of those that matter.

use std::env;
use std::path::{Path, PathBuf};

use engine::{DockerBuilder, Surroundings};
use names::Secret;

use crate::error::CommandError;
use crate::exit_code::ExitCode;

/// The variables that are read, for `build-pipeline help environment`.
pub(crate) const TABLE: [(&str, &str); 29] = [
    ("BUILD_PIPELINE_DIRECTORY", "the same as -C"),
    ("BUILD_PIPELINE_MIRROR", "the same as --mirror, several parted by commas"),
    ("BUILD_PIPELINE_PROGRESS", "the same as --progress"),
    ("BUILD_PIPELINE_COLOR", "the same as --color"),
    ("BUILD_PIPELINE_LOCK_TIMEOUT", "the same as --lock-timeout"),
    ("BUILD_PIPELINE_ENGINE", "the same as --engine"),
    (
        "BUILD_PIPELINE_HOST",
        "the socket of the engine, `unix:///…`, before all other ways to find it",
    ),
    ("CONTAINER_HOST, CONTAINER_CONNECTION", "podman's socket, or the name of its connection"),
    ("DOCKER_HOST, DOCKER_CONTEXT", "docker's socket, or the name of its context"),
    (
        "DOCKER_BUILDKIT",
        "0: docker builds with its classic builder; 1: with BuildKit or not at all; not set: with BuildKit, or with a warning with its classic builder if it has no BuildKit",
    ),
    ("BUILD_PIPELINE_INDEX", "the same as --index"),
    (
        "BUILDKIT_PROGRESS",
        "read as --progress where that is not given: auto, plain, tty or rawjson",
    ),
    (
        "SOURCE_DATE_EPOCH",
        "seconds since 1970 that the image carries, in place of versions.toml's; stands in plan and labels",
    ),
    ("NO_COLOR, CLICOLOR, CLICOLOR_FORCE, TERM=dumb", "whether messages have colours"),
    ("CI", "if set, progress is plain lines even on a terminal"),
    ("REGISTRY_AUTH_FILE", "file with registry credentials, before all others"),
    ("XDG_RUNTIME_DIR", "containers/auth.json in it holds credentials of `podman login`"),
    ("DOCKER_CONFIG", "config.json in it holds credentials of `docker login` (default ~/.docker)"),
    (
        "CONTAINERS_REGISTRIES_CONF",
        "registries.conf to read instead of /etc/containers and ~/.config/containers",
    ),
    ("HTTPS_PROXY, HTTP_PROXY, NO_PROXY", "proxies; never used for loopback addresses"),
    ("SSL_CERT_FILE, SSL_CERT_DIR", "certificate authorities beside the system's"),
    (
        "XDG_CACHE_HOME",
        "build-pipeline/ in it holds manifests, configs and sources (default ~/.cache)",
    ),
    ("XDG_STATE_HOME", "build-pipeline/ in it holds records and locks (default ~/.local/state)"),
    (
        "XDG_CONFIG_HOME",
        "containers/ in it holds auth.json and registries.conf, build-pipeline/config.toml mirrors (default ~/.config)",
    ),
    (
        "HSA_*, HIP_*, ROCR_*, AMD_*, GPU_*, VLLM_*, OLLAMA_* and the like",
        "looked at by doctor; nothing else acts on them",
    ),
    (
        "LOCAL_UID, LOCAL_GID",
        "the user and group that `run` and `smoke` have files belong to, where the engine is not rootless (default: the caller's)",
    ),
    (
        "PIP_INDEX_URL",
        "where release archives and wheels are looked up; without it, where pip looks, or https://pypi.org/simple",
    ),
    (
        "PATH",
        "where programs lie: cmake, g++ or clang++, python3, sed for `patch`, apt-get, uv, python3 for `lock`",
    ),
    ("RUST_LOG", "what to log to standard error, for finding defects"),
];

/// Returns a variable that is set and not empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the builder of docker that `DOCKER_BUILDKIT` names, if it is set to a value that docker's
/// own client takes (strconv.ParseBool).
pub(crate) fn docker_builder() -> Option<DockerBuilder> {
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

fn under_home(variable: &str, default: &str) -> Option<PathBuf> {
    path_variable(variable).or_else(|| Some(path_variable("HOME")?.join(default)))
}

/// Returns the folder for what can be fetched again, where there is a home.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    Some(under_home("XDG_CACHE_HOME", ".cache")?.join("build-pipeline"))
}

/// Returns the folder for sockets, which must have a short path.
pub(crate) fn socket_folder() -> Result<PathBuf, CommandError> {
    match path_variable("XDG_RUNTIME_DIR").filter(|folder| folder.is_dir()) {
        Some(folder) => Ok(folder.join("build-pipeline")),
        None => Ok(state_folder()?.join("sockets")),
    }
}

/// Returns the folder of apt's configuration.
pub(crate) fn apt_folder() -> PathBuf {
    PathBuf::from("/etc/apt")
}

/// Returns the folder of finished steps.
pub(crate) fn store_folder() -> Result<PathBuf, CommandError> {
    let cache = cache_folder().ok_or_else(|| {
        CommandError::new(ExitCode::Machine, "there is no home directory to keep finished steps in")
            .hint("set `HOME` or `XDG_CACHE_HOME` to an absolute path")
    })?;
    Ok(cache.join("store"))
}

/// Returns what the environment and the files of podman and docker say of engines.
pub(crate) fn engines() -> Surroundings {
    let text = |path: Option<PathBuf>| path.and_then(|path| std::fs::read_to_string(path).ok());
    let containers = under_home("XDG_CONFIG_HOME", ".config").map(|one| one.join("containers"));
    let docker = under_home("DOCKER_CONFIG", ".docker");
    let contexts = docker.as_ref().map(|folder| folder.join("contexts/meta"));
    let contexts = contexts.and_then(|folder| std::fs::read_dir(folder).ok());
    let contexts = contexts.into_iter().flatten().flatten();
    Surroundings {
        host_option: None,
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

/// Returns where a program lies.
pub(crate) fn program_in_path(name: &str) -> Option<PathBuf> {
    let folders = program_path();
    env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Returns the user's configuration file, which need not exist.
pub(crate) fn config_file() -> Option<PathBuf> {
    Some(under_home("XDG_CONFIG_HOME", ".config")?.join("build-pipeline/config.toml"))
}

/// Returns the Python package index that pip is told to use.
pub(crate) fn python_index() -> Option<Secret> {
    variable("PIP_INDEX_URL").map(Secret::new)
}

/// Returns the folder for records and locks.
pub(crate) fn state_folder() -> Result<PathBuf, CommandError> {
    let folder = under_home("XDG_STATE_HOME", ".local/state").ok_or_else(|| {
        CommandError::new(ExitCode::Machine, "there is no home directory to keep records in")
            .hint("set `HOME` or `XDG_STATE_HOME` to an absolute path")
    })?;
    Ok(folder.join("build-pipeline"))
}

/// Returns the credential files in the order in which they are asked (containers-auth.json(5)).
pub(crate) fn credential_files() -> Vec<PathBuf> {
    let files = [
        path_variable("REGISTRY_AUTH_FILE"),
        path_variable("XDG_RUNTIME_DIR").map(|folder| folder.join("containers/auth.json")),
        under_home("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("containers/auth.json")),
        under_home("DOCKER_CONFIG", ".docker").map(|folder| folder.join("config.json")),
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

/// Returns the registries.conf files that exist, in the order in which they are merged
/// (containers-registries.conf(5): a user's file replaces the system's, drop-ins come on top).
pub(crate) fn registries_conf_files() -> Vec<PathBuf> {
    if let Some(file) = path_variable("CONTAINERS_REGISTRIES_CONF") {
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

/// Returns the time that every image of this run carries, where the caller's environment sets one.
pub(crate) fn source_date_epoch() -> Result<Option<u64>, CommandError> {
    let Some(text) = variable("SOURCE_DATE_EPOCH") else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        CommandError::new(ExitCode::Input, format!("SOURCE_DATE_EPOCH `{text}` is not a number of seconds since 1970"))
            .hint("`date +%s` prints one; `unset SOURCE_DATE_EPOCH` takes the time of `versions/versions.toml`")
    })
}

/// Returns whether this is a run of a CI system.
pub(crate) fn is_ci() -> bool {
    variable("CI").is_some_and(|value| value != "false" && value != "0")
}

/// Returns what BuildKit's variable asks progress to be.
pub(crate) fn buildkit_progress() -> Option<String> {
    variable("BUILDKIT_PROGRESS")
}

/// Returns the variables that say how programs reach the network.
pub(crate) fn network_variables()
-> std::collections::BTreeMap<std::ffi::OsString, std::ffi::OsString> {
    const NAMES: [&str; 10] = [
        "ALL_PROXY",
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "NO_PROXY",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "all_proxy",
        "http_proxy",
        "https_proxy",
        "no_proxy",
    ];
    NAMES.iter().filter_map(|name| Some((name.into(), env::var_os(name)?))).collect()
}

/// Returns the directories that programs are looked for in.
pub(crate) fn program_path() -> std::ffi::OsString {
    env::var_os("PATH").unwrap_or_default()
}

/// Returns the variables that change what a GPU seems to be, or how programs use it, and `HOME`.
pub(crate) fn gpu_variables() -> std::collections::BTreeMap<String, String> {
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

/// Returns the user and group that a container's files are to belong to, where somebody says so.
pub(crate) fn local_ids() -> Result<(Option<u32>, Option<u32>), CommandError> {
    let number = |name: &str| match variable(name) {
        None => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| {
            CommandError::new(ExitCode::Input, format!("{name} `{text}` is not a number"))
                .hint("`id -u` and `id -g` print yours; without the variables they are taken")
        }),
    };
    Ok((number("LOCAL_UID")?, number("LOCAL_GID")?))
}

/// Returns where this program lies.
pub(crate) fn program() -> Result<PathBuf, CommandError> {
    env::current_exe().map_err(|error| {
        CommandError::caused(ExitCode::Machine, "the program's own path is not known", &error)
    })
}

/// Returns the filter of log lines, where one is set.
pub(crate) fn log_filter() -> Option<String> {
    variable("RUST_LOG")
}
