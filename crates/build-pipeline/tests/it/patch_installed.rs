//! `patch apply --when auto` and `patch hook`: systems with installed packages.

use std::process::Command;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::dsl::{Project, ran, same};
use crate::patch::json;

const PACKAGES: &str = "system/usr/lib/python3/dist-packages";

const PLATFORM: &str = "def rocm_platform_plugin():\n    is_rocm = False\n    return \
    \"vllm.platforms.rocm.RocmPlatform\" if is_rocm else None\n";

const SDK: &str = "def preload_libraries(*names, rtld_global: bool = True):\n    pass\n\n\
    def initialize_process(*, rtld_global: bool = True):\n    pass\n";

fn install(project: &Project, version: &str, platform: &str) {
    let write = |file: &str, text: &str| project.write(&format!("{PACKAGES}/{file}"), text);
    write("vllm/platforms/__init__.py", platform);
    let metadata = format!("Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n\n");
    for old in ["0.10.2", "0.11.0"] {
        drop(std::fs::remove_dir_all(project.path(&format!("{PACKAGES}/vllm-{old}.dist-info"))));
    }
    write(&format!("vllm-{version}.dist-info/METADATA"), &metadata);
    let digest = names::Digest::of(platform.as_bytes());
    let bytes: Vec<u8> = (0..32)
        .map(|at| u8::from_str_radix(&digest.hex()[2 * at..2 * at + 2], 16).unwrap())
        .collect();
    let hash = BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let record = format!("vllm/platforms/__init__.py,sha256={hash},{}\n", platform.len());
    write(&format!("vllm-{version}.dist-info/RECORD"), &record);
}

/// A system with vLLM, ROCm from Python packages, and a GPU.
fn system() -> Project {
    let project = Project::new();
    install(&project, "0.10.2", PLATFORM);
    project.write(&format!("{PACKAGES}/rocm_sdk/__init__.py"), SDK);
    project.write(
        &format!("{PACKAGES}/rocm_sdk_core-7.9.0.dist-info/METADATA"),
        "Name: rocm-sdk-core\nVersion: 7.9.0\n\n",
    );
    for (node, version) in [(0, 0), (1, 110_501)] {
        project.write(
            &format!("host/sys/class/kfd/kfd/topology/nodes/{node}/properties"),
            &format!("cpu_cores_count 16\ngfx_target_version {version}\n"),
        );
    }
    project
}

const LINE: &str = "patch apply --when auto --root system --host-root host --no-probes";

/// Packages are found in all usual places.
#[test]
fn patches_are_chosen_by_what_is_installed_and_by_the_gpu() {
    let project = system();
    let before = project.files();
    let ran = project.run(LINE).expect(0);
    ran.prints("ROCm 7.9.0 (rocm_sdk_core-7.9.0.dist-info), gfx1151 (")
        .prints("vllm 0.10.2 (vllm-0.10.2.dist-info) for gfx1151")
        .prints("✓ vllm-platform-fallback  applied(1)")
        .prints("vllm-arch-list          left out: it is for source trees")
        .prints("✓ therock-rtld-local  applied(2)");
    assert!(
        project
            .read(&format!("{PACKAGES}/vllm/platforms/__init__.py"))
            .contains("torch.version.hip")
    );
    let document = json(&project.run(&format!("{LINE} --format json")).expect(0));
    assert_eq!(document["detected"]["gpu"], "gfx1151");
    crate::schemas::check(&project, "patch", &[document]);
    project.run(LINE).expect(0).prints("it was applied earlier");
    project.run("patch revert --root system").expect(0).prints("vllm in ").prints("therock in ");
    same(&project.files(), &before, "files");
    project.run("patch revert --root system").expect(2).says("no patch was applied");
}

