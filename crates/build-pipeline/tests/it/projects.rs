//! Several projects on one machine, where the data of a project comes from, and which image of a
//! track is checked.

use serde_json::Value;
use testkit::{RandomImage, shared_registry};

use crate::built::Bench;
use crate::dsl::{Project, Ran, ran};

const TRACK: &str =
    "schema = 1\n[mine]\ntitle = \"t\"\ndescription = \"d\"\ntrack = \"official\"\n";

/// A project with a track `mine`, below the folder of `home`, whose state and cache it shares.
fn project_in(home: &Project, name: &str, settings: &str) {
    home.run(&format!("init {name}")).expect(0);
    home.write(&format!("{name}/versions/tracks.toml"), &format!("{TRACK}{settings}"));
}

fn home() -> Project {
    let home = Project::empty();
    home.write("registries.conf", "");
    home
}

fn listed(ran: Ran) -> Vec<Value> {
    serde_json::from_str(&ran.expect(0).stdout).unwrap()
}

#[test]
fn two_projects_with_one_track_name_do_not_share_records() {
    let home = home();
    project_in(&home, "one", "env.A = \"1\"\n");
    project_in(&home, "two", "env.A = \"2\"\n");
    home.run("-C one --track mine --rehearse").expect(0);
    home.run("-C one explain mine --rehearse").expect(0).prints("nothing changed");
    home.run("-C two explain mine --rehearse").expect(0).prints("there is no record");
    home.run("-C two --track mine --rehearse").expect(0);
    home.run("-C one explain mine --rehearse").expect(0).prints("nothing changed");
    home.run("-C two explain mine --rehearse").expect(0).prints("nothing changed");
    // The list contains the project's records; outside a project, and with `--all`, it contains all
    // records.
    assert_eq!(listed(home.run("-C one records --format json")).len(), 1);
    assert_eq!(listed(home.run("-C two records --format json --all")).len(), 2);
    let all = listed(home.run("records --format json"));
    assert_eq!(all.len(), 2);
    let root = home.path("one").canonicalize().unwrap();
    assert_eq!(all[0]["place"]["project"], root.to_str().unwrap());
    // A record is found by its name from anywhere, and names its project.
    let id = all[0]["id"].as_str().unwrap();
    home.run(&format!("-C two records {id}")).expect(0).prints(root.to_str().unwrap());
    // The newest record of each project is kept.
    home.run("records prune --keep 0").expect(0).prints("0 records removed, 2 kept");

    // A project that was moved keeps its records, and so do records of older versions.
    std::fs::rename(home.path("one"), home.path("moved")).unwrap();
    home.run("-C moved explain mine --rehearse").expect(0).prints("nothing changed");
    let file = format!("home/.local/state/build-pipeline/records/{id}.json");
    let mut record: Value = serde_json::from_str(&home.read(&file)).unwrap();
    record.as_object_mut().unwrap().remove("place");
    home.write(&file, &record.to_string());
    home.run("-C moved explain mine --rehearse").expect(0).prints("nothing changed");
}

#[test]
fn two_projects_with_one_track_name_do_not_share_a_home() {
    let home = home();
    project_in(&home, "one", "");
    project_in(&home, "two", "");
    let of = |project: &str, track: &str| {
        let text = home.run(&format!("-C {project} run {track} --print shell")).expect(0).stdout;
        let line = text.lines().find(|line| line.starts_with("mkdir -p ")).unwrap();
        line.split_once("build-pipeline/home/").unwrap().1.trim_end_matches('"').to_owned()
    };
    let (one, two) = (of("one", "mine"), of("two", "mine"));
    assert!(one.starts_with("one-") && one.ends_with("/mine"), "{one}");
    assert!(two.starts_with("two-") && two.ends_with("/mine"), "{two}");
    // The images of built-in tracks are the same in all projects.
    assert_eq!(
        (of("one", "official"), of("two", "official")),
        ("official".into(), "official".into())
    );
}

