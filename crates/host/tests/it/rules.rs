//! Tests every rule on a machine that violates it and on one that does not, and all rules on all
//! machines.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::Command;
use std::sync::OnceLock;

use host::Snapshot;
use host::model::{Cache, Model};
use host::rules::{self, Check, Context, Image, ModelUse, Outcome, Severity};
use pins::{Compat, Gpus};

use crate::cases::{CASES, Case, JUDGED, TODAY};
use crate::machine;

const COMPAT: &str = include_str!("../../../../versions/compat.toml");
const GPUS: &str = include_str!("../../../../versions/gpus.toml");
const TRACKS: &str = include_str!("../../../../versions/tracks.toml");

/// Returns the project's data files.
pub(crate) fn data() -> &'static (Compat, Gpus) {
    static DATA: OnceLock<(Compat, Gpus)> = OnceLock::new();
    DATA.get_or_init(|| {
        let compat = pins::parse_compat("compat.toml", COMPAT).unwrap();
        (compat, pins::parse_gpus("gpus.toml", GPUS).unwrap())
    })
}

/// Returns the images that the project pins.
pub(crate) fn images() -> Vec<Image> {
    ["official", "ollama"].map(|track| image(track, "7.2.1")).to_vec()
}

/// Returns the image of a track with its settings in the project.
pub(crate) fn image(track: &str, rocm: &str) -> Image {
    let tracks = pins::parse_tracks("tracks.toml", TRACKS).unwrap();
    let name = tracks.find(track).unwrap();
    Image {
        track: name.clone(),
        needs_engine: tracks.needs_engine(name),
        disk: tracks.tracks[name].disk.clone(),
        pin: Some("pin".to_owned()),
        rocm: Some(rocm.to_owned()),
        code: None,
    }
}

pub(crate) fn check(machine: &Snapshot, images: &[Image]) -> Vec<Check> {
    check_for(machine, images, "gfx1151")
}

pub(crate) fn check_for(machine: &Snapshot, images: &[Image], wanted: &str) -> Vec<Check> {
    check_with(machine, images, wanted, None)
}

fn check_with(
    machine: &Snapshot,
    images: &[Image],
    wanted: &str,
    model: Option<ModelUse<'_>>,
) -> Vec<Check> {
    let (compat, gpus) = data();
    let wanted = wanted.parse().unwrap();
    rules::check(&Context {
        machine,
        compat,
        gpus,
        wanted: &wanted,
        images,
        model,
        today: TODAY,
        is_asked: false,
    })
}

/// The rules that find an error or a warning.
pub(crate) fn serious(checks: &[Check]) -> Vec<&str> {
    let is_serious =
        |check: &&Check| check.findings.iter().any(|one| one.severity >= Severity::Warning);
    checks.iter().filter(is_serious).map(|check| check.rule).collect()
}

#[test]
fn every_recorded_machine_is_judged_right() {
    for (name, gpu, right) in JUDGED {
        let checks = check_for(&machine::read(name, ""), &images(), gpu);
        assert_eq!(serious(&checks), *right, "{name}: {checks:#?}");
    }
    // ROCm/amdgpu#213
    let machine = machine::read("strix-point-ubuntu", "");
    let checks = check_for(&machine, &[image("official", "7.1.1")], "gfx1150");
    assert_eq!(serious(&checks), ["kernel-rocm"]);
    assert!(machine::names().len() >= 40);
}