#[test]
fn a_package_that_does_not_fit_leaves_no_other_unpatched() {
    let project = system();
    let sdk = format!("{PACKAGES}/rocm_sdk/__init__.py");
    project.edit(&sdk, "rtld_global: bool", "rtld: bool");
    let before = project.read(&sdk);
    let ran = project.run(LINE).expect(7).prints("✗ therock-rtld-local");
    ran.prints("✓ vllm-platform-fallback  applied(1)").says("1 of 2 patches did not apply");
    assert_eq!(project.read(&sdk), before);
    let platform = project.read(&format!("{PACKAGES}/vllm/platforms/__init__.py"));
    assert!(platform.contains("torch.version.hip"));
    // A package with a damaged list of receipts does not stop the others either.
    let project = system();
    let other = "system/opt/venv/lib/python3.12/site-packages";
    project.write(&format!("{other}/rocm_sdk/__init__.py"), SDK);
    project.write(&format!("{other}/.build-pipeline/patches.json"), "nonsense");
    project.run(LINE).expect(2).says("is not a list of receipts").prints("✓ vllm-platform");
    assert!(project.read(&format!("{PACKAGES}/rocm_sdk/__init__.py")).contains("= False"));
}

/// Returns whether each row of a RECORD matches its file, according to an independent program.
fn record_is_correct(project: &Project, folder: &str) -> bool {
    let check = "import base64, csv, hashlib, sys\n\
        for path, stated, size in csv.reader(open(sys.argv[1])):\n    data = open(path, 'rb').read()\n    \
        found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')\n    \
        assert (stated, size) == ('sha256=' + found, str(len(data))), path\n";
    let mut python = Command::new("python3");
    python.args(["-c", check, &format!("{folder}/RECORD")]).current_dir(project.path(PACKAGES));
    python.status().unwrap().success()
}

/// The hashes in RECORD match the patched files.
#[test]
fn the_record_of_a_package_stays_correct() {
    let project = system();
    let folder = "vllm-0.10.2.dist-info";
    let before = project.files();
    assert!(record_is_correct(&project, folder));
    project.run(LINE).expect(0).prints("✓ vllm-platform-fallback  applied(1)");
    assert!(record_is_correct(&project, folder));
    project.run(LINE).expect(0).prints("it was applied earlier");
    project.run("patch revert --root system").expect(0);
    same(&project.files(), &before, "files");
    // The first field can be in quotes.
    let record = format!("{PACKAGES}/{folder}/RECORD");
    let plain = project.read(&record);
    project.edit(&record, "vllm/platforms/__init__.py", "\"vllm/platforms/__init__.py\"");
    project.run(LINE).expect(0);
    assert!(record_is_correct(&project, folder));
    project.run("patch revert --root system").expect(0);
    project.write(&record, &plain);
    // A row that was wrong before is not corrected.
    project.edit(&record, "sha256=", "sha256=x");
    let wrong = project.read(&record);
    project.run(LINE).expect(0);
    assert_eq!(project.read(&record), wrong);
}

/// Python runs the patched source, although the package has bytecode that Python does not check.
#[test]
fn bytecode_that_python_does_not_check_does_not_hide_a_patch() {
    let project = system();
    let python = |code: &str| {
        let mut python = Command::new("python3");
        python.args(["-B", "-c", code]).current_dir(project.path(PACKAGES));
        String::from_utf8(python.output().unwrap().stdout).unwrap()
    };
    let runs = "from vllm.platforms import rocm_platform_plugin; print(rocm_platform_plugin())";
    let torch = "class version:\n    hip = '7.0'\n\nclass cuda:\n    is_available = lambda: True\n";
    project.write(&format!("{PACKAGES}/torch.py"), torch);
    python(
        "from py_compile import PycInvalidationMode, compile; \
        compile('vllm/platforms/__init__.py', invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)",
    );
    assert_eq!(python(runs), "None\n");
    project.run(LINE).expect(0).prints("✓ vllm-platform-fallback  applied(1)");
    assert_eq!(python(runs), "vllm.platforms.rocm.RocmPlatform\n");
    project.run("patch revert --root system").expect(0);
    assert_eq!(python(runs), "None\n");
}

