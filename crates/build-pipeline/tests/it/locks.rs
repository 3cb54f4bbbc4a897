//! Every place has exactly one lock, whatever its name, and lock files are never where others could
//! place a link.

use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::{Fault, FaultProxy, RandomImage, gate_cases, gate_passed, shared_registry};

use crate::dsl::{Base, Project, Two, ran};

/// The promise that two concurrent runs do not mix.
const GATE: u8 = 6;

#[test]
fn a_link_beside_an_output_leads_nowhere() {
    let project = Project::new();
    project.write("precious", "years of work");
    std::fs::create_dir_all(project.path("dist")).unwrap();
    for link in ["dist/.locked-spoof.lock", "dist/.rehearsal-locked-spoof.lock", ".file.tar.lock"] {
        symlink(project.path("precious"), project.path(link)).unwrap();
    }
    project.run("--track locked-spoof --rehearse").expect(0);
    project.run("--track locked-spoof --rehearse --output oci-archive:file.tar").expect(0);
    assert_eq!(project.read("precious"), "years of work");

    // A link in the lock folder is not followed either.
    let folder = project.path("home/.local/state/build-pipeline/locks");
    for lock in std::fs::read_dir(&folder).unwrap().flatten() {
        std::fs::remove_file(lock.path()).unwrap();
        symlink(project.path("precious"), lock.path()).unwrap();
    }
    project.run("--track locked-spoof --rehearse").expect(3).says("opening");
    assert_eq!(project.read("precious"), "years of work");
}

#[test]
fn nothing_is_left_beside_an_output() {
    let project = Project::new();
    project.run("--track locked-spoof --rehearse --output oci:out/image --output oci-archive:out/file.tar").expect(0);
    let names = std::fs::read_dir(project.path("out")).unwrap().flatten();
    let mut names: Vec<_> = names.map(|entry| entry.file_name()).collect();
    names.sort();
    assert_eq!(names, ["file.tar", "image"]);
}

#[test]
fn git_ignores_a_new_folder_of_images_and_an_old_one_stays_as_it_is() {
    let project = Project::new();
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args(words).current_dir(project.path("")).env("HOME", project.path("home"));
        ran(git.output().unwrap()).expect(0).stdout
    };
    git(&["init", "-q"]);
    project.run("--track ollama --rehearse").expect(0);
    assert_eq!(project.read("dist/.gitignore"), "*\n");
    let seen = git(&["status", "--porcelain", "--untracked-files=all"]);
    assert!(seen.contains("versions/versions.toml") && !seen.contains("dist/"), "{seen}");

    std::fs::remove_file(project.path("dist/.gitignore")).unwrap();
    project.run("--track official --rehearse").expect(0);
    assert!(!project.path("dist/.gitignore").exists());

    // An interrupted build leaves files from which the next one continues.
    std::fs::remove_dir_all(project.path("dist")).unwrap();
    let base = Base::push(409);
    let proxy = FaultProxy::to(shared_registry().host());
    let last = base.image.layers.last().unwrap().digest.to_string();
    proxy.on("GET", &last).does(Fault::Stall);
    let mut build = project.begin(&format!("{} --with-layers", base.locked_spoof(&proxy.host())));
    let first = base.image.layers[0].digest.hex().to_owned();
    let blob = project.path("dist/locked-spoof/blobs/sha256").join(first);
    let limit = Instant::now() + Duration::from_secs(600);
    while !blob.exists() {
        assert!(Instant::now() < limit, "the first layer does not arrive");
        std::thread::sleep(Duration::from_millis(10));
    }
    let interrupt = ["-INT".to_owned(), build.id().to_string()];
    assert!(Command::new("kill").args(interrupt).status().unwrap().success());
    assert_eq!(build.wait().unwrap().code(), Some(130));
    assert_eq!(project.read("dist/.gitignore"), "*\n");
}

