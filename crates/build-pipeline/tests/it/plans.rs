//! Plans depend on the files that they need, each read once, and on the patches that apply.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::dsl::{Project, Ran, ran};

const PATCH: &str = "patches/llama.cpp/llama.cpp-rdna3-macro.toml";

fn plan(project: &Project, line: &str) -> Value {
    let ran = project.run(&format!("plan --format json {line}")).expect(0);
    serde_json::from_str(&ran.stdout).unwrap()
}

/// Returns the patches in a plan, and the label that lists them.
fn patches(plan: &Value) -> (Vec<String>, Option<String>) {
    let steps = plan["steps"].as_array().unwrap();
    let all = steps.iter().filter_map(|step| step["action"]["patches"].as_array()).flatten();
    let ids = all.map(|patch| {
        let text = |key: &str| patch[key].as_str().unwrap().to_owned();
        format!("{}/{}", text("component"), text("id"))
    });
    let label = &steps.last().unwrap()["action"]["edit"]["labels"];
    let label = label["io.github.build-pipeline.patches"].as_str();
    (ids.collect(), label.map(str::to_owned))
}

#[test]
fn a_plan_names_the_patches_that_are_for_its_gpu_and_no_other() {
    let project = Project::new();
    let of = |line: &str| patches(&plan(&project, line));
    let one = "llama.cpp/llama.cpp-rdna3-macro".to_owned();
    assert_eq!(of("--track vulkan"), (vec![one.clone()], Some(one)));
    assert_eq!(of("--track vulkan --gpu gfx1031"), (Vec::new(), None));
}

#[test]
fn whatever_becomes_of_a_patch_file_is_seen_or_changes_nothing() {
    let project = Project::new();
    let before = plan(&project, "--track vulkan");
    let text = project.read(PATCH);

    // Neither a comment nor the provenance changes a plan.
    project.write(
        PATCH,
        &format!("# a comment\n{}", text.replace("description = ", "description = \"now \" # ")),
    );
    let changed = project.run("plan --track vulkan --format json").code;
    if changed == 0 {
        assert_eq!(plan(&project, "--track vulkan"), before);
    }
    project.write(PATCH, &format!("# a comment\n{text}\n# another\n"));
    assert_eq!(plan(&project, "--track vulkan"), before);

    // A file name that differs from the id is refused, and the error points to the id.
    std::fs::rename(project.path(PATCH), project.path("patches/llama.cpp/other.toml")).unwrap();
    project
        .run("plan --track vulkan")
        .expect(2)
        .says("patches/llama.cpp/other.toml:")
        .says("the id is `llama.cpp-rdna3-macro`, but the file is called `other.toml`");
    project.run("--track vulkan").expect(2).says("other.toml");
    // So is a file name under which the patch would be skipped silently.
    let off = project.path("patches/llama.cpp/llama.cpp-rdna3-macro.toml.off");
    std::fs::rename(project.path("patches/llama.cpp/other.toml"), &off).unwrap();
    project.run("plan --track vulkan").expect(2).says("toml.off` is not a patch file");
    std::fs::remove_file(&off).unwrap();

    // A patch of another component is refused too.
    project.write(PATCH, &text.replace("component = \"llama.cpp\"", "component = \"vllm\""));
    project
        .run("plan --track vulkan")
        .expect(2)
        .says("the component is `vllm`, but the folder is called `llama.cpp`");

    // For a different target, the patch disappears from the plan and the labels.
    assert!(text.contains("gpus = \"gfx11[0-9a-f]{2}\""));
    project.write(PATCH, &text.replace("gpus = \"gfx11[0-9a-f]{2}\"", "gpus = \"gfx1100\""));
    assert_eq!(patches(&plan(&project, "--track vulkan")), (Vec::new(), None));

    // The effect of the patch is part of the plan.
    project.write(PATCH, &text.replacen("satisfied_by", "already", 1));
    if project.run("plan --track vulkan").code == 0 {
        assert_ne!(plan(&project, "--track vulkan"), before);
    }

    // A deleted patch is gone; its folder must exist if a pin names it.
    std::fs::remove_file(project.path(PATCH)).unwrap();
    assert_eq!(patches(&plan(&project, "--track vulkan")), (Vec::new(), None));
    std::fs::remove_dir_all(project.path("patches/llama.cpp")).unwrap();
    project.run("plan --track vulkan").expect(2).says("component `llama.cpp`");
    project.write(PATCH, &text);
    assert_eq!(plan(&project, "--track vulkan"), before);
}

