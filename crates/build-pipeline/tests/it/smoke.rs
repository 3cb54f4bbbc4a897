//! `smoke`: levels in containers in real engines, how they are judged, and which do not run.

use std::process::Command;

use crate::dsl::{Project, Ran, first_advice, ran};
use crate::engines::{BUSYBOX, Engine, both, podman};
use crate::schemas;

/// A project in which track vulkan is tested with these scripts: import, device, compute.
fn with_scripts(import: &str, device: &str, compute: &str) -> Project {
    let project = Project::new();
    for (name, text) in [("import", import), ("device", device), ("compute", compute)] {
        project.write(&format!("versions/smoke/test-{name}.sh"), text);
    }
    let text = "schema = 1\n[vulkan]\ngpu = \"vulkan\"\nmodels = \"~/models\"\nmodels-at = \"/models\"\n\
        smoke.import = { script = \"test-import.sh\", expect = '^version' }\n\
        smoke.device = { script = \"test-device.sh\", needs = \"any-gpu\", expect = 'Vulkan0:', software = 'llvmpipe' }\n\
        smoke.compute = { script = \"test-compute.sh\", needs = \"gpu\", expect = 'computed' }\n";
    project.write("versions/run.toml", text);
    project
}

fn smoke(project: &Project, engine: &Engine, more: &str) -> Ran {
    let line = format!("smoke vulkan --image {BUSYBOX} --network none {more}");
    let mut command = project.command(&line.split_whitespace().collect::<Vec<_>>());
    command.env("BUILD_PIPELINE_HOST", format!("unix://{}", engine.socket.display()));
    ran(command.output().unwrap())
}

fn json(ran: &Ran) -> serde_json::Value {
    serde_json::from_str(&ran.stdout).unwrap()
}

const SOFTWARE: &str = "[ \"$SOFTWARE\" = 1 ] && echo 'Vulkan0: llvmpipe (LLVM 19)'";

/// Returns the JSON that `smoke` prints.
pub(crate) fn report() -> serde_json::Value {
    let project = with_scripts("echo version 1", SOFTWARE, "echo computed");
    json(&smoke(&project, &podman(), "--no-gpu --format json"))
}

#[test]
fn without_a_gpu_the_levels_that_need_none_run_and_the_others_are_named() {
    for engine in both() {
        let project = with_scripts("[ -e /dev/dri ] || echo version 1", SOFTWARE, "echo computed");
        let ran = smoke(&project, &engine, "--no-gpu").expect(0);
        let ran =
            ran.prints("ok      import").prints("ok      device").prints("(on a software device)");
        ran.prints("-       compute  it needs a GPU: `--no-gpu` was given")
            .prints("2 passed, 0 failed, 2 not run");
        let ran = smoke(&project, &engine, "--no-gpu --format json --level compute").expect(3);
        let report = json(&ran);
        assert_eq!((&report["gpu"], &report["engine"]), (&false.into(), &engine.name.into()));
        assert_eq!(report["levels"][1]["software"], true);
        assert_eq!(report["levels"][2]["outcome"], "not-tried");
        schemas::check(&project, "smoke", &[report]);
        assert_eq!(engine.containers(), [""; 0]);
    }
}

#[test]
fn a_script_outside_the_project_is_refused() {
    let (engine, outside) = (podman(), tempfile::tempdir().unwrap());
    let project = with_scripts("true", "true", "true");
    let script = project.path("versions/smoke/test-import.sh");
    std::fs::rename(&script, outside.path().join("script")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("script"), script).unwrap();
    let ran = smoke(&project, &engine, "--no-gpu").expect(2);
    ran.says("`versions/smoke/test-import.sh` is a symbolic link to")
        .says("which is outside the project")
        .says("replace the link with a copy");
}

#[test]
fn a_track_without_levels_is_not_passed() {
    let (engine, project) = (podman(), Project::new());
    let row =
        "schema = 1\n[vulkan]\ngpu = \"vulkan\"\nmodels = \"~/models\"\nmodels-at = \"/models\"\n";
    project.write("versions/run.toml", row);
    smoke(&project, &engine, "--no-gpu").expect(2).says("track `vulkan` has no smoke tests");
}

