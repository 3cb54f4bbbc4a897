//! Determines what an engine can really do on this machine, with a `RUN` that needs no image.
//!
//! Versions and settings do not show this: podman treats `networkmode=none` as the host's network,
//! and an installed runtime may not support this kernel's cgroups. So the probe builds a program of
//! a few hundred bytes `FROM scratch`, which prints the network that it sees.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use names::Builder;

use crate::build::{BuildRequest, Network, RUN_LABEL, RunId};
use crate::dialect::Dialect;
use crate::error::{EngineError, is_without_ids};
use crate::retry::retried;
use crate::transcript::BuildEvent;
use crate::wire::ByteStream;
use crate::{Engine, EngineInfo};

/// The facts about an engine, and its capabilities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The facts that the engine reports about itself.
    pub info: EngineInfo,
    /// The OCI runtime to use for its services, if the default does not work.
    pub runtime: Option<String>,
    /// The runtimes that do not work here, with their error messages.
    pub runtime_failures: Vec<String>,
    /// Whether cancelling a build stops its `RUN`.
    pub can_cancel: bool,
    /// The builder that built the probe.
    pub builder: Builder,
    /// The result of a `RUN`.
    pub run: RunProbe,
}

/// The result of a `RUN` without a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunProbe {
    /// Its network namespace, `net:[…]`.
    pub network_namespace: String,
    /// The network interfaces that it sees.
    pub interfaces: Vec<String>,
    /// Whether it is isolated: not in the namespace of this process, and with only `lo`.
    pub is_isolated: bool,
}

/// The probe for x86-64 Linux, assembled from `probe.s`. It prints the target of
/// `/proc/self/ns/net` and the content of `/proc/self/net/dev`.
const CODE: &[u8] = include_bytes!("probe.bin");

/// The load address of the probe.
const ADDRESS: u64 = 0x40_0000;

/// The size of the ELF header and one program header.
const HEADERS: u16 = 64 + 56;

/// Returns whether a folder contains a probe and nothing else, like the layer of a probe.
pub(crate) fn is_in(folder: &Path) -> bool {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
    let file = folder.join(FILE);
    let is_small = |found: std::fs::Metadata| found.is_file() && found.len() < 1 << 16;
    names == [FILE]
        && std::fs::symlink_metadata(&file).is_ok_and(is_small)
        && std::fs::read(&file).is_ok_and(|bytes| {
            bytes.get(HEADERS.into()..).is_some_and(|rest| rest.starts_with(CODE))
        })
}

/// The name of the probe in the context and in the image.
const FILE: &str = "probe";

/// Returns the probe as an executable: an ELF header, one segment, the code, and `salt`.
pub(crate) fn executable(salt: &str) -> Vec<u8> {
    let size = u64::from(HEADERS) + (CODE.len() + salt.len()) as u64;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // ET_EXEC, EM_X86_64, version 1.
    elf.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    // Entry point, program headers at 64, no section headers.
    elf.extend([ADDRESS + u64::from(HEADERS), 64, 0].map(u64::to_le_bytes).concat());
    elf.extend([0; 4]);
    // Header sizes; one program header, no sections.
    elf.extend([64u16, 56, 1, 64, 0, 0].map(u16::to_le_bytes).concat());
    // PT_LOAD, readable and executable: the whole file.
    elf.extend([1u32, 5].map(u32::to_le_bytes).concat());
    elf.extend([0, ADDRESS, ADDRESS, size, size, 0x1000].map(u64::to_le_bytes).concat());
    elf.extend(CODE);
    elf.extend(salt.as_bytes());
    elf
}

/// Returns the Dockerfile of the probe. Each of its steps gets the label of the run. The file
/// belongs to another user than root, as some files of almost every image do.
fn dockerfile(options: &str, run: &RunId) -> String {
    let run = run.as_str();
    format!(
        "FROM scratch\nLABEL {RUN_LABEL}={run}\nCOPY --chown=1:1 {FILE} /{FILE}\nRUN {options}[\"/{FILE}\"]\n"
    )
}

fn context(dockerfile: &str, salt: &str) -> std::io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes, mode) in
        [("Dockerfile", dockerfile.as_bytes(), 0o644), (FILE, &executable(salt), 0o755)]
    {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(mode);
        tar.append_data(&mut header, name, bytes)?;
    }
    tar.into_inner()
}