#[test]
fn a_run_waits_for_one_that_calls_the_output_otherwise() {
    let (project, base) = (Project::new(), Base::push(181));
    project.run(&base.locked_spoof(shared_registry().host())).expect(0);
    symlink(project.path("dist/locked-spoof"), project.path("link")).unwrap();
    symlink("dist", project.path("alias")).unwrap();
    let proxy = FaultProxy::to(shared_registry().host());
    proxy.on("GET", "/blobs/").does(Fault::Stall);
    std::fs::remove_dir_all(project.path("home/.cache")).unwrap();
    let mut first = project.begin(&base.locked_spoof(&proxy.host()));
    let begun = Instant::now();
    while proxy.count("GET", "/blobs/") == 0 {
        assert!(begun.elapsed() < Duration::from_secs(300), "the first run makes no requests");
        std::thread::sleep(Duration::from_millis(5));
    }
    let absolute = project.path("dist/locked-spoof").display().to_string();
    for name in ["link", "./dist/../link", "alias/locked-spoof", &absolute] {
        let line = base.locked_spoof(shared_registry().host());
        project
            .run(&format!("{line} --output oci:{name} --lock-timeout 0"))
            .expect(10)
            .says(&format!("`oci:{name}` is still held by process {}", first.id()));
    }
    first.kill().unwrap();
    first.wait().unwrap();
}

#[test]
fn an_archive_has_one_lock_by_whatever_name() {
    let (project, base) = (Project::new(), Base::push(184));
    let host = shared_registry().host();
    project.run(&format!("{} --output oci-archive:a.tar", base.locked_spoof(host))).expect(0);
    symlink("a.tar", project.path("link.tar")).unwrap();
    let other =
        RandomImage { layers: vec![90_000], ..RandomImage::new(185) }.push(host, &base.path, "b");
    let proxy = FaultProxy::to(host);
    proxy.on("GET", other.layers[0].digest.as_str()).does(Fault::Stall);
    let line = |host: &str| base.locked_spoof(host).replace(&base.digest(), other.digest.as_str());
    let line_of = |host: &str, name: &str| format!("{} --output oci-archive:{name}", line(host));
    let mut first = project.begin(&line_of(&proxy.host(), "a.tar"));
    let begun = Instant::now();
    while proxy.count("GET", other.layers[0].digest.as_str()) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(300), "the first run makes no requests");
        std::thread::sleep(Duration::from_millis(5));
    }
    let told = format!("`oci-archive:link.tar` is still held by process {}", first.id());
    let second = format!("{} --lock-timeout 0", line_of(host, "link.tar"));
    project.run(&second).expect(10).says(&told);
    // A run with a different state folder does not see the lock of the output.
    let words: Vec<&str> = second.split_whitespace().collect();
    let mut command = project.command(&words);
    command.env("XDG_STATE_HOME", project.path("home/other"));
    ran(command.output().unwrap()).expect(10).says("another run is writing").says(".a.tar.part");
    first.kill().unwrap();
    first.wait().unwrap();
    project.run(&second).expect(0);
    assert!(project.path("link.tar").is_symlink() && !project.path(".a.tar.part").exists());
    project.run(&line_of(host, "a.tar")).expect(0).says("up to date");
}

#[test]
fn one_place_is_named_once_in_a_command() {
    let project = Project::new();
    std::fs::create_dir_all(project.path("dist")).unwrap();
    symlink("dist", project.path("alias")).unwrap();
    project.run("--track locked-spoof --rehearse --output oci-archive:image.tar").expect(0);
    symlink("image.tar", project.path("link.tar")).unwrap();
    for (one, other) in [
        ("oci:dist/image", "oci:./dist/image"),
        ("oci:dist/image", "oci:alias/image"),
        ("oci-archive:image.tar", "oci-archive:alias/../image.tar"),
        ("oci:image", "oci-archive:image"),
        ("oci-archive:image.tar", "oci-archive:link.tar"),
    ] {
        project
            .run(&format!("--track locked-spoof --rehearse --output {one} --output {other}"))
            .expect(2)
            .says(&format!("`{one}` and `{other}` are the same place"));
    }
    // Two tracks, where the default place of one is a link to the other's.
    std::fs::create_dir_all(project.path("dist/rehearsal-ollama")).unwrap();
    symlink("rehearsal-ollama", project.path("dist/rehearsal-locked-spoof")).unwrap();
    project
        .run("--track locked-spoof --track ollama --rehearse")
        .expect(2)
        .says("are the same place");
    // The same text twice is one output.
    project.run("--track locked-spoof --rehearse --output oci:once --output oci:once").expect(0);
}