/// A run that is killed after it has changed the files and before it has changed RECORD.
#[test]
fn the_next_run_corrects_the_record_that_a_killed_one_left() {
    let folder = "vllm-0.10.2.dist-info";
    let record = format!("{PACKAGES}/{folder}/RECORD");
    let platform = format!("{PACKAGES}/vllm/platforms/__init__.py");
    // The killed run was `apply`, then `revert`: it restores files in the order of their names.
    for left in [&record, &platform] {
        let project = system();
        let before = project.files();
        let old = project.read(left);
        project.run(LINE).expect(0);
        project.write(left, &old);
        project.run(LINE).expect(0);
        assert!(project.read(&platform).contains("torch.version.hip"), "{left}");
        assert!(record_is_correct(&project, folder), "{left}");
        project.run(LINE).expect(0).prints("it was applied earlier");
        project.run("patch revert --root system").expect(0);
        same(&project.files(), &before, left);
    }
}

#[test]
fn a_damaged_list_of_receipts_stops_no_other_revert() {
    let project = system();
    let before = project.files();
    project.run(LINE).expect(0);
    let ledger = "system/home/eve/.venv/lib/python3.12/site-packages/.build-pipeline/patches.json";
    project.write(ledger, "{");
    let ran = project.run("patch revert --root system").expect(2);
    ran.says("is not a list of receipts").prints("✓ vllm-platform-fallback");
    std::fs::remove_dir_all(project.path("system/home")).unwrap();
    same(&project.files(), &before, "files");
}

#[test]
fn the_library_that_is_fixed_at_its_source_is_left_alone() {
    for version in ["7.14.0", "10.0.0", "10.1.0"] {
        let project = system();
        let metadata = format!("{PACKAGES}/rocm_sdk_core-7.9.0.dist-info/METADATA");
        project.edit(&metadata, "7.9.0", version);
        let said = format!("ROCm {version}");
        project.run(LINE).expect(0).prints(&said).prints("the double free is fixed at its source");
        assert_eq!(project.read(&format!("{PACKAGES}/rocm_sdk/__init__.py")), SDK);
    }
}

#[test]
fn a_patch_for_some_versions_of_rocm_is_left_out_for_others() {
    let project = system();
    let patch = std::fs::read_to_string(project.path("patches/vllm/vllm-platform-fallback.toml"));
    let patch = patch.unwrap().replace("[applies]\n", "[applies]\nrocm = \">=7.10\"\n");
    project.write("patches/vllm/vllm-platform-fallback.toml", &patch);
    let platform = || project.read(&format!("{PACKAGES}/vllm/platforms/__init__.py"));
    project.run(LINE).expect(0).prints("left out: it is for ROCm `>=7.10`, but 7.9.0 is installed");
    assert_eq!(platform(), PLATFORM);
    project.edit(&format!("{PACKAGES}/rocm_sdk_core-7.9.0.dist-info/METADATA"), "7.9.0", "7.14.0");
    project.run(LINE).expect(0).prints("✓ vllm-platform-fallback  applied(1)");
}

/// The version of ROCm determines which patches are applied.
#[test]
fn the_version_of_rocm_decides() {
    let project = system();
    let metadata = format!("{PACKAGES}/rocm_sdk_core-7.9.0.dist-info/METADATA");
    project.edit(&metadata, "7.9.0", "10.1.0");
    project.run(LINE).expect(0).prints("ROCm 10.1.0").prints("not-applicable");
    assert_eq!(project.read(&format!("{PACKAGES}/rocm_sdk/__init__.py")), SDK);
    // If this metadata is missing, the version in /opt is used.
    std::fs::remove_dir_all(project.path(&format!("{PACKAGES}/rocm_sdk_core-7.9.0.dist-info")))
        .unwrap();
    project
        .run(&format!("{LINE} --dry-run"))
        .expect(0)
        .prints("no ROCm")
        .prints("left out: the package");
    project.write("system/opt/rocm-7.0.2/.info/version", "7.0.2-56\n");
    project.write("system/opt/rocm-6.4.1/.info/version", "6.4.1-83\n");
    project
        .run(LINE)
        .expect(0)
        .prints("ROCm 7.0.2 (opt/rocm-7.0.2/.info/version)")
        .prints("applied(2)");
}

