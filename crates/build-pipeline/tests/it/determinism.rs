//! The same inputs give the same bytes in any environment.

use std::collections::BTreeSet;
use std::process::Command;

use testkit::{gate_cases, gate_passed, shared_registry};

use crate::built::Bench;
use crate::dsl::{Project, ran};

const ZONES: [&str; 5] =
    ["UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati", ":/nowhere"];
const LOCALES: [&str; 4] = ["C", "de_DE.UTF-8", "tr_TR.UTF-8", "C.UTF-8"];
const MASKS: [&str; 3] = ["000", "022", "077"];
const USERS: [u32; 3] = [0, 1000, 4711];
const CLOCKS: [&str; 4] =
    ["1999-12-31 23:59:59", "2028-02-29 12:00:00", "2038-01-19 03:14:08", "2100-01-01"];

/// Runs `line` in 50 environments and returns all distinct outputs.
fn outputs(line: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for round in 0..50 {
        // A fresh copy each time, with its files created in a different order, so that readdir
        // returns a different order too.
        let project = Project::new();
        for name in if round % 2 == 0 { ["a", "z"] } else { ["z", "a"] } {
            project.write(&format!("versions/{name}.orig"), "not a data file");
        }
        std::fs::create_dir_all(project.path("elsewhere")).unwrap();
        let here = project.path(["", "versions", "elsewhere"][round % 3]);
        let program = env!("CARGO_BIN_EXE_build-pipeline");
        let (mask, clock, user) = (MASKS[round % 3], CLOCKS[round % 4], USERS[round % 3]);
        let script = format!(
            "hostname machine-{round} && exec unshare --map-user={user} --map-group={user} \
             sh -c \"umask {mask}; exec faketime '{clock}' {program} {line}\""
        );
        let output = Command::new("unshare")
            .args(["--map-root-user", "--uts", "sh", "-c", &script])
            .current_dir(&here)
            .env_clear()
            .env("PATH", format!("/{round}:{}", std::env::var("PATH").unwrap()))
            .env("TZ", ZONES[round % 5])
            .env("LANG", LOCALES[round % 4])
            .env("LC_ALL", LOCALES[round % 4])
            .env("HOME", project.path(&format!("home-{round}")))
            .env("COLUMNS", round.to_string())
            .output()
            .expect("unshare runs");
        let ran = ran(output);
        assert_ne!(ran.code, 127, "this test needs faketime: apt-get install faketime");
        all.insert(ran.expect(0).stdout);
    }
    all
}

#[test]
fn plans_are_byte_equal_in_50_surroundings() {
    for format in ["json", "tree", "dot", "mermaid"] {
        let all = outputs(&format!("plan --track locked-spoof --format {format}"));
        assert_eq!(all.len(), 1, "{format}: {all:#?}");
    }
    gate_passed(14, 4 * 50);
}

#[test]
fn rehearsed_images_have_one_digest_in_50_surroundings() {
    let all = outputs("--track ollama --rehearse --output oci:out --format json");
    let digests: BTreeSet<String> = all
        .iter()
        .map(|text| {
            let document: serde_json::Value = serde_json::from_str(text).unwrap();
            format!(
                "{} {}",
                document["builds"][0]["manifest_digest"], document["builds"][0]["config_digest"]
            )
        })
        .collect();
    assert_eq!(digests.len(), 1, "{digests:#?}");
    gate_passed(14, 50);
}

#[test]
fn a_rebuild_gives_the_same_digest_every_time() {
    let text = "ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN mkdir /d && echo 1 > /d/b && echo 2 > /d/a && ln /d/a /c\nRUN touch /later\n";
    let bench = Bench::new(text);
    let host = shared_registry().host();
    let run = |line: &str| ran(bench.command_at(line, host).output().unwrap()).expect(0);
    run("--track vulkan --variant tiny --engine podman");
    let rounds = gate_cases(1, 20);
    for _ in 0..rounds {
        run("verify dist/vulkan-tiny --rebuild --engine podman")
            .prints("a rebuild from scratch gave the same image");
    }
    gate_passed(14, rounds);
}

#[test]
fn the_sha256_of_the_printed_plan_is_the_label() {
    let project = Project::new();
    let plan = project.run("plan --track locked-spoof --rehearse --format json").expect(0).stdout;
    let digest = names::Digest::of(plan.as_bytes()).to_string();
    project
        .run("--track locked-spoof --rehearse")
        .expect(0)
        .prints(&format!("io.github.build-pipeline.plan-digest={digest}"));
}