/// Determines what an engine is and can do, with the first OCI runtime that works.
pub(crate) async fn probe(engine: &Engine) -> Result<Capabilities, EngineError> {
    let info = retried(async || engine.info().await).await?;
    let mut runtime_failures = Vec::new();
    for runtime in engine.runtimes() {
        let other = runtime.and_then(|runtime| engine.with_runtime(runtime));
        match run(other.as_ref().unwrap_or(engine)).await {
            Ok(run) => {
                return Ok(Capabilities {
                    runtime: runtime.map(str::to_owned),
                    runtime_failures,
                    can_cancel: engine.can_cancel(),
                    builder: engine.builder(),
                    run,
                    info,
                });
            }
            Err(EngineError::Runtime { detail }) => {
                runtime_failures.push(format!("{}: {detail}", runtime.unwrap_or(&info.runtime)));
            }
            Err(error) => return Err(error),
        }
    }
    Err(EngineError::Runtime { detail: runtime_failures.join("; ") })
}

/// Returns a string that is unique to this probe. Two simultaneous probes with the same layers
/// would interfere: one would remove images that the other builds on.
fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // Processes in other containers may have the same process ID.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{count}-{:06x}", std::process::id(), now.as_micros() & 0xff_ffff)
}

/// Builds the probe without a network, and retries if the failure may be temporary.
async fn run(engine: &Engine) -> Result<RunProbe, EngineError> {
    let name = format!("probe-{}", unique());
    let run = RunId::parse(&name).ok_or_else(|| nonsense(format!("bad run `{name}`")))?;
    let probed = retried(async || run_once(engine, &run).await).await;
    // podman keeps the images of a build's steps, even if a RUN fails. An interrupted attempt may
    // have left its image.
    let is_answered = matches!(&probed, Ok(_) | Err(EngineError::Runtime { .. }));
    if is_answered && let Err(error) = engine.clean(&run).await {
        tracing::debug!(%error, "cannot remove the leftovers of a probe");
    }
    probed
}

/// Builds the probe without a network and removes it again.
async fn run_once(engine: &Engine, run: &RunId) -> Result<RunProbe, EngineError> {
    let dockerfile = dockerfile(engine.dialect().probe_options(), run);
    let context = context(&dockerfile, &unique())
        .map_err(|source| EngineError::Input { action: ACTION.to_owned(), source })?;
    let request = BuildRequest {
        run: run.clone(),
        dockerfile: "Dockerfile".to_owned(),
        dockerfile_text: dockerfile,
        target: None,
        build_args: BTreeMap::new(),
        labels: BTreeMap::new(),
        network: Network::None,
        use_cache: false,
        idle_limit: Duration::from_secs(120),
    };
    let stream: ByteStream = Box::pin(futures_util::stream::iter([Ok(Bytes::from(context))]));
    let mut lines = Vec::new();
    let mut on_event = |event| {
        if let BuildEvent::Line(line) = event {
            lines.push(line.text);
        }
    };
    let built = engine.build(&request, stream, &mut on_event).await;
    let built = built.map_err(|error| judged(error, engine.dialect()))?;
    engine.client().await?.remove_image(built.image.as_str(), true).await?;
    let own = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    read(&lines, &own).ok_or_else(|| nonsense(format!("the probe printed: {}", lines.join(" / "))))
}

/// The current action, for errors.
const ACTION: &str = "probe the engine";

fn nonsense(detail: String) -> EngineError {
    EngineError::Nonsense { action: ACTION.to_owned(), detail }
}

/// Maps a failed probe to [`EngineError::Unavailable`] if the engine reported that it does not have
/// its builder, that the builder cannot read the context, or that it lacks user IDs.
fn judged(error: EngineError, dialect: &dyn Dialect) -> EngineError {
    let detail = match &error {
        EngineError::Dockerfile { detail, .. }
        | EngineError::BaseMissing { detail }
        | EngineError::Refused { detail, .. } => detail.clone(),
        _ => return error,
    };
    if is_without_ids(&detail) {
        return EngineError::Unavailable { what: "user IDs for the files of images", detail };
    }
    match dialect.missing(&detail.to_lowercase()) {
        Some(what) => EngineError::Unavailable { what, detail },
        None => error,
    }
}