/// `-C` acts as if the program had been started there, also for what it writes.
#[test]
fn all_relative_paths_start_in_the_folder_of_the_option() {
    let home = home();
    project_in(&home, "one", "");
    let run = |line: &str| home.run(&format!("-C one {line}")).expect(0);
    run("--track mine --rehearse -o oci:image --digest-file digest");
    run("--track mine --rehearse -o oci-archive:out/image.tar");
    run("verify image");
    run("bundle mine --rehearse -o inputs.tar");
    run("--track mine --rehearse --bundle inputs.tar -o oci:again");
    run("export github mine --rehearse --store dir:steps --install true -o ci.yml");
    run("export github mine --rehearse --store dir:steps --install true -o ci.yml --check");
    run("man pages");
    for name in ["image", "digest", "out/image.tar", "inputs.tar", "again", "ci.yml", "pages"] {
        let is_there = |folder: &str| home.path(&format!("{folder}{name}")).exists();
        assert!(is_there("one/") && !is_there(""), "{name}");
    }
    // A path that the user can paste into the shell that started the program.
    let dist = home.path("one/dist/rehearsal-mine");
    run("--track mine --rehearse").prints(&format!("oci:{}", dist.display()));
}

#[test]
fn the_image_of_another_project_is_not_started() {
    let bench = Bench::new("ARG BASE\nFROM ${BASE}\n");
    let project = &bench.project;
    let tracks = project.read("versions/tracks.toml");
    let with = |value: &str| {
        format!(
            "{tracks}\n[mine]\ntitle = \"t\"\ndescription = \"d\"\nbase = \"tiny\"\nenv.A = \"{value}\"\n"
        )
    };
    for (folder, value) in [("", "1"), ("two/", "2")] {
        for file in ["versions.toml", "gpus.toml", "compat.toml", "run.toml"] {
            let text = project.read(&format!("versions/{file}"));
            project.write(&format!("{folder}versions/{file}"), &text);
        }
        project.write(&format!("{folder}versions/tracks.toml"), &with(value));
    }
    let run = |line: &str| ran(bench.command_at(line, shared_registry().host()).output().unwrap());
    let start = "run mine --engine docker --no-gpu --network none --entrypoint /bin/true";
    let load = "--track mine --load --output oci:dist/mine --engine docker";
    run(load).expect(0);
    run(start).expect(0);
    run(&format!("-C two {start}"))
        .expect(1)
        .says("is the image of track `mine` of another project");
    run(&format!("-C two {load}")).expect(0);
    run(&format!("-C two {start}")).expect(0);
    let refused = run(start).expect(1);
    refused.says("another project, `").says("/two`").says("`build-pipeline --track mine --load`");
    run(&format!("{start} --force")).expect(0);
    run("smoke mine --engine docker --no-gpu").expect(1).says("another project, `");
    // Both images can be kept, under two names.
    run("--track mine --output engine:localhost/one/mine:latest --engine docker").expect(0);
    run(&format!("{start} --image localhost/one/mine:latest")).expect(0);
    // `dist/mine` contains the same image. Without it, there is nothing to read.
    run("verify mine").expect(0).prints("dist/mine");
    std::fs::remove_dir_all(project.path("dist/mine")).unwrap();
    run("verify mine")
        .expect(2)
        .says("wrote its image to `engine:localhost/one/mine:latest`")
        .says("`--output oci:dist/mine`");
    // The same image may come from either.
    project.write("two/versions/tracks.toml", &with("1"));
    run(&format!("-C two {load}")).expect(0);
    run(start).expect(0);
}

#[test]
fn doctor_uses_the_records_of_the_project() {
    let home = home();
    project_in(&home, "one", "");
    project_in(&home, "two", "");
    home.run("-C one --track mine --rehearse").expect(0);
    // A record that lists the GPUs that the image was checked for.
    let id = listed(home.run("-C one records --format json"))[0]["id"].as_str().unwrap().to_owned();
    let file = format!("home/.local/state/build-pipeline/records/{id}.json");
    let mut record: Value = serde_json::from_str(&home.read(&file)).unwrap();
    let steps = record["plan"]["steps"].as_array_mut().unwrap();
    let last = steps.len() - 1;
    let base = steps[last]["action"]["base"].clone();
    let audit = serde_json::json!({
        "id": "audit-image", "action": { "do": "audit-image", "image": base, "gpu": "gfx906" }
    });
    steps.insert(last, audit);
    let labels = &mut steps[last + 1]["action"];
    labels["base"] = "audit-image".into();
    labels["edit"]["labels"]["io.github.build-pipeline.gpu-targets"] = "gfx906".into();
    home.write(&file, &record.to_string());
    crate::unfold::machine(&home.path("machine"), "strix-halo");
    let doctor = |project: &str| {
        let machine = home.path("machine").display().to_string();
        home.run(&format!("-C {project} doctor --track mine --host-root {machine}")).stdout
    };
    let (one, two) = (doctor("one"), doctor("two"));
    assert!(one.contains("gfx906"), "{one}");
    assert!(!two.contains("gfx906"), "{two}");
}