#[test]
fn the_gpu_is_the_kernels_or_is_named() {
    let project = system();
    let line = "patch apply --when auto --root system --no-probes --host-root";
    project.run(&format!("{line} nowhere")).expect(2).says("no AMD GPU").says("--gpu gfx1151");
    project
        .write("host/sys/class/kfd/kfd/topology/nodes/2/properties", "gfx_target_version 120001\n");
    project.run(&format!("{line} host")).expect(2).says("gfx1151, gfx1201").says("--gpu");
    project.run(&format!("{line} host --gpu gfx1201")).expect(0).prints("gfx1201 (--gpu)");
    project.run("patch apply --when auto --gpu gfx1151").expect(2).says("--root DIR");
    project.run("patch apply --when auto vllm --root system").expect(2);
    project.run("patch apply --root system").expect(2);
}

#[test]
fn places_reached_through_links_are_left_alone() {
    let project = system();
    std::fs::rename(project.path("system/usr"), project.path("usr")).unwrap();
    std::os::unix::fs::symlink("../usr", project.path("system/usr")).unwrap();
    let before = project.files();
    let ran = project.run(LINE).expect(2).says("found no package under `system` that has patches");
    ran.says("vllm")
        .says("searched 0 folders of Python packages for")
        .says("--root …/site-packages");
    same(&project.files(), &before, "files");
}

#[test]
fn an_upgrade_is_patched_anew_and_what_others_changed_is_not() {
    let project = system();
    project.run(LINE).expect(0);
    // The package manager installs another version, whose RECORD has the file's hash.
    let newer = PLATFORM.replace("is_rocm = False", "is_rocm = False  # newer");
    install(&project, "0.11.0", &newer);
    project
        .run(LINE)
        .expect(0)
        .prints("vllm 0.11.0")
        .prints("✓ vllm-platform-fallback  applied(1)");
    project.run("patch revert vllm --root system/usr/lib/python3/dist-packages").expect(0);
    assert_eq!(project.read(&format!("{PACKAGES}/vllm/platforms/__init__.py")), newer);

    project.run(LINE).expect(0);
    project.edit(&format!("{PACKAGES}/vllm/platforms/__init__.py"), "# newer", "# mine");
    let before = project.files();
    project.run(LINE).expect(7).prints("base-dirty");
    same(&project.files(), &before, "files");
}

/// Returns the command that apt would run.
fn apt_command(project: &Project, hook: &str) -> String {
    project.write("90hook", hook);
    let mut apt = Command::new("apt-config");
    apt.args(["dump", "--format", "%f=%v%n", "-c"]).arg(project.path("90hook"));
    // This test needs Debian's `apt`.
    let dumped = ran(apt.output().unwrap()).expect(0).stdout;
    let commands: Vec<&str> =
        dumped.lines().filter_map(|line| line.strip_prefix("DPkg::Post-Invoke::=")).collect();
    let ours: Vec<&&str> = commands.iter().filter(|line| line.contains("build-pipeline")).collect();
    assert_eq!(ours.len(), 1, "{dumped}");
    (*ours[0]).to_owned()
}

#[test]
fn the_hook_for_apt_is_read_by_apt_and_patches_an_upgrade() {
    let project = system();
    let before = project.files();
    let hook = project.run("patch hook apt --root system --gpu gfx1151").expect(0).stdout;
    same(&project.files(), &before, "nothing is installed");
    let command = apt_command(&project, &hook);
    let run = || {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &command]).current_dir("/").env_clear().env("PATH", "/usr/bin:/bin");
        ran(shell.output().unwrap())
    };
    run().expect(0).prints("vllm-platform-fallback  applied(1)");
    install(&project, "0.11.0", &PLATFORM.replace("is_rocm = False", "is_rocm = False  # newer"));
    run().expect(0).prints("vllm 0.11.0").prints("applied(1)");
    // A patch that does not apply is reported, and apt continues.
    project.write(&format!("{PACKAGES}/vllm/platforms/__init__.py"), "other\n");
    run().expect(0).says("the patches were not applied again");
}