/// Reads the probe's output.
fn read(lines: &[String], own: &Path) -> Option<RunProbe> {
    let begin = lines.iter().position(|line| line.starts_with("net:["))?;
    let network_namespace = lines[begin].clone();
    // Two header lines, then ` eth0: 12 …`.
    let rows = lines[begin + 1..].iter().skip(2);
    let interfaces: Vec<String> = rows
        .map_while(|row| Some(row.split_once(": ")?.0.trim().to_owned()))
        .filter(|name| !name.contains(' '))
        .collect();
    let is_other = Path::new(&network_namespace) != own;
    let is_isolated = is_other && interfaces == ["lo"];
    Some(RunProbe { network_namespace, interfaces, is_isolated })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DockerBuilder;

    #[test]
    fn the_probe_runs_here_and_sees_our_own_network() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("probe");
        std::fs::write(&program, executable("1-0-00002a")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        let output = std::process::Command::new(&program).output().unwrap();
        assert!(output.status.success());
        let lines: Vec<String> =
            String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        let probe = read(&lines, &own).unwrap();
        assert_eq!(Path::new(&probe.network_namespace), own);
        assert!(probe.interfaces.contains(&"lo".to_owned()));
        assert!(!probe.is_isolated);
    }

    #[test]
    fn a_folder_with_only_a_probe_is_recognised() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert!(!is_in(path));
        std::fs::write(path.join(FILE), "#!/bin/sh\n").unwrap();
        assert!(!is_in(path));
        std::fs::write(path.join(FILE), executable("1-0-00002a")).unwrap();
        assert!(is_in(path));
        std::fs::write(path.join("other"), "").unwrap();
        assert!(!is_in(path));
        assert!(!is_in(&path.join("none")));
    }

    #[test]
    fn only_lo_in_another_namespace_is_isolation() {
        let lines = |rows: &[&str]| {
            let mut lines = vec![" ---> Running in 1", "net:[42]", "Inter-| R", " face |bytes"];
            lines.extend(rows);
            lines.into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let judge = |rows: &[&str], own| read(&lines(rows), Path::new(own)).unwrap().is_isolated;
        assert!(judge(&["    lo: 0 0", "COMMIT"], "net:[1]"));
        assert!(!judge(&["    lo: 0 0"], "net:[42]"));
        assert!(!judge(&["    lo: 0 0", "  eth0: 1 2"], "net:[1]"));
        assert!(!judge(&[], "net:[1]"));
        assert_eq!(read(&["nothing".to_owned()], Path::new("x")), None);
    }

    #[test]
    fn only_an_answer_of_the_daemon_says_that_there_is_no_buildkit() {
        let refused =
            |detail: &str| EngineError::Dockerfile { detail: detail.to_owned(), line: None };
        let answers = [
            "the --mount option requires BuildKit. Refer to https://docs.docker.com/go/buildkit/ to learn how to build images with BuildKit enabled",
            "Dockerfile parse error line 3: Unknown flag: mount",
            "buildkit is only supported with experimental mode",
            "failed to read downloaded context: failed to load cache key: Get \"http://build-context-sla5\": dial tcp: lookup build-context-sla5 on 10.0.0.53:53: no such host",
            "failed to read downloaded context: failed to load cache key: invalid response status 403",
        ];
        for answer in answers {
            let error = judged(refused(answer), &DockerBuilder::BuildKit);
            assert!(matches!(error, EngineError::Unavailable { .. }), "{error:?}");
            assert!(error.is_definitive() && error.to_string().contains(answer), "{error}");
            // The classic builder's own probe has no mount, so it shows nothing about BuildKit.
            assert!(!judged(refused(answer), &DockerBuilder::Classic).is_definitive());
        }
        for other in [
            "rpc error: code = Unavailable desc = transport is closing",
            "failed to solve: context canceled",
            "failed to read downloaded context: context canceled",
            "failed to prepare 3cx: parent snapshot does not exist: not found",
            "Server is shutting down",
        ] {
            assert!(!judged(refused(other), &DockerBuilder::BuildKit).is_definitive(), "{other}");
        }
        let lost = EngineError::Lost { action: String::new(), reason: String::new() };
        assert!(!judged(lost, &DockerBuilder::BuildKit).is_definitive());
    }

    /// A rootless podman whose user has no line in /etc/subuid maps only the user's own ID.
    #[test]
    fn an_engine_without_user_ids_is_a_definite_answer() {
        let copied = "copier: put: error setting ownership of \"/probe\" to 1:1: lchown /probe: invalid argument";
        let unpacked = "potentially insufficient UIDs or GIDs available in user namespace (requested 1:1 for /probe): Check /etc/subuid and /etc/subgid: lchown /probe: invalid argument";
        for detail in [copied, unpacked] {
            let error = EngineError::Dockerfile { detail: detail.to_owned(), line: Some(3) };
            let error = judged(error, &crate::podman::Libpod);
            assert!(error.is_definitive() && error.to_string().contains("user IDs"), "{error}");
        }
        let other = "copier: put: error creating \"/probe\": permission denied".to_owned();
        let other = EngineError::Dockerfile { detail: other, line: Some(3) };
        assert!(!judged(other, &crate::podman::Libpod).is_definitive());
        let text = dockerfile("", &RunId::parse("probe-1-0-00002a").unwrap());
        assert!(text.contains("COPY --chown=1:1 "), "the probe needs a second ID: {text}");
    }

    #[test]
    fn the_code_is_what_its_source_says() {
        let listing = include_str!("probe.s");
        for text in ["/proc/self/ns/net", "/proc/self/net/dev"] {
            assert!(listing.contains(text));
            assert!(CODE.windows(text.len()).any(|window| window == text.as_bytes()));
        }
    }
}