/// A hint must not lead to the next error.
#[test]
fn a_rehearsal_is_suggested_only_for_tracks_that_have_one() {
    let project = Project::new();
    let suggestion = "`--rehearse` builds on a small stand-in";
    project.run("plan ollama").expect(2).says(suggestion);
    project.run("plan ollama --rehearse").expect(0);
    let ran = project.run("plan vulkan --variant fedora").expect(2).says("is unresolved");
    assert!(!ran.stderr.contains(suggestion), "{}", ran.stderr);
    project.run("plan vulkan --rehearse").says("cannot be rehearsed");
}

#[test]
fn a_pin_that_the_plan_does_not_use_cannot_be_set() {
    let project = Project::new();
    let zero = format!("sha256:{}", "0".repeat(64));
    let before = project.files();
    for command in ["plan", "build"] {
        // The track's packages come from the lock `debian`; an image pin has the same name.
        project
            .run(&format!("{command} --track vulkan --set debian={zero}"))
            .expect(2)
            .says("track `vulkan` does not use pin `debian`")
            .says("`llama-cpp-python`")
            .says("`versions/locks/debian.toml`");
        project
            .run(&format!("{command} --track locked-spoof --set ollama={zero}"))
            .expect(2)
            .says("track `locked-spoof` does not use pin `ollama`")
            .says("`--set vllm-dev-locked=…`");
    }
    let one = format!("vllm-dev-locked={zero}");
    project
        .run(&format!("plan --track locked-spoof --set {one} --set {one}"))
        .expect(2)
        .says("`--set vllm-dev-locked=…` is given twice");
    crate::dsl::same(&project.files(), &before, "a refused override");
    assert!(project.records().is_empty());
}

#[test]
fn the_home_screen_knows_every_track() {
    let project = Project::new();
    let ran = project.run("").expect(0);
    assert!(!ran.stdout.contains("not in this version"), "{}", ran.stdout);
    for (track, title) in [
        ("official", "vLLM, official ROCm image"),
        ("ollama", "Ollama, official ROCm image (not ready: pin `ollama` is unresolved"),
        ("source", "vLLM, from source (not ready: pin `fedora` is unresolved"),
        ("nightly-spoof", "vLLM, vendor nightly (its tag is resolved at each build)"),
        ("locked-spoof", "vLLM, locked vendor image"),
        ("vulkan", "llama.cpp, Vulkan"),
        ("trainer", "PyTorch, to train with"),
        ("llama-rocm", "llama.cpp, ROCm"),
    ] {
        let line = ran.stdout.lines().find(|line| line.contains(&format!("  {track} ")));
        assert!(line.is_some_and(|line| line.contains(title)), "{track}: {line:?}");
    }
}

/// llama.cpp's build asks git for its build number and commit, but the source trees of the tracks
/// contain no git data.
#[test]
fn builds_of_llama_cpp_are_given_the_number_and_commit_of_their_source() {
    let project = Project::new();
    for track in ["vulkan", "llama-rocm"] {
        let plan = plan(&project, &format!("--track {track}"));
        let steps = plan["steps"].as_array().unwrap();
        let args = steps.iter().find_map(|step| step["action"]["args"].as_object()).unwrap();
        assert_eq!(args["LLAMA_BUILD_NUMBER"], "11312", "{track}: {args:?}");
        assert_eq!(args["LLAMA_BUILD_COMMIT"], "0c1e57098", "{track}: {args:?}");
    }
    let shown = project.run("pins show llama-cpp-python --format json").expect(0);
    shown.prints("LLAMA_BUILD_NUMBER").prints("11312");
}