#[test]
fn a_signal_is_a_failure_by_its_name_and_ends_the_levels() {
    let engine = podman();
    for (script, status, name) in [
        ("echo 'Vulkan0: x'; sh -c 'kill -6 $$'; exit $?", 134, "(SIGABRT"),
        ("sh -c 'kill -11 $$'; exit $?", 139, "a segmentation fault"),
        ("echo 'Vulkan0: x'; exit 3", 3, "status 3"),
        ("echo 'no devices found'", 0, "its output does not contain the expected text"),
    ] {
        let project = with_scripts("echo version 1", script, "echo computed");
        let ran = smoke(&project, &engine, "--no-gpu").expect(1);
        ran.prints("FAILED  device").prints(name).prints("-       compute  level device failed");
        let report = json(&smoke(&project, &engine, "--no-gpu --format json").expect(1));
        assert_eq!(report["levels"][1]["status"], status);
        assert_eq!(report["passed"], false);
    }
}

#[test]
fn known_failures_are_offered_from_the_output_and_from_the_kernels_log() {
    let engine = podman();
    let fault = "echo 'Memory access fault by GPU node-1 on address 0x1'; exit 1";
    let project = with_scripts("echo version 1", fault, "");
    let ran = smoke(&project, &engine, "--no-gpu").expect(1);
    let advice = first_advice("memory-access-fault");
    ran.prints("[memory-access-fault]").prints(&format!("fix    {advice}"));

    // A failure that is not known is assessed.
    let unknown = "echo 'vkCreateInstance failed: VK_ERROR_LAYER_NOT_PRESENT'; exit 1";
    let project = with_scripts("echo version 1", unknown, "");
    let ran = smoke(&project, &engine, "--no-gpu").expect(1);
    ran.prints("assessment (not a known failure, check it): ").prints("[vulkan-layer-missing]");
    let report = json(&smoke(&project, &engine, "--no-gpu --format json").expect(1));
    let levels = report["levels"].as_array().unwrap();
    let kinds: Vec<&str> =
        levels.iter().filter_map(|one| one["assessment"]["kind"].as_str()).collect();
    assert_eq!(kinds, ["vulkan-layer-missing"]);

    // The program succeeds, but the driver reports a failure in the meantime.
    let project = with_scripts("echo version 1; sleep 2", "", "");
    project.write(
        "machine/dev/kmsg",
        "6,1,1,-;amdgpu: GCVM_L2_PROTECTION_FAULT_STATUS:0x1 of long ago\n",
    );
    let log = project.path("machine/dev/kmsg");
    let writer = "sleep 1; while [ -e \"$0\" ]; do \
        echo '3,9,9,-;amdgpu 0000:c5:00.0: GCVM_L2_PROTECTION_FAULT_STATUS:0x00800932' >> \"$0\"; sleep 0.3; done";
    let mut writer = Command::new("sh").args(["-c", writer]).arg(&log).spawn().unwrap();
    let ran = smoke(&project, &engine, "--no-gpu --host-root machine --level import").expect(1);
    std::fs::remove_file(&log).unwrap();
    writer.wait().unwrap();
    ran.prints("the kernel log shows a known failure").prints("[page-fault-in-kernel-log]");
    project.write(
        "machine/dev/kmsg",
        "6,1,1,-;amdgpu: GCVM_L2_PROTECTION_FAULT_STATUS:0x1 of long ago\n",
    );
    smoke(&project, &engine, "--no-gpu --host-root machine --level import").expect(0);
}

#[test]
fn a_model_is_needed_where_one_is_served() {
    let engine = podman();
    let project = with_scripts("echo version 1", SOFTWARE, "echo computed");
    project.edit("versions/run.toml", "needs = \"gpu\"", "needs = \"any-gpu\", model = true");
    let ran = smoke(&project, &engine, "--no-gpu").expect(0);
    ran.prints("-       compute  it needs a model: specify one with `--model`");
    project
        .write("versions/smoke/test-compute.sh", "[ \"$MODEL\" = 'tiny.gguf' ] && echo computed");
    smoke(&project, &engine, "--no-gpu --model tiny.gguf").expect(0).prints("ok      compute");
}
