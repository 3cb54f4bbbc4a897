//! `records`: lists, shows and removes the records of builds.

use std::process::Command;

use serde_json::Value;

use crate::dsl::Project;
use crate::schemas;

const FOLDER: &str = "home/.local/state/build-pipeline/records";

/// Returns a project in which two tracks were built twice each; the builds of one track failed.
fn built() -> Project {
    let project = Project::new();
    for _ in 0..2 {
        project.run("--track ollama --rehearse").expect(0);
        project.run("--track locked-spoof --mirror docker.io=127.0.0.1:1").expect(5);
    }
    project
}

fn ids(project: &Project) -> Vec<String> {
    let records = project.records();
    records.iter().map(|record| record["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_list_has_columns_and_the_newest_record_can_be_shown() {
    let project = built();
    let ran = project.run("records").expect(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{}", ran.stdout);
    let columns = |line: &str| {
        let starts = ["  rehearsal-ollama", "  locked-spoof", "  succeeded  ", "  failed  "];
        starts.into_iter().filter_map(|word| line.find(word)).collect::<Vec<_>>()
    };
    assert!(lines.iter().all(|line| columns(line) == columns(lines[0])), "{}", ran.stdout);
    assert_eq!(columns(lines[0]).len(), 2, "{}", ran.stdout);
    // Each has a day, a time, and a duration in seconds.
    for line in &lines {
        let words: Vec<&str> = line.split_whitespace().take(4).collect();
        assert_eq!((words[0].len(), words[1].len(), words[3]), (10, 8, "s"), "{line}");
        assert!(words[2].parse::<f64>().is_ok(), "{line}");
    }
    project.run("records --limit 0").expect(2);
    // Reading a FIFO in the folder would block forever.
    let pipe = project.path(FOLDER).join("a-fifo.json");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    project.run("records").expect(0).says("it is not a regular file");
    std::fs::remove_file(pipe).unwrap();
    let shown = project.run("records --limit 1").expect(0);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(shown.stdout.lines().map(words).collect::<Vec<_>>(), [words(lines[3])]);
    let newest = ids(&project).pop().unwrap();
    let last = project.run("records --last").expect(0).prints("status   failed");
    assert_eq!(last.stdout, project.run(&format!("records {newest}")).expect(0).stdout);

    let coloured = project.run("records --color always").expect(0);
    coloured.prints("\u{1b}[1m\u{1b}[32msucceeded\u{1b}[0m").prints("[31mfailed");
    let list: Value =
        serde_json::from_str(&project.run("records --format json").expect(0).stdout).unwrap();
    let summary = &list[0]["summary"];
    assert_eq!(
        (&summary["track"], &summary["status"]),
        (&"rehearsal-ollama".into(), &"succeeded".into())
    );
    assert_eq!(summary["digest"], list[0]["image"]["manifest_digest"]);
    assert!(summary["milliseconds"].is_u64() && summary["time"] == list[0]["began"]);
    schemas::check(&project, "records", &[list]);
    Project::new().run("records --last").expect(2).says("there are no records");
}

#[test]
fn old_records_are_removed_but_never_those_that_are_needed() {
    let project = built();
    let all = ids(&project);
    let ran = project.run("records prune --keep 0 --dry-run").expect(0);
    ran.prints(&all[0]).prints(&all[1]).prints("2 records would be removed, 2 kept");
    assert_eq!(ids(&project), all);
    project.run("records prune --keep 3").expect(0).prints("1 record removed, 3 kept");
    assert_eq!(ids(&project), all[1..]);
    project.run("records prune --keep 0").expect(0).prints(&all[1]);
    assert_eq!(ids(&project), all[2..]);
    project.run("explain ollama --rehearse").expect(0).prints("nothing changed");

    // Old records: of a failed build, of a running one, and of the last build that succeeded.
    let record = |id: &str, change: &dyn Fn(&mut Value)| {
        let text = project.read(&format!("{FOLDER}/{}.json", all[2]));
        let mut record: Value = serde_json::from_str(&text).unwrap();
        (record["id"], record["began"]) = (id.into(), "2020-01-01T00:00:00.000Z".into());
        change(&mut record);
        project.write(&format!("{FOLDER}/{id}.json"), &record.to_string());
    };
    let name = |name: &'static str| move |record: &mut Value| record["plan"]["name"] = name.into();
    record("2020-1", &|record| record["status"] = "failed".into());
    record("2020-2", &|record| {
        record["status"] = "running".into();
        record["process"] = std::process::id().into();
    });
    record("2020-3", &name("other"));
    record("2020-4", &|record| {
        name("other")(record);
        record["status"] = "failed".into();
    });
    let ran = project.run("records prune --older-than 30").expect(0);
    ran.prints("2020-1\n").prints("1 record removed, 5 kept");
    assert_eq!(ids(&project), ["2020-2", "2020-3", "2020-4", &all[2], &all[3]]);
    for line in
        ["records prune", "records prune --keep 1 --older-than 1", "records x prune --keep 1"]
    {
        project.run(line).expect(2);
    }
}

#[test]
fn a_run_that_was_killed_is_called_so_in_every_form() {
    let project = Project::new();
    project.run("--track ollama --rehearse").expect(0);
    let id = ids(&project).remove(0);
    let file = format!("{FOLDER}/{id}.json");
    let mut record: Value = serde_json::from_str(&project.read(&file)).unwrap();
    let object = record.as_object_mut().unwrap();
    object.remove("ended");
    object.insert("status".to_owned(), "running".into());
    // Larger than any process ID.
    object.insert("process".to_owned(), i32::MAX.into());
    project.write(&file, &record.to_string());
    project.run("records").expect(0).prints("killed");
    let read = |line: &str| -> Value {
        serde_json::from_str(&project.run(line).expect(0).stdout).unwrap()
    };
    let list = read("records --format json");
    assert!(list.to_string().contains("\"killed\""), "{list}");
    let one = read(&format!("records {id} --format json"));
    assert_eq!(one["status"], "killed");
    schemas::check(&project, "record", &[one]);
}

#[test]
fn quiet_leaves_only_the_result() {
    let project = Project::new();
    let ran = project.run("--quiet --track ollama --rehearse").expect(0);
    assert_eq!(ran.stderr, "");
    ran.prints("  digest    sha256:").prints("proven: ");
    let ran = project.run("-q --track locked-spoof --mirror docker.io=127.0.0.1:1").expect(5);
    assert!(!ran.stderr.contains("building "), "{}", ran.stderr);
    ran.says("warning: ").says("error: ").says("hint: ");
}

#[test]
fn a_record_of_a_finished_build_is_slsa_provenance() {
    let project = built();
    let ids = ids(&project);
    let text = project.run(&format!("records {} --format slsa", ids[2])).expect(0).stdout;
    let statement: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(statement["predicateType"], "https://slsa.dev/provenance/v1");
    // The subject is the image in the output, and its base is a dependency.
    let index = std::fs::read(project.path("dist/rehearsal-ollama/index.json")).unwrap();
    let index: Value = serde_json::from_slice(&index).unwrap();
    let digest = statement["subject"][0]["digest"]["sha256"].as_str().unwrap();
    assert_eq!(index["manifests"][0]["digest"], format!("sha256:{digest}"));
    assert!(!text.contains("***"), "nothing in it is a secret: {text}");
    let definition = &statement["predicate"]["buildDefinition"];
    assert_eq!(definition["externalParameters"]["track"], "ollama");
    let dependencies = definition["resolvedDependencies"].as_array().unwrap();
    let names: Vec<&str> = dependencies.iter().filter_map(|one| one["name"].as_str()).collect();
    assert!(names.contains(&"versions/tracks.toml") && names.contains(&"ollama"), "{names:?}");

    let failed = project.run("records --last --format slsa").expect(2);
    failed.says("did not end with an image").says("only a run that succeeded has provenance");
    project.run("records --format slsa").expect(2).says("name a record, or write `--last`");
}

/// Writes a record of a successful build of a track, and returns the name of the record. The plan
/// is real; the image is that of a rehearsal, because a build takes minutes.
fn record_of(project: &Project, track: &str, commit: Option<&str>) -> String {
    let plan = project.run(&format!("plan {track} --format json")).expect(0).stdout;
    let mut record = project.records().swap_remove(0);
    let id = format!("20270101T000000Z-{}", track.replace([' ', '-'], "_"));
    record["id"] = id.clone().into();
    record["plan"] = serde_json::from_str(&plan).unwrap();
    if let Some(commit) = commit {
        record["recipe"]["commit"] = commit.into();
    }
    project.write(&format!("{FOLDER}/{id}.json"), &record.to_string());
    id
}

fn sbom(project: &Project, id: &str) -> Value {
    let ran = project.run(&format!("records {id} --format cyclonedx")).expect(0);
    assert!(!ran.stdout.contains("***"), "nothing in it is a secret: {}", ran.stdout);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn a_record_of_a_finished_build_is_an_sbom() {
    let project = Project::new();
    project.run("--track ollama --rehearse").expect(0);
    let id = ids(&project).remove(0);
    let text = project.run(&format!("records {id} --format cyclonedx")).expect(0).stdout;
    assert_eq!(text, project.run("records --last --format cyclonedx").expect(0).stdout);
    let of_rehearsal = sbom(&project, &id);
    let index: Value =
        serde_json::from_str(&project.read("dist/rehearsal-ollama/index.json")).unwrap();
    let digest = &index["manifests"][0]["digest"];
    assert_eq!(of_rehearsal["metadata"]["component"]["version"], *digest);
    let base = &of_rehearsal["components"][0];
    assert_eq!((&base["bom-ref"], &base["type"]), (&"ollama".into(), &"container".into()));
    // Another build of the same image has the same SBOM.
    project.run("--track ollama --rehearse").expect(0);
    assert_eq!(text, project.run("records --last --format cyclonedx").expect(0).stdout);

    project.run("--track locked-spoof --mirror docker.io=127.0.0.1:1").expect(5);
    let failed = project.run("records --last --format cyclonedx").expect(2);
    failed
        .says("did not end with an image")
        .says("only a run that succeeded has provenance and an SBOM");
    let unnamed = project.run("records --format cyclonedx").expect(2);
    unnamed.says("`--format cyclonedx` writes one record").says("name a record, or write `--last`");
}

#[test]
fn every_track_that_can_be_planned_has_an_sbom_of_its_packages() {
    let project = Project::new();
    project.run("--track ollama --rehearse").expect(0);
    for (track, few) in [
        ("official", 1),
        ("locked-spoof", 1),
        ("trainer --variant slim", 1),
        ("vulkan", 150),
        ("llama-rocm", 200),
        ("source --rehearse", 250),
    ] {
        let id = record_of(&project, track, None);
        let document = sbom(&project, &id);
        let all = document["components"].as_array().unwrap();
        assert!(all.len() >= few, "{track}: {}", all.len());
        let wanted: Value = serde_json::from_str(
            &project.run(&format!("plan {track} --format json")).expect(0).stdout,
        )
        .unwrap();
        for (name, input) in wanted["inputs"].as_object().unwrap() {
            let is_of = |one: &Value| {
                let properties = one["properties"].as_array().unwrap();
                one["bom-ref"] == *name || properties.iter().any(|one| one["value"] == *name)
            };
            assert!(all.iter().any(is_of), "{track}: {name} is {input}");
        }
    }
}

#[test]
fn the_packages_of_a_record_come_from_the_lock_that_the_run_used() {
    const LOCK: &str = "versions/locks/debian.toml";
    let project = Project::new();
    project.run("--track ollama --rehearse").expect(0);
    // This is not the lock in the program.
    let used = project.read(LOCK).replace("checked = 2026", "checked = 2025");
    project.write(LOCK, &used);
    let git = |line: &str| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@example.org"]);
        let done = command.args(line.split(' ')).current_dir(project.path("")).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    };
    git("init -q");
    git("add versions");
    git("commit -q -m locks");
    let committed = record_of(&project, "vulkan", Some(&git("rev-parse HEAD")));
    let document = sbom(&project, &committed);

    // A later lock does not change the SBOM of the run.
    project.write(LOCK, &used.replace("checked = 2025", "checked = 2024"));
    assert_eq!(sbom(&project, &committed), document);
    let newer = record_of(&project, "vulkan --variant debian", None);
    project.write(LOCK, &used);
    let ran = project.run(&format!("records {newer} --format cyclonedx")).expect(2);
    ran.says(&format!("`{LOCK}` is not the file that the run used"))
        .says("or build the image again");
}
