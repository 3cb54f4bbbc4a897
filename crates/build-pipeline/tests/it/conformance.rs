//! A table of what each engine can do: the digest of each Dockerfile's image, which must be the
//! same on all engines, uses of an image, and killed builds.
//!
//! Every test run covers rootless podman of Debian 13 and the newest docker. With the feature
//! `engines`, every engine is tested, and 30 builds of each are killed; `cargo xtask engines` prints
//! the table and writes it into README.md. The nightly workflow runs it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::dsl::moment;
use crate::site::{BUILD, Contents, Site, Way};

#[cfg(feature = "engines")]
#[path = "conformance/venv.rs"]
mod venv;

/// How many builds of an engine are killed if the variable is not set.
const KILLS: u32 = if cfg!(feature = "engines") { 30 } else { 3 };
const KILLS_VARIABLE: &str = "BUILD_PIPELINE_TEST_KILLS";

/// The Dockerfiles. Their images must be the same on all engines, except that of [`HARD_LINKS`].
const DOCKERFILES: [(&str, &str); 4] = [
    (
        "plain",
        "ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN echo hello > /greeting\nCMD [\"cat\", \"/greeting\"]\n",
    ),
    ("nasty", include_str!("conformance/nasty.Dockerfile")),
    (
        HARD_LINKS,
        "ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN echo 1 > /1 && ln /1 /2 && ln /1 /3\nRUN echo 2 >> /1\nRUN chmod 600 /2 && ln /3 /4\n",
    ),
    ("realistic", include_str!("conformance/realistic.Dockerfile")),
];

/// The name of the Dockerfile with hard links across several RUNs. Storage drivers disagree about
/// which names still belong to one file after a RUN has changed it, so this image is reproducible
/// only on the same engine.
const HARD_LINKS: &str = "hard links";

/// The columns of the table after the columns of the Dockerfiles.
#[cfg(feature = "engines")]
const DEEDS: [&str; 7] = ["venv", "load", "run", "smoke", "verify --rebuild", "clean", "kills"];

/// The name of the image in the engine.
const IMAGE: &str = "localhost/build-pipeline/vulkan-tiny:latest";

/// An engine with its results: a digest or text for each column, or an error.
struct Row {
    engine: String,
    cells: Vec<Result<String, String>>,
}

impl Row {
    fn failures(&self) -> Vec<&str> {
        self.cells.iter().filter_map(|cell| cell.as_ref().err().map(String::as_str)).collect()
    }

    fn line(&self) -> String {
        let mut line = format!("| {} |", self.engine);
        for cell in &self.cells {
            let text = cell.as_deref().unwrap_or("**fails**");
            write!(line, " {text} |").unwrap();
        }
        line
    }
}

/// Runs something that may fail the test, and returns the reason if it does.
fn tried(deed: impl FnOnce() -> String) -> Result<String, String> {
    catch_unwind(AssertUnwindSafe(deed)).map_err(|why| {
        let text = why.downcast_ref::<String>().cloned();
        text.or_else(|| why.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_default()
    })
}

/// Returns the program `setcap.s` in base64.
fn setcap() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("setcap.s"), folder.path().join("setcap"));
        std::fs::write(&source, include_str!("conformance/setcap.s")).unwrap();
        let mut command = Command::new("cc");
        command.args([
            "-nostdlib",
            "-static",
            "-s",
            "-Wl,-z,noseparate-code,--build-id=none",
            "-o",
        ]);
        command.args([&program, &source]);
        assert!(command.status().unwrap().success());
        STANDARD.encode(std::fs::read(program).unwrap())
    })
}

/// Writes the Dockerfile of the variant.
fn write(site: &Site, dockerfile: &str) {
    // The file for the complete table is 300 MB; a tenth of it is enough for a normal test run.
    let size = if cfg!(feature = "engines") { "count=300" } else { "count=30" };
    let dockerfile = dockerfile.replace("count=30", size).replace("SETCAP", setcap());
    site.project.write("dockerfiles/tiny.Dockerfile", &dockerfile);
}

/// Builds a Dockerfile twice, the second time from scratch, and returns the digest.
fn built(site: &Site, name: &str, dockerfile: &str) -> String {
    /// The digests of the images built so far, by Dockerfile.
    static DIGESTS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    write(site, dockerfile);
    let build = format!("{BUILD} --engine {}", site.engine_name());
    let ran = site.run(&build).expect(0);
    let is_told = ran.stderr.contains("has hard links from an earlier RUN");
    // The storage driver of rootless podman 4.3.1 changes all hard links together, which looks the
    // same as a RUN that creates all of them again.
    let keeps_links = site.version() == "podman 4.3.1" && site.is_rootless();
    assert_eq!(is_told, name == HARD_LINKS && !keeps_links, "{name}: {}", ran.stderr);
    let first = ran.digest();
    let second = site.run(&format!("{build} --fresh")).expect(0).digest();
    assert_eq!(first, second, "{name}: a build from scratch");
    // Without this check, all engines could agree although the capability is missing.
    assert_eq!(has_capability(site), dockerfile.contains("SETCAP"), "{name}: the capability");
    let digits = first.trim_start_matches("sha256:").get(..12).unwrap().to_owned();
    if name == HARD_LINKS {
        return digits;
    }
    let mut digests = DIGESTS.lock().unwrap_or_else(PoisonError::into_inner);
    let other = digests.entry(name.to_owned()).or_insert_with(|| first.clone());
    assert_eq!(first, *other, "{name}: another engine");
    digits
}

