//! If something goes wrong, the program returns the right exit code, suggests a next step and
//! writes a record. It leaves no incomplete files.

use std::path::Path;

use base64::Engine as _;
use serde_json::Value;
use testkit::{Answer, Auth, Bearer, Fault, FaultProxy, RandomImage, shared_registry};

use crate::dsl::{Base, Project, same};

/// Builds through a proxy whose faults `prepare` sets up. Checks that the build fails with the exit
/// code `code`. Returns the project and standard error.
fn fails(seed: u64, code: i32, prepare: impl Fn(&FaultProxy, &Base)) -> (Project, String) {
    let (project, base) = (Project::new(), Base::push(seed));
    let proxy = FaultProxy::to(shared_registry().host());
    prepare(&proxy, &base);
    // The registry itself, not a mirror, because with a mirror the run would fall back to the
    // registry.
    let repository = format!("repository = \"{}/{}\"", proxy.host(), base.path);
    project.edit("versions/versions.toml", "repository = \"docker.io/rocm/vllm-dev\"", &repository);
    let before = project.files();
    let set = format!("--set vllm-dev-locked={}", base.digest());
    let ran = project.run(&format!("--track locked-spoof {set} --with-layers")).expect(code);
    assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
    let record = project.records().pop().unwrap();
    assert_eq!(record["status"], "failed");
    assert!(!record["error"].as_array().unwrap().is_empty());
    // A complete, checked layer may remain, so that the next run need not fetch it again. In that
    // case, git ignores the folder that holds it.
    let is_layer = |path: &Path, bytes: &[u8]| {
        path.starts_with("dist/locked-spoof/blobs/sha256")
            && path.file_name().unwrap() == names::Digest::of(bytes).hex()
    };
    let mut after = project.files();
    after.retain(|path, _| !before.contains_key(path));
    let layers = after.iter().filter(|(path, bytes)| is_layer(path, bytes)).count();
    let ignored = after.remove(Path::new("dist/.gitignore")).is_some();
    assert_eq!(ignored, layers > 0, "{:?}", after.keys());
    assert_eq!(after.len(), layers, "{:?}", after.keys());
    (project, ran.stderr)
}

#[test]
fn what_a_registry_does_decides_the_exit_code() {
    let (_, said) = fails(61, 5, |proxy, _| proxy.on("GET", "/manifests/").does(Answer::new(404)));
    assert!(said.contains("--mirror"), "{said}");
    let (_, said) = fails(62, 4, |proxy, _| proxy.on("GET", "/manifests/").does(Answer::new(403)));
    assert!(said.contains("permissions"), "{said}");
    let (_, said) = fails(63, 5, |proxy, _| {
        proxy.on("GET", "/manifests/").does(Answer::new(429).header("Retry-After", "86400"));
    });
    assert!(said.contains("podman login"), "{said}");
    let (_, said) = fails(64, 6, |proxy, base| {
        proxy.on("GET", base.image.config.digest.as_str()).does(Fault::Flip(0));
    });
    assert!(said.contains("the content was not used"), "{said}");
    let (_, said) = fails(65, 6, |proxy, base| {
        proxy.on("GET", base.image.layers[1].digest.as_str()).does(Fault::Flip(0));
    });
    assert!(said.contains("layer"), "{said}");
    fails(66, 5, |proxy, _| {
        proxy
            .on("GET", "/manifests/")
            .does(Answer::new(200).header("Content-Type", "text/html").body("<html>log in</html>"));
    });
}

#[test]
fn a_passing_fault_is_survived() {
    let (project, base) = (Project::new(), Base::push(67));
    let proxy = FaultProxy::to(shared_registry().host());
    proxy.on("GET", "/manifests/").first(1).does(Answer::new(503));
    proxy
        .on("GET", base.image.config.digest.as_str())
        .first(1)
        .does(Answer::new(429).header("Retry-After", "0"));
    project.run(&base.locked_spoof(&proxy.host())).expect(0);
}