#[test]
fn a_track_is_verified_where_its_last_build_wrote_it() {
    let host = shared_registry().host();
    let path = format!("own/place-{}", std::process::id());
    let base = RandomImage::new(7811).push(host, &path, "v1");
    let project = home();
    project.run("init").expect(0);
    let pin = format!(
        "\n[image.vllm-openai-rocm]\nrepository = \"{host}/{path}\"\ntag = \"v1\"\ndigest = \"{}\"\n",
        base.digest
    );
    let pins = project.read("versions/versions.toml");
    project.write("versions/versions.toml", &(pins + &pin));
    project.write("versions/tracks.toml", TRACK);
    let missing = project.run("verify mine").expect(2);
    missing.says("no image of track `mine`").says("no record").says("--track mine");

    // An archive, named from another folder.
    std::fs::create_dir_all(project.path("elsewhere")).unwrap();
    let line = "--track mine --output oci-archive:image.tar";
    let mut command = project.command(&line.split(' ').collect::<Vec<_>>());
    ran(command.current_dir(project.path("elsewhere")).output().unwrap()).expect(0);
    let archive = project.path("elsewhere/image.tar").display().to_string();
    let found = project.run("verify mine").expect(0).prints("proven: ").prints(&archive);
    found.prints("written by the last build with this name, record ");
    project.run("verify mine --format json").expect(0).prints("\"record\": ");
    project.run("audit mine").expect(1).prints("host only");

    // A registry, if nothing on disk is newer.
    let target = format!("{host}/own/placed-{}:v1", std::process::id());
    project.run(&format!("--track mine --push {target}")).expect(0);
    project.run("verify mine").expect(0).prints("proven: ").prints(&target);
    // The last build is used, and a removed output is ignored.
    project.run("--track mine").expect(0);
    project.run("verify mine").expect(0).prints("dist/mine");
    project.run("--track mine --output oci:other").expect(0);
    project.run("verify mine").expect(0).prints("/other  sha256:");
    std::fs::remove_dir_all(project.path("other")).unwrap();
    project.run("verify mine").expect(0).prints("dist/mine");
    // An older image is not taken for that of the last build.
    project.write("versions/tracks.toml", &format!("{TRACK}env.A = \"1\"\n"));
    project.run("--track mine --output oci:other").expect(0);
    std::fs::remove_dir_all(project.path("other")).unwrap();
    project
        .run("verify mine")
        .expect(2)
        .says("the last build of `mine` wrote its image to `oci:other`")
        .says("dist/mine` contains a different image");
    project.run("--track mine --output oci:other --rehearse").expect(0);
    project.run("verify rehearsal-mine").expect(0).prints("/other  sha256:");
}