/// Returns whether a file of a layer has a capability.
fn grants(mut entry: tar::Entry<'_, impl Read>) -> bool {
    let extensions = entry.pax_extensions().unwrap();
    extensions.is_some_and(|mut all| {
        all.any(|one| one.unwrap().key_bytes().ends_with(b"xattr.security.capability"))
    })
}

/// Returns whether a file of the last built image has a capability.
fn has_capability(site: &Site) -> bool {
    let blobs = std::fs::read_dir(site.project.path("dist/vulkan-tiny/blobs/sha256")).unwrap();
    blobs.flatten().any(|blob| {
        let bytes = std::fs::read(blob.path()).unwrap();
        // The other blobs are the manifest and the config.
        let is_layer = bytes.starts_with(&[0x1f, 0x8b]);
        let mut tar = tar::Archive::new(flate2::read::MultiGzDecoder::new(&bytes[..]));
        is_layer && tar.entries().unwrap().any(|entry| grants(entry.unwrap()))
    })
}

/// Loads the plain image into the engine.
fn loaded(site: &Site) -> String {
    write(site, DOCKERFILES[0].1);
    let ran = site.run(&format!("{BUILD} --load --engine {}", site.engine_name())).expect(0);
    ran.prints(&format!("engine:{IMAGE} (written"));
    "yes".to_owned()
}

/// Runs a container of the loaded image.
fn run_in(site: &Site) -> String {
    let words = ["run", "vulkan", "--no-gpu", "--engine", site.engine_name(), "--image", IMAGE];
    let words = [&words[..], &["--network", "none", "--", "cat", "/greeting"]].concat();
    crate::dsl::ran(site.command_of(&words).output().unwrap()).expect(0).prints("hello");
    "yes".to_owned()
}

/// Smoke-tests the loaded image.
fn smoked(site: &Site) -> String {
    site.project.write("versions/smoke/test-import.sh", "cat /greeting");
    let table = "schema = 1\n[vulkan]\ngpu = \"vulkan\"\nmodels = \"~/models\"\nmodels-at = \"/models\"\n\
                 smoke.import = { script = \"test-import.sh\", expect = '^hello' }\n";
    site.project.write("versions/run.toml", table);
    let line = format!("smoke vulkan --no-gpu --network none --image {IMAGE} --level import");
    site.run(&format!("{line} --engine {}", site.engine_name())).expect(0).prints("1 passed");
    "yes".to_owned()
}

/// Rebuilds the image from scratch and compares it.
fn rebuilt(site: &Site) -> String {
    write(site, DOCKERFILES[3].1);
    site.run(&format!("{BUILD} --engine {}", site.engine_name())).expect(0);
    let line = format!("verify dist/vulkan-tiny --rebuild --engine {}", site.engine_name());
    site.run(&line).expect(0).prints("proven: ");
    "yes".to_owned()
}

/// Removes everything that the earlier steps left behind.
fn cleaned(site: &Site, before: &Contents) -> String {
    site.engine(&["rmi", IMAGE]);
    site.run(&format!("clean --engine {}", site.engine_name())).expect(0);
    assert_eq!(site.contents(), *before);
    "yes".to_owned()
}

/// Kills builds at evenly distributed moments.
fn killed(site: &Site, before: &Contents) -> String {
    let text = "ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nCOPY Dockerfile /1\nRUN echo 2 > /2\n\
                RUN echo asleep; sleep 3000\n";
    write(site, text);
    let clean = || site.run(&format!("clean --engine {}", site.engine_name())).expect(0);
    let begin = Instant::now();
    site.begin_until("asleep").end_with("-KILL");
    let span = begin.elapsed();
    clean();
    let kills = std::env::var(KILLS_VARIABLE).map_or(KILLS, |text| text.parse().unwrap());
    let mut late = 0;
    for round in 0..kills {
        let started = site.begin();
        std::thread::sleep(moment(round as usize, span));
        match round % 3 {
            0 => drop(started.end_with("-INT")),
            1 if site.engine_name() == "podman" => site.kill_all(started),
            _ => drop(started.end_with("-KILL")),
        }
        clean();
        // docker may finish a pull or a step after the client that requested it has died.
        let deadline = Instant::now() + Duration::from_secs(300);
        let mut contents = site.contents();
        let mut is_late = false;
        while site.engine_name() == "docker" && contents != *before && Instant::now() < deadline {
            std::thread::sleep(Duration::from_secs(1));
            clean();
            contents = site.contents();
            is_late = true;
        }
        late += u32::from(is_late);
        assert_eq!(contents, *before, "round {round}");
    }
    match late {
        0 => format!("{kills} of {kills}"),
        _ => format!("{kills} of {kills}, {late} of them with a later `clean`"),
    }
}