/// A repair for one system would do harm, or nothing, on another.
#[test]
fn repairs_fit_the_system() {
    for (name, rule, has, has_not) in [
        ("halo-default-limit", "memory-gpu-limit", "mkinitcpio", "dracut"),
        ("halo-silverblue", "memory-gpu-limit", "rpm-ostree kargs --append", "dracut"),
        ("halo-silverblue", "kernel-cwsr", "keep it", "rpm-ostree"),
        ("halo-bazzite", "firmware-mes", "rpm-ostree upgrade", "dnf"),
        ("halo-nobara", "kernel-rocm", "dnf upgrade", "ELRepo"),
        ("halo-lxc-root-kfd", "device-access", "dev0: /dev/kfd,gid=992", "udev"),
        ("phoenix-lxc-no-kfd", "device-kfd", "dev0: /dev/kfd", "modprobe"),
        ("halo-toolbox", "device-access", "keep-groups", "usermod"),
        ("navi2-distrobox", "device-access", "keep-groups", "usermod"),
        ("halo-toolbox", "kernel-rocm", "# on the host", "apt"),
        ("halo-oem-dkms", "kernel-amdttm", "options ttm pages_limit=31457280", "options amdttm"),
        ("halo-oem-dkms", "memory-gpu-limit", "see kernel-amdttm", "tee"),
        ("halo-oem-gtt-size", "kernel-amdttm", r"s/amdgpu\.gtt_size=122880//", "ttm.gtt_size"),
        ("halo-oem-gtt-size", "kernel-rocm", "linux-oem-24.04c", "hwe"),
        // KFD lists the eGPU first.
        ("halo-egpu-override", "gpu-several", "ROCR_VISIBLE_DEVICES=1", "DEVICES=0"),
        ("navi4-old-kernel", "gpu-present", "linux-generic-hwe-24.04", "backports"),
        // A limit above the total is not carried over.
        ("halo-ubuntu-hwe-14", "memory-carve-out", "/ttm.pages_limit=31664128/", "tee"),
        ("halo-64g-limit-124", "memory-carve-out", "ttm.pages_limit=31850496", "32899072"),
        ("phoenix-sdboot", "kernel-gttsize", "sudo sdboot-manage gen", "update-grub"),
        ("halo-zbook-rc", "memory-gpu-limit", "limine-mkinitcpio", "mkinitcpio -P"),
        ("navi4-arch-cwsr", "kernel-cwsr", "grub-mkconfig -o /boot/grub/grub.cfg", "update-grub"),
        // The command line overrides modprobe.d.
        ("halo-ubuntu-8g", "memory-carve-out", "27648000/ttm.pages_limit=30408704/", "tee"),
    ] {
        let checks = check(&machine::read(name, ""), &images());
        let found = one(&checks, rule);
        let text = found
            .findings
            .iter()
            .flat_map(|one| &one.repair)
            .fold(String::new(), |all, line| all + line + "\n");
        assert!(text.contains(has) && !text.contains(has_not), "{name} {rule}: {found:#?}");
    }
}

/// A line of a repair that is no command starts with `#`.
#[test]
fn a_shell_understands_each_repair_alone() {
    let unknown = "== etc/os-release\nID=unknown\n== etc/modprobe.d/a.conf\n\
        options amdttm pages_limit=1000\noptions amdgpu gttsize=1000 cwsr_enable=0\n";
    let mut parsed = BTreeSet::new();
    for (name, changes) in machine::names().iter().flat_map(|name| [(name, ""), (name, unknown)]) {
        let checks = check(&machine::read(name, changes), &images());
        let findings = checks.into_iter().flat_map(|check| check.findings);
        for line in findings.flat_map(|finding| finding.repair) {
            if !line.starts_with('#') && parsed.insert(line.clone()) {
                let shell = Command::new("sh").args(["-n", "-c", &line]).output().unwrap();
                let is_command = shell.status.success() && !line.contains("&& #");
                assert!(is_command, "{name}: {line}");
            }
        }
    }
    assert!(parsed.len() > 30, "{parsed:#?}");
}

/// A virtual machine's firmware cannot change the carve-out, but its limit is still checked.
#[test]
fn no_carve_out_is_advised_in_a_virtual_machine() {
    let virtual_machine = "== proc/cpuinfo\nflags\t\t: fpu hypervisor\n";
    let checks = check(&machine::read("strix-halo-carve-out", virtual_machine), &images());
    assert_eq!(one(&checks, "memory-carve-out").result, Outcome::Skipped);
    assert_eq!(serious(&checks), ["memory-gpu-limit"]);
}

/// Facts that recorded machines cannot contain: the permissions of a socket, the responses of an
/// engine, facts about built images, and a model.
const ELSEWHERE: [&str; 6] = [
    "engine-kernel",
    "engine-programs",
    "engine-socket",
    "engine-version",
    "image-code",
    "memory-model",
];

pub(crate) fn one<'a>(checks: &'a [Check], rule: &str) -> &'a Check {
    checks.iter().find(|check| check.rule == rule).unwrap()
}