/// Returns how often each project file was opened, by path from its root. Leaves out
/// outputs, git's own files and the settings for registries.
fn opened(project: &Project, line: &str) -> BTreeMap<String, usize> {
    let log = project.path("home/strace.log");
    let program = env!("CARGO_BIN_EXE_build-pipeline");
    let command = project.command(&line.split_whitespace().collect::<Vec<_>>());
    let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let mut traced = std::process::Command::new("strace");
    traced
        .args(["-f", "-qq", "-e", "trace=open,openat", "-e", "status=successful", "-o"])
        .arg(&log)
        .arg(program)
        .args(arguments)
        .current_dir(project.path(""))
        .env_clear()
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = traced.output().expect("this test needs strace: apt-get install strace");
    ran(output).expect(0);
    let root = project.path("").canonicalize().unwrap();
    let root = format!("{}/", root.display());
    let text = std::fs::read_to_string(&log).unwrap();
    let mut count = BTreeMap::new();
    for line in text.lines().filter(|line| !line.contains("O_DIRECTORY")) {
        let Some(path) = line.split('"').nth(1) else { continue };
        let Some(name) = path.strip_prefix(&root) else { continue };
        let others = ["home/", "dist/", ".git/", "registries.conf"];
        if !others.iter().any(|start| name.starts_with(start)) {
            *count.entry(name.trim_start_matches("./").to_owned()).or_insert(0) += 1;
        }
    }
    count
}

/// The files that every plan is made from.
const DATA: [&str; 3] = ["versions/gpus.toml", "versions/tracks.toml", "versions/versions.toml"];

/// Checks that a command opens exactly these project files, each the given number of times.
fn check_opened(project: &Project, line: &str, files: &[&str], times: usize) {
    let wanted: BTreeMap<String, usize> =
        files.iter().map(|name| ((*name).to_owned(), times)).collect();
    assert_eq!(opened(project, line), wanted, "{line}");
}

#[test]
fn each_file_is_read_once_and_files_of_others_are_not_read() {
    let project = Project::new();
    // The table of what works together is about sources, releases and known versions of ROCm.
    let with_rocm = [DATA.as_slice(), &["versions/compat.toml"]].concat();
    let vulkan = ["dockerfiles/vulkan/debian.Dockerfile", PATCH, "versions/locks/debian.toml"];
    let vulkan = [DATA.as_slice(), &vulkan].concat();
    // The home screen plans every track.
    let others = [
        "dockerfiles/llama-rocm/debian.Dockerfile",
        "dockerfiles/source/fedora.Dockerfile",
        "dockerfiles/source/flash-attention.Dockerfile",
        "dockerfiles/source/rocm-pytorch.Dockerfile",
        "dockerfiles/source/vllm.Dockerfile",
        "patches/flash-attention/flash-attention-arch-list.toml",
        "patches/flash-attention/flash-attention-is-rdna.toml",
        "patches/vllm/vllm-arch-list.toml",
        "patches/vllm/vllm-paged-attention.toml",
        "patches/vllm/vllm-platform-fallback.toml",
        "versions/locks/pylock.flash-attention.toml",
        "versions/locks/rocm.toml",
    ];
    let all = [vulkan.as_slice(), &["versions/compat.toml"], &others].concat();
    for (line, files) in [
        ("plan --track locked-spoof --format json", DATA.as_slice()),
        ("plan --track trainer --format json", &with_rocm),
        ("plan --track trainer --rehearse", &DATA),
        ("plan --track vulkan --format json", &vulkan),
        ("plan --track vulkan,locked-spoof", &vulkan),
        ("build --track locked-spoof --rehearse", &DATA),
        ("verify rehearsal-locked-spoof", &DATA),
        ("explain locked-spoof --rehearse", &DATA),
        ("explain vulkan", &vulkan),
        ("explain rocm-too-old", &[]),
        ("", &all),
    ] {
        check_opened(&project, line, files, 1);
    }
}

/// A record contains the git state of the files. To find it, libgit2 reads each of them again.
#[test]
fn in_a_git_checkout_only_a_build_reads_its_files_once_more() {
    let (project, _) = crate::recipe::committed();
    check_opened(&project, "build --track locked-spoof --rehearse", &DATA, 2);
    for line in [
        "plan --track locked-spoof --rehearse",
        "verify rehearsal-locked-spoof",
        "explain locked-spoof --rehearse",
    ] {
        check_opened(&project, line, &DATA, 1);
    }
}