/// Starts a build whose output is a bind mount of the image's folder, in its own mount namespace.
fn begin_in_mount(project: &Project, line: &str) -> Child {
    let program = env!("CARGO_BIN_EXE_build-pipeline");
    let script =
        format!("mount --bind dist/locked-spoof bound && exec {program} {line} --output oci:bound");
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", &script]).env_clear();
    command.env("HOME", project.path("home")).env("PATH", std::env::var_os("PATH").unwrap());
    command.env("CONTAINERS_REGISTRIES_CONF", project.path("registries.conf"));
    command.current_dir(project.path("")).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn races_over_several_names_of_one_output_leave_a_whole_image() {
    let rounds = gate_cases(25, 100);
    let (project, base) = (Project::new(), Base::push(182));
    let host = shared_registry().host();
    let other = RandomImage { layers: vec![90_000, 70_000, 50_000], ..RandomImage::new(183) }
        .push(host, &base.path, "other");
    let mirror = format!(
        "--track locked-spoof --mirror docker.io/rocm/vllm-dev={host}/{} --with-layers",
        base.path
    );
    let lines = [base.digest(), other.digest.to_string()]
        .map(|digest| format!("{mirror} --set vllm-dev-locked={digest}"));
    let digests = lines.each_ref().map(|line| project.run(line).expect(0).digest());
    symlink("dist/locked-spoof", project.path("link")).unwrap();
    symlink("dist", project.path("alias")).unwrap();
    std::fs::create_dir(project.path("bound")).unwrap();
    let absolute = project.path("dist/locked-spoof").display().to_string();
    for round in 0..rounds {
        let names = ["dist/locked-spoof", "link", "alias/locked-spoof", &absolute];
        let mut children: Vec<Child> = (names.iter().enumerate())
            .map(|(at, name)| {
                project.begin(&format!("{} --output oci:{name}", lines[(at + round) % 2]))
            })
            .collect();
        children.push(begin_in_mount(&project, &lines[round % 2]));
        for child in children {
            ran(child.wait_with_output().unwrap()).expect(0);
        }
        let image = oci::LayoutImage::read(&project.path("dist/locked-spoof")).unwrap();
        assert!(digests.contains(&image.manifest_digest.to_string()), "round {round}");
        assert!(image.absent_layers.is_empty(), "round {round}: {:?}", image.absent_layers);
    }
    gate_passed(GATE, rounds);
}

#[test]
fn races_over_several_names_of_one_archive_leave_a_whole_image() {
    let rounds = gate_cases(5, 50);
    let two = Two::new(186);
    let line = |image: usize, name: &str| {
        format!("{} --output oci-archive:{name}", two.build_of(image % 2))
    };
    let digests = [0, 1].map(|image| two.run(&line(image, "a.tar")).expect(0).digest());
    symlink("a.tar", two.project.path("link.tar")).unwrap();
    let absolute = two.project.path("a.tar").display().to_string();
    for round in 0..rounds {
        let names = ["a.tar", "link.tar", &absolute, "./a.tar"];
        let children: Vec<Child> = (names.iter().enumerate())
            .map(|(at, name)| {
                let mut command = two.command(&line(at + round, name));
                // The last one does not see the locks of the others.
                if at == 3 {
                    command.env("XDG_STATE_HOME", two.project.path("home/other"));
                }
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        let ended = children.into_iter().map(|child| ran(child.wait_with_output().unwrap()));
        let codes: Vec<i32> =
            ended
                .map(|ran| {
                    if ran.code == 10 { ran.says("another run is writing") } else { ran.expect(0) }
                })
                .map(|ran| ran.code)
                .collect();
        assert!(codes.contains(&0), "round {round}: {codes:?}");
        assert!(digests.contains(&two.image_at("a.tar")), "round {round}");
        assert!(!two.project.path(".a.tar.part").exists(), "round {round}");
    }
    gate_passed(GATE, rounds);
}