#[test]
fn a_wrong_mirror_is_passed_over_with_a_warning() {
    let (project, base) = (Project::new(), Base::push(68));
    let bad = FaultProxy::to(shared_registry().host());
    bad.on("GET", "/manifests/").does(Fault::Flip(0));
    let good = format!("docker.io/rocm/vllm-dev={}/{}", shared_registry().host(), base.path);
    let line = base.locked_spoof(&bad.host());
    let ran = project.run(&format!("{line} --mirror {good}"));
    ran.expect(0).says("[mirror-distrusted]");
}

#[test]
fn no_secret_is_told_to_anyone_else() {
    const CANARY: &str = "canary-4711";
    let (project, base) = (Project::new(), Base::push(69));
    let proxy = FaultProxy::to(shared_registry().host());
    proxy.require(Auth::Bearer(Bearer {
        user: Some(("me".to_owned(), CANARY.to_owned())),
        ..Bearer::default()
    }));
    let encoded = base64::prelude::BASE64_STANDARD.encode(format!("me:{CANARY}"));
    let auth = format!(r#"{{"auths": {{"{}": {{"auth": "{encoded}"}}}}}}"#, proxy.host());
    project.write("home/.docker/config.json", &auth);
    let elsewhere = FaultProxy::to(shared_registry().host());
    let layer = base.image.layers[0].digest.clone();
    let place = format!("{}/v2/{}/blobs/{layer}", elsewhere.url(), base.path);
    proxy.on("GET", layer.as_str()).does(Fault::Redirect(place));
    let ran =
        project.run(&format!("{} --with-layers -vv", base.locked_spoof(&proxy.host()))).expect(0);
    assert!(elsewhere.count("GET", layer.as_str()) == 1);
    assert!(elsewhere.requests().iter().all(|request| request.header("authorization").is_none()));

    for text in [ran.stdout, ran.stderr, project.run("records --format json").stdout] {
        assert!(!text.contains(CANARY) && !text.contains(&encoded), "{text}");
    }
    for (path, bytes) in project.files() {
        assert!(
            !bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()),
            "{}",
            path.display()
        );
    }
}

#[test]
fn a_folder_of_somebody_else_is_left_alone() {
    let project = Project::new();
    project.write("mine/thesis.txt", "years of work");
    project
        .run("--track locked-spoof --rehearse --output oci:mine")
        .expect(2)
        .says("is not an OCI image layout");
    assert_eq!(project.read("mine/thesis.txt"), "years of work");
    project.write("file", "x");
    project
        .run("--track locked-spoof --rehearse --output oci:file")
        .expect(2)
        .says("`file` is a file, not a folder");
    assert_eq!(project.read("file"), "x");
}

#[test]
fn a_full_disk_is_named_and_costs_nothing() {
    let (project, base) = (Project::new(), Base::push(70));
    let image = RandomImage { layers: vec![400_000], ..RandomImage::new(71) }.push(
        shared_registry().host(),
        &base.path,
        "large",
    );
    let small = project.path("small");
    std::fs::create_dir_all(&small).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=200k none {} && exec {} --track locked-spoof --mirror docker.io/rocm/vllm-dev={}/{} --set vllm-dev-locked={} --with-layers --output oci:small/out",
        small.display(),
        env!("CARGO_BIN_EXE_build-pipeline"),
        shared_registry().host(),
        base.path,
        image.digest,
    );
    // A private mount needs its own mount namespace, but not root.
    let mut command = std::process::Command::new("unshare");
    command
        .args(["--map-root-user", "--mount", "sh", "-c", &script])
        .current_dir(project.path(""))
        .env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", project.path("home"));
    let ran = crate::dsl::ran(command.output().unwrap()).expect(3);
    ran.says("No space left").says("free some space");
    let record: Value = project.records().pop().unwrap();
    assert_eq!(record["status"], "failed");
}