#[test]
fn rows_of_a_project_extend_those_of_the_program() {
    let project = home();
    project.run("init").expect(0);
    // A known failure of the project, and the built-in ones.
    let own = "schema = 1\n[failure.ours]\nany = [\"our own program broke\"]\nabout = \"rocm\"\n\
               cause = \"ours\"\nfix = [\"repair it\"]\nknown = \"one source\"\nevidence = \"us\"\n";
    project.write("versions/failures.toml", own);
    let log = "ROCm version 7\nour own program broke\n\
               HIP out of memory. Tried to allocate 20.00 MiB\n\
               RuntimeError: HIP error: invalid device function\n";
    project.write("run.log", log);
    let both = project.run("diagnose run.log --format json").expect(1);
    let of = |ran: &Ran| -> Vec<String> {
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        let found = report["failures"].as_array().unwrap().iter();
        found.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let names = of(&both);
    assert!(names.contains(&"ours".to_owned()) && names.len() > 1, "{names:?}");
    let other = names.iter().find(|name| *name != "ours").unwrap().clone();

    // A row is removed by its name, and replaced by a row of the same name.
    let remove = format!("remove = [\"failure.{other}\"]\n");
    project.write(
        "versions/failures.toml",
        &own.replace("schema = 1\n", &format!("schema = 1\n{remove}")),
    );
    let without = of(&project.run("diagnose run.log --format json").expect(1));
    assert!(!without.contains(&other) && without.contains(&"ours".to_owned()), "{without:?}");
    project
        .write("versions/failures.toml", &own.replace("failure.ours", &format!("failure.{other}")));
    let replaced = project.run("diagnose run.log --format json").expect(1);
    assert!(replaced.stdout.contains("repair it"), "{}", replaced.stdout);
    for (row, says) in [
        ("failure.nothing-like-it", "build-pipeline has no row `failure.nothing-like-it`"),
        (&*format!("failure.{}", &other[..other.len() - 1]), "did you mean"),
    ] {
        project.write("versions/failures.toml", &format!("schema = 1\nremove = [\"{row}\"]\n"));
        project.run("diagnose run.log").expect(2).says(says).says("versions/failures.toml:2:");
    }

    // The same for the compatibility table.
    let bad = "schema = 1\n[bad.ours]\npackage = \"vllm\"\nreleases = [\"0.1\"]\nwhy = \"w\"\n\
               instead = \"i\"\nevidence = \"e\"\nchecked = 2026-11-24\n";
    project.write("versions/compat.toml", bad);
    project.run("plan official").expect(0);
    let origins = project.run("pins show --origin").expect(0);
    origins.prints("bad.ours ").prints("versions/compat.toml:2").prints("kernel.any ");
    project.write("versions/compat.toml", "schema = 1\nremove = [\"kernel.any\"]\n");
    project.run("plan official").expect(0);
    project.run("pins show --origin").expect(0).prints("removed by versions/compat.toml:2");
    project.write("versions/compat.toml", "schema = 1\nremove = [\"kernel.anny\"]\n");
    project
        .run("lint")
        .expect(2)
        .says("build-pipeline has no row `kernel.anny`")
        .says("did you mean `kernel.any`?");
    // A project that does not use the built-in data has nothing to remove.
    let pins = project.read("versions/versions.toml");
    project.write(
        "versions/versions.toml",
        &pins.replace("schema = 1", "schema = 1\nbuilt-in = false"),
    );
    project.write("versions/failures.toml", "schema = 1\nremove = [\"failure.x\"]\n");
    project.run("diagnose run.log").expect(2).says("no other file has rows that it could remove");
}

#[test]
fn the_origin_of_every_row_is_shown() {
    let project = home();
    project.run("init").expect(0);
    project.write("versions/tracks.toml", TRACK);
    let digest = format!("sha256:{}", "1".repeat(64));
    let pin = format!(
        "\n[image.ollama]\nrepository = \"registry.example.org/o\"\ndigest = \"{digest}\"\n"
    );
    let text = project.read("versions/versions.toml") + &pin;
    project.write("versions/versions.toml", &text);
    let line = text.lines().position(|line| line == "[image.ollama]").unwrap() + 1;
    let ran = project.run("pins show --origin").expect(0);
    let of = |row: &str| {
        let found = ran.stdout.lines().find(|line| line.split_whitespace().next() == Some(row));
        found.unwrap_or_else(|| panic!("{row}: {}", ran.stdout)).trim().to_owned()
    };
    let expected = format!("versions/versions.toml:{line}, replaces the built-in row");
    assert!(of("image.ollama").ends_with(&expected), "{}", of("image.ollama"));
    assert!(of("image.vllm-openai-rocm").ends_with("built-in"));
    assert!(of("mine").ends_with("versions/tracks.toml:2"));
    assert!(of("official").ends_with("built-in"));
    for row in ["gfx1151", "limit.vega", "variable.GPU_ARCHS"] {
        assert!(of(row).ends_with("built-in"), "{row}");
    }

    project.run("pins show ollama --origin").expect(0).prints(&format!("toml:{line}"));
    let one = project.run("pins show ollama --origin --format json").expect(0);
    let report: Value = serde_json::from_str(&one.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!((&rows[0]["from"], &rows[0]["line"]), (&"project".into(), &line.into()));
    assert_eq!(rows[0]["replaces_built_in"], true);
    let set =
        project.run(&format!("pins show --origin --set ollama={digest} --format json")).expect(0);
    let report: Value = serde_json::from_str(&set.stdout).unwrap();
    let set: Vec<&Value> =
        report["rows"].as_array().unwrap().iter().filter(|row| row["from"] == "set").collect();
    assert_eq!((set.len(), &set[0]["value"]), (1, &digest.as_str().into()));
    project.run("pins show --origin --set olama=rocm").expect(2).says("did you mean `ollama`?");
    project.run("pins show --origin --set ollama").expect(2).says("has no value");
    project.run("pins show --origin --set vllm=x").expect(2).says("is not an image pin");
    project.run("pins show --set ollama=rocm").expect(2);
    // Without built-in data, there is nothing else.
    project.write(
        "versions/versions.toml",
        &text.replace("schema = 1", "schema = 1\nbuilt-in = false"),
    );
    let ran = project.run("pins show --origin").expect(0);
    assert!(!ran.stdout.contains("built-in"), "{}", ran.stdout);
}
