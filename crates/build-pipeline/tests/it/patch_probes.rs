//! Probes execute code from the tree. Either that code cannot reach the machine, or it is not run.

use std::process::Command;

use crate::dsl::{Project, ran};
use crate::patch::{head, list_edit};

/// A project whose patch calls a function of the tree. The function's default argument is code that
/// Python runs when the function is defined; it copies a secret to a file that shows that it ran.
fn hostile() -> (Project, tempfile::TempDir) {
    let project = Project::new();
    let outside = tempfile::tempdir().unwrap();
    let probe = "[[probe]]\nname = \"calls\"\nkind = \"python-call\"\nfiles = [\"a.py\"]\n\
        functions = [\"f\"]\ncall = \"print('called')\"\nmatches = '''called'''\n";
    let patch =
        format!("{}[applies]\nversions = \"*\"\n\n{}{probe}", head("demo-list"), list_edit("a.py"));
    project.write("patches/demo/demo-list.toml", &patch);
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let command = format!("cat {} > {}/stolen", secret.display(), outside.path().display());
    let tree =
        format!("list = \"gfx1100\"\ndef f(x=__import__('os').system('{command}')):\n    pass\n");
    project.write("1.0/a.py", &tree);
    (project, outside)
}

#[test]
fn code_of_a_tree_reaches_nothing() {
    let (project, outside) = hostile();
    for line in ["check demo --root 1.0", "diff demo --root 1.0", "audit demo 1.0"] {
        project.run(&format!("patch {line}")).expect(0);
        assert_eq!(outside.path().read_dir().unwrap().count(), 1, "{line}");
    }
    let ran = project.run("patch apply demo --root 1.0").expect(0);
    ran.prints("probe `calls`: ✓ passed");
    assert_eq!(outside.path().read_dir().unwrap().count(), 1);
}

/// A tree with a list of targets, and a macro that keeps the wanted targets that are in the list.
fn cmake_tree(project: &Project, list: &str) {
    project.write("tree/CMakeLists.txt", list);
    let utils = "macro(override_gpu_arches GPU_ARCHES LANG SUPPORTED)\n  set(_all \"${SUPPORTED}\")\n  \
        set(${GPU_ARCHES})\n  \
        foreach(_one $ENV{PYTORCH_ROCM_ARCH})\n    if(_one IN_LIST _all)\n      \
        list(APPEND ${GPU_ARCHES} ${_one})\n    endif()\n  endforeach()\nendmacro()\n";
    project.write("tree/cmake/utils.cmake", utils);
    let kernels = "#if defined(__HIPCC__) && (defined(__gfx1100__))\n  #define __HIP__GFX11__\n#endif\n\
        #if defined(__HIP__GFX11__)\n__builtin_amdgcn_wmma_x\n#endif\n";
    project.write("tree/csrc/rocm/attention.cu", kernels);
}

/// Every command that changes the list of targets is evaluated.
#[test]
fn cmake_evaluates_all_that_changes_the_list() {
    let first = "set(HIP_SUPPORTED_ARCHS \"gfx942;gfx1100\")\n";
    let line =
        "patch check vllm --root tree --version 0.10.2 --only vllm-arch-list,vllm-paged-attention";
    for harmless in [
        "",
        "# set(HIP_SUPPORTED_ARCHS \"gfx942\")\n",
        "list(APPEND HIP_SUPPORTED_ARCHS gfx1103)\n",
        "list(REMOVE_ITEM HIP_SUPPORTED_ARCHS \"gfx1100\")\n",
        "message(STATUS \"${HIP_SUPPORTED_ARCHS}\")\n",
        "set(OLD gfx1100)\nlist(REMOVE_ITEM HIP_SUPPORTED_ARCHS ${OLD})\n",
    ] {
        let project = Project::new();
        cmake_tree(&project, &format!("{first}{harmless}"));
        project.run(line).expect(0).prints("beside another one`: ✓ passed");
    }
    for later in [
        "set(HIP_SUPPORTED_ARCHS gfx942 gfx1100)\n",
        "set(\n  HIP_SUPPORTED_ARCHS\n  \"gfx942\"\n  \"gfx1100\"\n)\n",
        "SET( HIP_SUPPORTED_ARCHS [[gfx942;gfx1100]] )\n",
        "list(REMOVE_ITEM HIP_SUPPORTED_ARCHS gfx1151)\n",
        "list(\n  FILTER HIP_SUPPORTED_ARCHS EXCLUDE REGEX \"gfx115.\")\n",
        "string(REPLACE \"gfx1151\" \"\" HIP_SUPPORTED_ARCHS \"${HIP_SUPPORTED_ARCHS}\")\n",
        "set(BAD gfx1151)\nlist(REMOVE_ITEM HIP_SUPPORTED_ARCHS ${BAD})\n",
        "set(OTHER HIP_SUPPORTED_ARCHS)\nlist(REMOVE_ITEM ${OTHER} gfx1151)\n",
        "set(OTHER gfx942)\nset(HIP_SUPPORTED_ARCHS ${OTHER})\n",
    ] {
        let project = Project::new();
        cmake_tree(&project, &format!("{first}{later}"));
        let ran = project.run(line).expect(7);
        ran.prints("beside another one`: ✗ failed").says("did not apply");
    }
}