#[test]
fn a_damaged_cache_heals_by_itself() {
    let (project, base) = (Project::new(), Base::push(72));
    let line = base.locked_spoof(shared_registry().host());
    let digest = project.run(&line).expect(0).digest();
    let cache = project.path("home/.cache/build-pipeline/blobs/sha256");
    let files: Vec<_> =
        std::fs::read_dir(&cache).unwrap().flatten().map(|entry| entry.path()).collect();
    assert_eq!(files.len(), 2, "manifest and config");
    for file in files {
        let whole = std::fs::read(&file).unwrap();
        let flipped: Vec<u8> = whole
            .iter()
            .enumerate()
            .map(|(at, byte)| if at == whole.len() / 2 { byte ^ 1 } else { *byte })
            .collect();
        for damaged in [Vec::new(), whole[..2].to_vec(), whole[..whole.len() / 2].to_vec(), flipped]
        {
            std::fs::write(&file, damaged).unwrap();
            let ran = project.run(&line).expect(0).says("was damaged").says("check the disk");
            assert_eq!(ran.digest(), digest);
            assert_eq!(std::fs::read(&file).unwrap(), whole);
        }
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert_eq!(project.run(&line).expect(0).digest(), digest);
        std::fs::remove_dir(&file).unwrap();
    }
}

#[test]
fn a_damaged_record_is_passed_over_and_named() {
    let project = Project::new();
    project.run("--track ollama --rehearse").expect(0);
    let folder = project.path("home/.local/state/build-pipeline/records");
    std::fs::write(folder.join("broken.json"), "{").unwrap();
    std::fs::write(folder.join("newer.json"), "{\"schema\": 99}").unwrap();
    std::fs::write(folder.join("older.json"), "{\"schema\": 1}").unwrap();
    let ran = project
        .run("records")
        .expect(0)
        .says("broken.json")
        .says("from before the first release")
        .says("this build-pipeline reads only up to 2");
    assert!(ran.stdout.contains("succeeded"));
}

#[test]
fn no_home_is_said() {
    let project = Project::new();
    let mut command = project.command(&["--track", "ollama", "--rehearse"]);
    crate::dsl::ran(command.env_remove("HOME").output().unwrap()).expect(3).says("XDG_STATE_HOME");
}

#[test]
fn an_archive_replaces_no_other_file_and_no_device() {
    let project = Project::new();
    project.write("notes.txt", "years of work");
    project.write("short", "x");
    project.write("empty.tar", "");
    std::os::unix::fs::symlink(project.path("notes.txt"), project.path("link.tar")).unwrap();
    // Ignore lock files next to outputs.
    let files = || {
        let mut files = project.files();
        files.retain(|path, _| path.extension().is_none_or(|extension| extension != "lock"));
        files
    };
    let before = files();
    for name in ["notes.txt", "short", "link.tar", "versions/versions.toml"] {
        project
            .run(&format!("--track ollama --rehearse --output oci-archive:{name}"))
            .expect(2)
            .says("exists and is not an OCI archive");
        same(&files(), &before, name);
    }
    project.run("--track ollama --rehearse --output oci-archive:empty.tar").expect(0);
    project.run("--track ollama --rehearse --output oci-archive:empty.tar --gpu gfx1100").expect(0);

    let fifo = project.path("pipe.tar");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let line = "--track ollama --rehearse --output oci-archive:pipe.tar";
    project.run(line).expect(2).says("exists and is not an OCI archive");
    let kind = std::fs::symlink_metadata(&fifo).unwrap().file_type();
    assert!(std::os::unix::fs::FileTypeExt::is_fifo(&kind), "it is still the same FIFO");
}

#[test]
fn a_file_of_the_project_that_is_no_file_is_named_and_not_waited_for() {
    for (name, line) in [
        ("versions/tracks.toml", "plan --track ollama --rehearse"),
        ("versions/locks/debian.toml", "plan --track vulkan"),
        ("dockerfiles/vulkan/debian.Dockerfile", "plan --track vulkan"),
        ("patches/llama.cpp/llama.cpp-rdna3-macro.toml", "plan --track vulkan"),
    ] {
        let project = Project::new();
        std::fs::remove_file(project.path(name)).unwrap();
        let made = std::process::Command::new("mkfifo").arg(project.path(name)).status();
        assert!(made.unwrap().success());
        project.run(line).expect(2).says(name).says("it is not a regular file");
    }
}