/// Builds an additional image on a machine, and returns its digest.
type Extra<'a> = &'a dyn Fn(&Site) -> String;

/// Tests an engine.
fn row(suite: &str, way: Way, extra: Option<Extra<'_>>) -> Row {
    let site = Site::new(suite, way, "");
    let before = site.contents();
    let mut cells: Vec<Result<String, String>> = DOCKERFILES
        .iter()
        .map(|(name, dockerfile)| tried(|| built(&site, name, dockerfile)))
        .collect();
    let records = site.project.records();
    let falls_back =
        records.iter().any(|record| record.to_string().contains("so the classic builder is used"));
    let note = if falls_back { " (falls back to the classic builder)" } else { "" };
    cells.extend(extra.map(|build| tried(|| build(&site))));
    cells.push(tried(|| loaded(&site)));
    cells.push(tried(|| run_in(&site)));
    cells.push(tried(|| smoked(&site)));
    cells.push(tried(|| rebuilt(&site)));
    cells.push(tried(|| cleaned(&site, &before)));
    cells.push(tried(|| killed(&site, &before)));
    Row { engine: format!("{} {}{note}", site.version(), way.words()), cells }
}

/// Fails if an engine does not have the expected results.
#[track_caller]
fn conforms(suite: &str, way: Way) {
    let row = row(suite, way, None);
    assert!(row.failures().is_empty(), "{}\n{}", row.line(), row.failures().join("\n"));
}

#[test]
#[ignore = "runs every night: it takes minutes"]
fn rootless_podman_of_debian_13_conforms() {
    conforms("trixie", Way::RootlessPodman);
}

#[test]
#[ignore = "runs every night: it takes minutes"]
fn the_newest_docker_conforms() {
    conforms("sid", Way::BuildKitInContainerd);
}

/// The variable with the machines to test (comma-separated). If it is not set, all are tested.
#[cfg(feature = "engines")]
pub(crate) const SUITES_VARIABLE: &str = "BUILD_PIPELINE_TEST_SUITES";

/// Returns every engine of the wanted machines.
#[cfg(feature = "engines")]
fn engines() -> Vec<(&'static str, Way)> {
    use Way::{
        BuildKit, BuildKitInContainerd, Classic, ClassicInContainerd, Podman, RootlessPodman,
    };
    let podman = ["bookworm", "trixie", "sid", "experimental"];
    let podman = podman.iter().flat_map(|suite| [Podman, RootlessPodman].map(|way| (*suite, way)));
    let docker = ["trixie", "sid"].iter().flat_map(|suite| {
        [Classic, BuildKit, ClassicInContainerd, BuildKitInContainerd].map(|way| (*suite, way))
    });
    // docker 20.10 has no containerd image store.
    let docker = [("bookworm", Classic), ("bookworm", BuildKit)].into_iter().chain(docker);
    let wanted = std::env::var(SUITES_VARIABLE).ok();
    let is_wanted =
        |suite: &str| wanted.as_ref().is_none_or(|all| all.split(',').any(|one| one == suite));
    podman.chain(docker).filter(|(suite, _)| is_wanted(suite)).collect()
}

/// Prints the table of all engines. Three engines are tested at the same time, because the test of
/// killed builds mostly waits.
#[cfg(feature = "engines")]
#[test]
fn every_engine_conforms() {
    let engines = engines();
    assert!(!engines.is_empty(), "{SUITES_VARIABLE} names no machine");
    let venv = venv::Venv::new();
    let columns: Vec<&str> = DOCKERFILES.map(|(name, _)| name).into_iter().chain(DEEDS).collect();
    println!("\n| engine | {} |", columns.join(" | "));
    println!("|---|{}", "---|".repeat(columns.len()));
    let queue = Mutex::new(engines.iter());
    let failures = Mutex::new(Vec::new());
    let work = || loop {
        let Some((suite, way)) = queue.lock().unwrap().next() else { return };
        let begin = Instant::now();
        let row = row(suite, *way, Some(&|site| venv.built(site)));
        println!("\n{}\n{} took {} s", row.line(), row.engine, begin.elapsed().as_secs());
        let why = row.failures().into_iter().map(|why| format!("{}: {why}", row.engine));
        failures.lock().unwrap().extend(why);
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(work);
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