/// `kernel-rocm` is an error for the kernels that AMD calls unsupported.
#[test]
fn every_rule_is_tripped_by_one_machine_and_holds_on_another() {
    for Case { rule, trips, severity, says, holds } in CASES {
        let checks = check(&machine::read(trips.0, trips.1), &images());
        let found = one(&checks, rule);
        assert_eq!(found.result, Outcome::Found, "{rule} on {trips:?}: {found:?}");
        let worst = found.findings.iter().map(|finding| finding.severity).max();
        assert_eq!(worst, Some(*severity), "{rule} on {trips:?}: {found:?}");
        for finding in &found.findings {
            let all = [&finding.seen, &finding.right, &finding.why, &finding.source];
            assert!(all.iter().all(|text| !text.is_empty()), "{rule}: {finding:?}");
            assert!(!finding.repair.is_empty(), "{rule}: {finding:?}");
        }
        let text = format!("{:?}", found.findings);
        assert!(text.contains(says), "{rule} on {trips:?} does not report `{says}`: {text}");
        let checks = check(&machine::read(holds.0, holds.1), &images());
        assert_eq!(one(&checks, rule).result, Outcome::Ok, "{rule}: {:?}", one(&checks, rule));
    }
    let covered: BTreeSet<&str> = CASES.iter().map(|case| case.rule).chain(ELSEWHERE).collect();
    assert_eq!(covered, rules::names().collect(), "each rule has a case");
}

#[test]
fn a_built_image_without_code_for_this_gpu_is_an_error() {
    let machine = machine::read("strix-halo", "");
    for (code, result) in [
        (None, Outcome::Skipped),
        (Some(&["gfx1100"][..]), Outcome::Found),
        (Some(&["gfx1100", "gfx1151"]), Outcome::Ok),
    ] {
        let code = code.map(|code| code.iter().map(|one| (*one).to_owned()).collect());
        let images = [Image { code, ..image("source", "") }];
        let checks = check(&machine, &images);
        let found = one(&checks, "image-code");
        assert_eq!(found.result, result, "{found:?}");
        for finding in &found.findings {
            assert_eq!(finding.severity, Severity::Error);
            assert_eq!(finding.repair, ["build-pipeline --track source --gpu gfx1151"]);
        }
    }
}

/// `doctor --gpu` also selects the GPU on machines with several GPUs.
#[test]
fn the_gpu_that_was_asked_for_is_judged() {
    let machine = machine::read("strix-halo-with-navi4", "");
    for (wanted, visible) in [("gfx1151", 0), ("gfx1201", 1)] {
        let checks = check_for(&machine, &images(), wanted);
        let repairs: Vec<&String> =
            one(&checks, "gpu-several").findings.iter().flat_map(|one| &one.repair).collect();
        let shown = format!("{repairs:?}");
        assert!(shown.contains(&format!("ROCR_VISIBLE_DEVICES={visible}")), "{shown}");
        assert!(shown.contains(&format!("env --gpu {wanted}")), "{shown}");
        assert!(one(&checks, "gpu-wanted").seen.contains(wanted));
    }
}

#[test]
fn amds_table_is_asked_for_each_image() {
    let machine = machine::read("strix-halo", "");
    for (rocm, severity) in [
        ("7.2.1", None),
        ("7.2.0", None),
        ("7.1.1", Some(Severity::Error)),
        ("6.4.4", Some(Severity::Error)),
        ("10.0.0", None),
    ] {
        let images = [Image { pin: None, ..image("official", rocm) }];
        let checks = check(&machine, &images);
        let found = one(&checks, "kernel-rocm");
        assert_eq!(found.findings.first().map(|one| one.severity), severity, "{rocm}");
        assert!(found.seen.contains(rocm), "{}", found.seen);
        assert_eq!(found.seen.contains("newer than AMD's table"), rocm == "10.0.0");
    }
}