#[test]
fn a_lock_without_the_sets_of_a_plan_is_refused_before_anything_is_fetched() {
    let project = Project::new();
    let text = project.read("versions/locks/debian.toml");
    project.write("versions/locks/debian.toml", "");
    project.run("plan --track vulkan").expect(2).says("versions/locks/debian.toml:");
    project.write("versions/locks/debian.toml", &text.replace("vulkan-runtime", "vulkan-other"));
    project.run("--track vulkan").expect(2).says("has no set `vulkan-runtime`");
    assert!(project.records().is_empty());
}

#[test]
fn a_build_that_cannot_be_recorded_is_not_begun() {
    let project = Project::new();
    let mut command = project.command(&["--track", "ollama", "--rehearse"]);
    let state = command.env_remove("HOME").env("XDG_CACHE_HOME", project.path("home/cache"));
    crate::dsl::ran(state.output().unwrap()).expect(3).says("records");
    assert!(!project.path("dist").exists());
}

#[test]
fn too_few_processes_are_an_error_and_no_panic() {
    let project = Project::new();
    let program = project.path("program");
    std::fs::copy(env!("CARGO_BIN_EXE_build-pipeline"), &program).unwrap();
    // The limit does not apply to root, so the program runs as another user, who must be able to
    // access the files.
    let mut open = std::process::Command::new("chmod");
    assert!(open.args(["-R", "a+rwX"]).arg(project.path("")).status().unwrap().success());
    for limit in ["1", "2", "3"] {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid=65431", "--regid=65431", "--clear-groups", "prlimit"]);
        command.arg(format!("--nproc={limit}")).arg(&program);
        command.args(["--track", "locked-spoof", "--rehearse"]).current_dir(project.path(""));
        command.env("HOME", project.path("home"));
        let ran = crate::dsl::ran(command.output().unwrap());
        assert!(!ran.stderr.contains("panicked"), "{limit}: {}", ran.stderr);
        if ran.code != 0 {
            ran.expect(3).says("cannot start threads").says("ulimit -u");
        }
    }
}

#[test]
fn a_folder_in_place_of_a_blob_is_named_before_anything_is_fetched() {
    let (project, base) = (Project::new(), Base::push(195));
    let proxy = FaultProxy::to(shared_registry().host());
    let line = format!("{} --with-layers", base.locked_spoof(&proxy.host()));
    project.run(&line).expect(0);
    let layer = &base.image.layers[0].digest;
    let blob = oci::layout::blob_path(&project.path("dist/locked-spoof"), layer);
    std::fs::remove_file(&blob).unwrap();
    std::fs::create_dir(&blob).unwrap();
    let before = proxy.count("GET", layer.as_str());
    project.run(&line).expect(2).says("is a folder, expected a blob").says(layer.hex());
    assert_eq!(proxy.count("GET", layer.as_str()), before);
}

#[test]
fn damage_and_missing_content_have_their_own_exit_codes() {
    let project = Project::new();
    project.run("--track ollama --rehearse --output oci-archive:a.tar").expect(0);
    let archive = std::fs::read(project.path("a.tar")).unwrap();
    std::fs::write(project.path("a.tar"), &archive[..9000]).unwrap();
    project.run("verify a.tar").expect(6).says("hint: ");
    project.run("bundle ollama --rehearse -o -").expect(2).says("standard output");
    // The stand-ins of two rehearsals have different layers, which are on no registry.
    project.run("--track ollama,locked-spoof --rehearse").expect(0);
    let stand_in = "does not contain the layers of its stand-in";
    project.run("diff rehearsal-ollama rehearsal-locked-spoof").expect(2).says(stand_in);
    let pins = project.read("versions/versions.toml");
    project.write("versions/versions.toml", &format!("{pins}# a\0\n"));
    let line = pins.lines().count() + 1;
    let place = format!("versions.toml:{line}:4");
    project.run("plan ollama").expect(2).says("NUL").says(&place);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut help = project.command(&["--help"]);
    assert_eq!(help.stdout(full).status().unwrap().code(), Some(3));
}