/// The plans that use patches: a plan of llama.cpp, and a rehearsal with the patches of vLLM and
/// flash-attention.
fn plans_with_patches(project: &Project) -> Result<Vec<Value>, Ran> {
    ["--track vulkan", "--track source --rehearse"]
        .into_iter()
        .map(|line| {
            let ran = project.run(&format!("plan --format json {line}"));
            if ran.code == 0 { Ok(serde_json::from_str(&ran.stdout).unwrap()) } else { Err(ran) }
        })
        .collect()
}

/// Every patch file in the project: `patches/COMPONENT/ID.toml`.
fn patch_files(project: &Project) -> Vec<(String, String)> {
    let files = project.files();
    let parts = files.keys().filter_map(|path| {
        let mut parts = path.to_str()?.strip_prefix("patches/")?.split('/');
        let (component, file) = (parts.next()?, parts.next()?);
        Some((component.to_owned(), file.strip_suffix(".toml")?.to_owned()))
    });
    parts.collect()
}

#[test]
fn every_patch_file_renamed_commented_retargeted_or_deleted_is_seen_where_it_counts() {
    let project = Project::new();
    let before = plans_with_patches(&project).unwrap();
    let used: Vec<String> = before.iter().flat_map(|plan| patches(plan).0).collect();
    let all = patch_files(&project);
    assert!(all.len() >= 11 && used.len() >= 5, "{all:?} {used:?}");
    for (component, id) in all {
        let name = format!("patches/{component}/{id}.toml");
        let (text, path) = (project.read(&name), project.path(&name));
        let whole = format!("{component}/{id}");
        let is_used = used.contains(&whole);
        let is_read = used.iter().any(|one| one.starts_with(&format!("{component}/")));

        // With a comment.
        project.write(&name, &format!("# a comment\n{text}# another\n"));
        assert_eq!(plans_with_patches(&project).unwrap(), before, "{whole} commented");
        project.write(&name, &text);

        // Renamed.
        let other = project.path(&format!("patches/{component}/renamed.toml"));
        std::fs::rename(&path, &other).unwrap();
        let wanted = format!("the id is `{id}`, but the file is called `renamed.toml`");
        match plans_with_patches(&project) {
            Ok(plans) => assert!(!is_read && plans == before, "{whole} renamed"),
            Err(refused) => drop(refused.expect(2).says("renamed.toml:").says(&wanted)),
        }
        project.run(&format!("patch check {component}")).expect(2).says(&wanted);
        std::fs::rename(&other, &path).unwrap();

        // For a different target.
        let at = text.find("[applies]\n").unwrap() + "[applies]\n".len();
        let rest = text[at..].split_inclusive('\n').filter(|line| !line.starts_with("gpus ="));
        let retargeted = format!("{}gpus = \"gfx9999\"\n{}", &text[..at], rest.collect::<String>());
        project.write(&name, &retargeted);
        let plans = plans_with_patches(&project).unwrap();
        let named: Vec<String> = plans.iter().flat_map(|plan| patches(plan).0).collect();
        assert!(!named.contains(&whole), "{whole} retargeted");
        assert_eq!(plans != before, is_used, "{whole} retargeted");
        for plan in &plans {
            let (ids, label) = patches(plan);
            assert_eq!(label, (!ids.is_empty()).then(|| ids.join(" ")), "{whole} retargeted");
        }

        // Deleted.
        std::fs::remove_file(&path).unwrap();
        match plans_with_patches(&project) {
            Ok(plans) => {
                let named: Vec<String> = plans.iter().flat_map(|plan| patches(plan).0).collect();
                assert!(!named.contains(&whole), "{whole} deleted");
                assert_eq!(plans != before, is_used, "{whole} deleted");
            }
            // Another patch requires it.
            Err(refused) => drop(refused.expect(2).says(&id)),
        }
        project.write(&name, &text);
    }
    assert_eq!(plans_with_patches(&project).unwrap(), before);
}