#[test]
fn a_hook_names_the_installed_program_and_a_project_only_for_its_own_patches() {
    let nowhere = Project::empty();
    let bin = nowhere.path("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let installed = bin.join("build-pipeline");
    let command = |project: &Project| {
        let mut command = project.command(&["patch", "hook", "apt"]);
        let hook = ran(command.env("PATH", &bin).output().unwrap()).expect(0).stdout;
        let line = hook.lines().last().unwrap().to_owned();
        line.split_once('"').unwrap().1.split_once(" patch apply").unwrap().0.to_owned()
    };
    let own = env!("CARGO_BIN_EXE_build-pipeline");
    assert_eq!(command(&nowhere), format!("{own} -C /"));
    nowhere.write("bin/build-pipeline", "another program");
    assert_eq!(command(&nowhere), format!("{own} -C /"));
    std::fs::remove_file(&installed).unwrap();
    std::os::unix::fs::symlink(own, &installed).unwrap();
    assert_eq!(command(&nowhere), format!("{} -C /", installed.display()));
    let project = Project::new();
    assert_eq!(command(&project), format!("{} -C /", installed.display()));
    project.edit("patches/vllm/vllm-arch-list.toml", "schema = 1", "# mine\nschema = 1");
    let folder = project.path("");
    let folder = folder.to_str().unwrap().trim_end_matches('/');
    assert_eq!(command(&project), format!("{} -C {folder}", installed.display()));
}

#[test]
fn the_hook_for_zypper_answers_every_message() {
    let project = system();
    let hook = project.run("patch hook zypper --root system --gpu gfx1151").expect(0).stdout;
    project.write("hook.sh", &hook);
    project.write("messages", "PLUGINBEGIN\n\n\0\nPACKAGESETCHANGED\n\n\0PLUGINEND\n\n\0");
    let mut shell = Command::new("bash");
    shell.arg(project.path("hook.sh")).env_clear().env("PATH", "/usr/bin:/bin").current_dir("/");
    shell.stdin(std::fs::File::open(project.path("messages")).unwrap());
    let ran = ran(shell.output().unwrap()).expect(0).says("vllm-platform-fallback  applied(1)");
    assert_eq!(ran.stdout, "ACK\n\n\0".repeat(3));
}

#[test]
fn the_functions_for_pip_and_uv_patch_what_was_installed() {
    let project = system();
    let program = |name: &str, code: i32| {
        let path = project.path(&format!("bin/{name}"));
        project.write(
            &format!("bin/{name}"),
            &format!("#!/bin/sh\necho ran {name} $*\nexit {code}\n"),
        );
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, mode).unwrap();
    };
    let run = |name: &str, arguments: &str| {
        let hook = project.run(&format!("patch hook {name} --gpu gfx1151")).expect(0).stdout;
        project.write("hook.sh", &hook);
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!(". ./hook.sh; {name} {arguments}")]);
        shell.current_dir(project.path("")).env_clear();
        let path = format!("{}:/usr/bin:/bin", project.path("bin").display());
        // Here, `system` stands in for a virtual environment; its packages are in Debian's folder.
        shell.env("PATH", path).env("VIRTUAL_ENV", project.path("system"));
        ran(shell.output().unwrap())
    };
    for (name, install, other) in
        [("pip", "install vllm", "list"), ("uv", "pip install vllm", "pip list")]
    {
        program(name, 0);
        let ran = run(name, other).expect(0);
        assert_eq!(
            (ran.stdout.as_str(), ran.stderr.as_str()),
            (&*format!("ran {name} {other}\n"), "")
        );
        let ran = run(name, install).expect(0).says("vllm-platform-fallback  applied(1)");
        assert_eq!(ran.stdout, format!("ran {name} {install}\n"));
        project.run("patch revert --root system").expect(0);
        program(name, 3);
        let ran = run(name, install).expect(3);
        assert_eq!(ran.stderr, "", "a failed {name} is not followed by patches");
    }
}

#[test]
fn the_hook_for_dnf_has_five_parts_and_odd_paths_are_refused() {
    let project = system();
    let hook = project.run("patch hook dnf --root system").expect(0).stdout;
    let lines: Vec<&str> = hook.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("post_transaction::::/"), "{}", lines[0]);
    assert_eq!(lines[0].matches(':').count(), 4, "libdnf5 separates fields with colons");
    let mut command = project.command(&["patch", "hook", "apt", "--root", "a b"]);
    ran(command.output().unwrap()).expect(2).says("cannot be used in a hook");
    project.run("patch hook pacman").expect(2).says("apt, dnf, zypper");
}