#[test]
fn a_model_has_to_fit_into_the_memory_that_programs_can_use() {
    const GIB: u64 = 1 << 30;
    let exact = |per_token| Some(Cache { per_token, exact_until: u64::MAX });
    let window = |tokens| Some(Cache { per_token: GIB / 1024, exact_until: tokens });
    let (warning, note) = (Some(Severity::Warning), Some(Severity::Note));
    // Strix Halo: the larger of carve-out and GTT, 120 GiB. A discrete GPU: its own memory.
    for (machine, wanted, gib, cache, severity, says) in [
        (
            "strix-halo",
            "gfx1151",
            60,
            exact(GIB / 1024),
            None,
            "60 GiB of weights and 32 GiB of KV cache for 32768 tokens",
        ),
        ("strix-halo", "gfx1151", 80, exact(GIB / 1024), note, "90 % of the GPU's memory"),
        (
            "strix-halo",
            "gfx1151",
            100,
            exact(GIB / 1024),
            warning,
            "# use a shorter context: 8192 tokens fit",
        ),
        ("strix-halo", "gfx1151", 107, exact(GIB / 256), warning, "# use a smaller model"),
        ("strix-halo", "gfx1151", 100, window(0), note, "at most 32 GiB of KV cache"),
        (
            "strix-halo",
            "gfx1151",
            100,
            window(4096),
            note,
            "# a context of 8192 tokens certainly fits",
        ),
        ("strix-halo", "gfx1151", 100, window(32768), warning, "# use a shorter context"),
        ("strix-halo", "gfx1151", 300, window(0), warning, "# use a smaller model"),
        ("strix-halo", "gfx1151", 300, None, warning, "a KV cache of unknown size"),
        ("strix-halo", "gfx1151", 60, None, note, "leave room for it"),
        ("strix-halo-with-navi4", "gfx1201", 60, exact(1), warning, "# use a smaller model"),
        ("strix-halo-with-navi4", "gfx1151", 60, exact(1), None, "the GPU has 120 GiB"),
        ("strix-halo-carve-out", "gfx1151", 60, exact(1), None, ""),
        // Another check recommends giving the GPU 120 GiB.
        (
            "halo-default-limit",
            "gfx1151",
            75,
            exact(1),
            warning,
            "# first give the GPU more memory",
        ),
        ("halo-default-limit", "gfx1151", 150, exact(1), warning, "# use a smaller model"),
        // The driver shows more than the limit allows, or the limit is larger than the memory.
        ("halo-gtt-only", "gfx1151", 75, exact(1), warning, "the GPU has 62.4 GiB"),
        ("halo-64g-limit-124", "gfx1151", 75, exact(1), warning, "the model fits into 121.5 GiB"),
    ] {
        let name = "a.gguf".to_owned();
        let model = Model { name, weights: gib * GIB, cache, context: Some(32768) };
        let asked = ModelUse { model: &model, context: None };
        let checks = check_with(&machine::read(machine, ""), &images(), wanted, Some(asked));
        let found = one(&checks, "memory-model");
        let what = format!("{machine} {wanted} {gib}: {found:?}");
        assert_eq!(found.findings.first().map(|one| one.severity), severity, "{what}");
        assert!(what.contains(says), "{what}");
    }
    let model = Model { name: "a".to_owned(), weights: 1, cache: exact(GIB), context: None };
    for (context, says) in
        [(None, "--context TOKENS"), (Some(8), "8 GiB of KV cache"), (Some(500), "use a smaller")]
    {
        let asked = Some(ModelUse { model: &model, context });
        let checks = check_with(&machine::read("strix-halo", ""), &images(), "gfx1151", asked);
        let found = format!("{:?}", one(&checks, "memory-model"));
        assert!(found.contains(says), "{context:?}: {found}");
    }
    // A limit that was copied from a machine with more memory.
    let model =
        Model { name: "a".to_owned(), weights: 75 * GIB, cache: exact(1), context: Some(1) };
    let asked = Some(ModelUse { model: &model, context: None });
    let machine = machine::read("strix-halo", "== proc/meminfo\nMemTotal: 65000000 kB\n");
    let checks = check_with(&machine, &images(), "gfx1151", asked);
    assert!(one(&checks, "memory-model").seen.ends_with("the GPU has 62 GiB"));
}

#[test]
fn all_rules_on_all_machines() {
    let mut text = String::new();
    for name in machine::names() {
        let checks = check(&machine::read(&name, ""), &images());
        writeln!(text, "━━ {name}: {:?}", rules::worst(&checks)).unwrap();
        for Check { rule, result, seen, findings, .. } in &checks {
            match result {
                Outcome::Ok => writeln!(text, "ok       {rule}: {seen}").unwrap(),
                Outcome::Skipped => writeln!(text, "skipped  {rule}: {seen}").unwrap(),
                Outcome::Found => findings.iter().for_each(|one| {
                    let severity = format!("{:?}", one.severity).to_lowercase();
                    writeln!(text, "{severity:8} {rule}: {}\n    right: {}", one.seen, one.right)
                        .unwrap();
                    one.repair.iter().for_each(|line| writeln!(text, "    $ {line}").unwrap());
                }),
            }
        }
        text.push('\n');
    }
    insta::assert_snapshot!(text);
}
