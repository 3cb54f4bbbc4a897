//! Two commands at the same time, where one changes what the other reads: each has the same result
//! as when it runs alone.

use std::time::Duration;

use testkit::{gate_cases, gate_passed};

use crate::dsl::{Project, Two, ran, same};

const FILE: &str = "versions/versions.toml";
/// The promise that two concurrent runs do not mix.
const GATE: u8 = 6;

/// Starts two commands, sometimes the build first and sometimes the other one. Returns the digest
/// of the build.
fn at_once(two: &Two, round: usize, build: &str, other: &str) -> String {
    let turn = round % 2;
    let first = two.begin([build, other][turn]);
    std::thread::sleep(Duration::from_millis(u64::try_from(round * 37 % 120).unwrap()));
    let second = two.begin([other, build][turn]);
    let ended = [first, second].map(|child| ran(child.wait_with_output().unwrap()).expect(0));
    ended[turn].digest()
}

#[test]
fn a_build_beside_a_bump_reads_the_old_pins_or_the_new_ones() {
    let rounds = gate_cases(5, 50);
    let two = Two::new(301);
    let (mut texts, mut digests) = (Vec::new(), Vec::new());
    for image in 0..2 {
        two.run(&two.bump(image)).expect(0);
        texts.push(two.project.read(FILE));
        digests.push(two.run(&two.build()).expect(0).digest());
    }
    assert_ne!(digests[0], digests[1]);
    for round in 0..rounds {
        let next = round % 2;
        let digest = at_once(&two, round, &two.build(), &two.bump(next));
        assert!(
            digests.contains(&digest),
            "round {round}: the image has neither the old pins nor the new ones"
        );
        assert_eq!(two.image_at("dist/locked-spoof"), digest, "round {round}");
        assert!(two.project.read(FILE) == texts[next], "round {round}: the bump is lost");
    }
    let names = two.project.path("versions").read_dir().unwrap().flatten();
    let left: Vec<_> = names.map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.as_encoded_bytes().starts_with(b".")), "{left:?}");
    gate_passed(GATE, rounds);
}

#[test]
fn a_build_beside_a_clean_loses_nothing() {
    let rounds = gate_cases(5, 50);
    let two = Two::new(311);
    let builds = [0, 1].map(|image| two.build_of(image));
    let digests = builds.each_ref().map(|line| two.run(line).expect(0).digest());
    let others = |project: &Project| {
        let mut files = project.files();
        files.retain(|path, _| !path.starts_with("dist"));
        files
    };
    let before = others(&two.project);
    for round in 0..rounds {
        let next = round % 2;
        let digest = at_once(&two, round, &builds[next], "clean --engine none --cache");
        assert_eq!(digest, digests[next], "round {round}");
        assert_eq!(two.image_at("dist/locked-spoof"), digest, "round {round}");
    }
    same(&others(&two.project), &before, "the project");
    let records = two.project.records();
    assert_eq!(records.len(), rounds + 2);
    assert!(records.iter().all(|record| record["status"] == "succeeded"));
    gate_passed(GATE, rounds);
}
