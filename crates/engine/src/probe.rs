//! What an engine can really do on this machine, found out by a `RUN` that needs no image.
//!
//! Versions and settings do not tell: podman takes `networkmode=none` for the host's network, and
//! a runtime that is installed may refuse this kernel's cgroups. So a program of some hundred
//! bytes is built `FROM scratch` and says which network it sees.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;

use crate::build::{BuildRequest, Network, RunId};
use crate::error::EngineError;
use crate::transcript::BuildEvent;
use crate::wire::ByteStream;
use crate::{Engine, EngineInfo, Kind};

/// What an engine is and can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// What it says of itself.
    pub info: EngineInfo,
    /// The OCI runtime that has to be named for its services, because the default does not work.
    pub runtime: Option<String>,
    /// The runtimes that do not work here, with what they say.
    pub runtime_failures: Vec<String>,
    /// Whether cancelling a build ends its `RUN`.
    pub can_cancel: bool,
    /// Whether docker's BuildKit builds here.
    pub has_buildkit: bool,
    /// What a `RUN` found.
    pub run: RunProbe,
}

/// What a `RUN` without network found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunProbe {
    /// Its network namespace, `net:[…]`.
    pub network_namespace: String,
    /// The network interfaces it sees.
    pub interfaces: Vec<String>,
    /// Whether it is cut off: another namespace than ours, with `lo` alone.
    pub is_isolated: bool,
}

/// The probe, for x86-64 Linux; `probe.s` beside this file is its source. It prints the target of
/// `/proc/self/ns/net` and the text of `/proc/self/net/dev`.
const CODE: &[u8] = include_bytes!("probe.bin");

/// Where the probe is loaded.
const ADDRESS: u64 = 0x40_0000;

/// Returns the probe as an executable: an ELF header, one segment, the code.
fn executable() -> Vec<u8> {
    const HEADERS: u16 = 64 + 56;
    let size = u64::from(HEADERS) + CODE.len() as u64;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // ET_EXEC, EM_X86_64, version 1.
    elf.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    // Entry point, program headers at 64, no section headers.
    elf.extend([ADDRESS + u64::from(HEADERS), 64, 0].map(u64::to_le_bytes).concat());
    elf.extend([0; 4]);
    // Header sizes; one program header, no section.
    elf.extend([64u16, 56, 1, 64, 0, 0].map(u16::to_le_bytes).concat());
    // PT_LOAD, readable and executable: the whole file.
    elf.extend([1u32, 5].map(u32::to_le_bytes).concat());
    elf.extend([0, ADDRESS, ADDRESS, size, size, 0x1000].map(u64::to_le_bytes).concat());
    elf.extend(CODE);
    elf
}

const DOCKERFILE: &str = "FROM scratch\nCOPY probe /probe\nRUN [\"/probe\"]\n";

/// The same with a mount, which the BuildKit of early dockers does not take as it stands.
const DOCKERFILE_WITH_MOUNT: &str =
    "FROM scratch\nCOPY probe /probe\nRUN --mount=type=cache,target=/cache [\"/probe\"]\n";

fn context(dockerfile: &str) -> std::io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes, mode) in
        [("Dockerfile", dockerfile.as_bytes(), 0o644), ("probe", &executable(), 0o755)]
    {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(mode);
        tar.append_data(&mut header, name, bytes)?;
    }
    tar.into_inner()
}

/// Builds the probe without network and removes it again.
pub(crate) async fn run(engine: &impl Engine) -> Result<RunProbe, EngineError> {
    let action = "probe the engine";
    let nonsense = |detail: String| EngineError::Nonsense { action: action.to_owned(), detail };
    let dockerfile = match engine.kind() {
        Kind::Docker if engine.has_cache_mounts() => DOCKERFILE_WITH_MOUNT,
        Kind::Docker | Kind::Podman => DOCKERFILE,
    };
    let context = context(dockerfile)
        .map_err(|source| EngineError::Input { action: action.to_owned(), source })?;
    let name = format!("probe-{}", std::process::id());
    let request = BuildRequest {
        run: RunId::parse(&name).ok_or_else(|| nonsense(format!("bad run `{name}`")))?,
        dockerfile: "Dockerfile".to_owned(),
        dockerfile_text: dockerfile.to_owned(),
        target: None,
        build_args: std::collections::BTreeMap::new(),
        labels: std::collections::BTreeMap::new(),
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
    let built = engine.build(&request, stream, &mut on_event).await?;
    engine.client().await?.remove_image(built.image.as_str(), true).await?;
    let own = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    read(&lines, &own).ok_or_else(|| nonsense(format!("the probe said: {}", lines.join(" / "))))
}

/// Reads what the probe said.
fn read(lines: &[String], own: &Path) -> Option<RunProbe> {
    let begin = lines.iter().position(|line| line.starts_with("net:["))?;
    let network_namespace = lines[begin].clone();
    // Two lines of headings, then `  eth0: 12 …`.
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

    #[test]
    fn the_probe_runs_here_and_sees_our_own_network() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("probe");
        std::fs::write(&program, executable()).unwrap();
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
    fn the_code_is_what_its_source_says() {
        let listing = include_str!("probe.s");
        for text in ["/proc/self/ns/net", "/proc/self/net/dev"] {
            assert!(listing.contains(text));
            assert!(CODE.windows(text.len()).any(|window| window == text.as_bytes()));
        }
    }
}