/// A probe that would not see a change does not pass.
#[test]
fn a_change_that_cmake_would_not_see_is_not_judged() {
    let line =
        "patch check vllm --root tree --version 0.10.2 --only vllm-arch-list,vllm-paged-attention";
    for (later, why) in [
        (
            "foreach(one gfx1151)\n  list(REMOVE_ITEM HIP_SUPPORTED_ARCHS ${one})\nendforeach()\n",
            "line 3: `${one}` has no value in this file",
        ),
        ("narrow(HIP_SUPPORTED_ARCHS)\n", "line 2: `narrow` may change `HIP_SUPPORTED_ARCHS`"),
        (
            "include(cmake/narrow.cmake)\n",
            "line 2: the file `cmake/narrow.cmake` may change `HIP_SUPPORTED_ARCHS`",
        ),
    ] {
        let project = Project::new();
        cmake_tree(&project, &format!("set(HIP_SUPPORTED_ARCHS \"gfx942;gfx1100\")\n{later}"));
        project.write("tree/cmake/narrow.cmake", "set(HIP_SUPPORTED_ARCHS gfx942)\n");
        let told = format!("beside another one`: - not run: CMakeLists.txt, {why}");
        project.run(line).expect(0).prints(&told);
        project.run(&format!("{line} --strict")).expect(7).prints(&told);
    }
}

/// A skip that the tree contradicts is refused.
#[test]
fn a_skip_looks_at_the_tree() {
    // The text of 0.10.2 under the version 0.8.5.
    let project = Project::new();
    cmake_tree(&project, "set(HIP_SUPPORTED_ARCHS \"gfx942;gfx1100\")\n");
    let line = "patch check vllm --root tree --only vllm-paged-attention --no-probes --version";
    project.run(&format!("{line} 0.8.5")).expect(7).prints(
        "line 1: the tree has this text, but the patch expects this version not to have it",
    );
    project.run(&format!("{line} 0.10.2")).expect(0).prints("applied(1)");
}

#[test]
fn a_machine_that_cannot_confine_a_probe_does_not_run_it() {
    let (project, outside) = hostile();
    // A user namespace in which no other can be created, as in many containers.
    let run = |arguments: &[&str]| {
        let program = project.command(&[]).get_program().to_owned();
        let shell = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"";
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "sh", "-c", shell])
            .arg(program)
            .args(arguments)
            .current_dir(project.path("."))
            .env_clear()
            .env("HOME", project.path("home"))
            .env("PATH", "/usr/sbin:/usr/bin:/bin");
        ran(command.output().unwrap())
    };
    let ran = run(&["patch", "check", "demo", "--root", "1.0"]).expect(0);
    ran.prints("probe `calls`: - not run: this machine cannot confine a probe: ")
        .says("`--unconfined-probes` runs them with all your permissions");
    run(&["patch", "check", "demo", "--root", "1.0", "--strict"]).expect(7);
    assert_eq!(outside.path().read_dir().unwrap().count(), 1);
    let ran = run(&["patch", "check", "demo", "--root", "1.0", "--unconfined-probes"]).expect(0);
    ran.prints("probe `calls`: ✓ passed");
    assert!(outside.path().join("stolen").exists());
    // sed and Python's compiler execute no code from the tree.
    project.write("fix.sh", "sed -i 's/def/ def/' a.py\n");
    run(&["patch", "lint-sed", "fix.sh", "--root", "1.0"]).expect(1).prints("sed-breaks-syntax");
}
