//! Steps exported as jobs for CI systems.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use names::Digest;
use testkit::{gate_cases, gate_passed, shared_registry};

use crate::built::{Bench, tiny_project};
use crate::dsl::{Project, is_killed, ran, until_hit, workspace};
use crate::slim_track;

const TEXT: &str = "ARG BASE\nFROM ${BASE}\nENV PATH=/bin\nRUN echo 1 > /one\n";

#[test]
fn a_workflow_has_a_job_for_each_step_and_image_and_is_checked() {
    let (project, _) = tiny_project(TEXT);
    let stage = "dockerfile = \"dockerfiles/tiny.Dockerfile\"\n";
    let more = "[[vulkan.variants.tiny.stage]]\nname = \"more\"\ndockerfile = \"dockerfiles/more.Dockerfile\"\n";
    project.edit("versions/tracks.toml", stage, &format!("{stage}{more}"));
    project.write("dockerfiles/more.Dockerfile", TEXT);
    let line = "export github vulkan --variant tiny --store registry:ghcr.io/me/steps \
                --push ghcr.io/me/{track}:latest --install ./install --output w.yml";
    project.run(line).expect(0);
    let text = project.read("w.yml");
    project.run(line).expect(0);
    assert_eq!(project.read("w.yml"), text, "the text is the same each time");
    project.run(&format!("{line} --check")).expect(0);
    for wanted in [
        "\n  seal-tiny:\n",
        "\n  seal-more:\n    name: seal-more\n    runs-on: ubuntu-24.04\n    timeout-minutes: 360\n    needs: [seal-tiny]\n",
        "\n  image-vulkan-tiny:\n",
        "\n    needs: [seal-more]\n",
        "\npermissions: {}\n",
        "\n          RESULT_0: ${{ needs.seal-tiny.outputs.digest }}\n",
        "\n      packages: write # to push",
    ] {
        assert!(text.contains(wanted), "{wanted}:\n{text}");
    }
    for action in text.lines().filter_map(|line| line.trim().strip_prefix("- uses: ")) {
        let commit = action.split_once('@').unwrap().1.split(' ').next().unwrap();
        assert_eq!(commit.len(), 40, "{action}");
        // The commits are the same as in this repository's workflows.
        let ours = std::fs::read_to_string(workspace().join(".github/workflows/nightly.yml"));
        assert!(ours.unwrap().contains(action), "{action}");
    }
    // A file that `export` did not write is not replaced.
    project.write("mine.yml", "name: Mine\n");
    project.run(&line.replace("w.yml", "mine.yml")).expect(2).says("`export` did not write it");
    assert_eq!(project.read("mine.yml"), "name: Mine\n");
    project.edit("dockerfiles/tiny.Dockerfile", "echo 1", "echo 2");
    project
        .run(&format!("{line} --check"))
        .expect(13)
        .says("`w.yml`, line ")
        .says("it should contain `build-pipeline step run ");
    assert_eq!(project.read("w.yml"), text, "`--check` writes nothing");
}

#[test]
fn a_pipeline_of_gitlab_passes_digests_from_job_to_job() {
    let (project, _) = tiny_project(TEXT);
    let line = "export gitlab vulkan --variant tiny --store registry:registry.example.org/steps \
                --install apt-get~update\\nexit --output .gitlab-ci.yml";
    let words = line.split_whitespace().map(|word| word.replace('~', " ").replace("\\n", "\n"));
    let words: Vec<String> = words.collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    ran(project.command(&words).output().unwrap()).expect(0);
    let text = project.read(".gitlab-ci.yml");
    for wanted in [
        "\n  before_script:\n    - |\n      apt-get update\n      exit\n\nseal-tiny:\n",
        "\nseal-tiny:\n  timeout: 6 hours\n  needs: []\n  script:\n    - |\n",
        "\n    reports:\n      dotenv: digest.env\n",
        "\nimage-vulkan-tiny:\n  timeout: 6 hours\n  needs: [seal-tiny]\n",
    ] {
        assert!(text.contains(wanted), "{wanted}:\n{text}");
    }
    // The job that produces a result and the job that uses it name the same variable.
    let written = text.lines().find_map(|line| line.trim().strip_prefix("echo \"")).unwrap();
    let variable = written.split('=').next().unwrap();
    let used = text.lines().find(|line| line.contains("--result ")).unwrap();
    assert!(used.contains(&format!("=\"${variable}\" ")), "{written}\n{used}");
    for install in ["", " \n ", "a\u{7}"] {
        let words = words.iter().map(|word| if word.contains("apt-get") { install } else { word });
        let words: Vec<&str> = words.collect();
        ran(project.command(&words).output().unwrap()).expect(2).says("the command of `--install`");
    }
    assert_eq!(project.read(".gitlab-ci.yml"), text);
}

#[test]
fn an_exported_file_contains_no_secret() {
    let (project, _) = tiny_project(TEXT);
    let line = "export gitlab vulkan --variant tiny --store registry:registry.example.org/steps \
                --output .gitlab-ci.yml --install";
    let line: Vec<&str> = line.split_whitespace().collect();
    for (install, code) in [
        ("cargo install --git https://me:hunter2hunter2@example.org/x build-pipeline", 2),
        ("curl -H 'PRIVATE-TOKEN: glpat-abcdefghijklmnopqrst' -o b https://example.org/b", 2),
        ("cargo install --git https://me:$TOKEN@example.org/x build-pipeline", 0),
        ("cargo install --git https://me:${{ secrets.TOKEN }}@example.org/x build-pipeline", 0),
        ("TOKEN=$CI_JOB_TOKEN ./install", 0),
    ] {
        let words = [line.as_slice(), &[install]].concat();
        let refused = ran(project.command(&words).output().unwrap());
        if refused.expect(code).stderr.contains("secret") {
            assert_eq!(code, 2, "{install}");
        }
    }
}

/// A job of an exported file.
#[derive(Debug, Default)]
struct Job {
    name: String,
    /// The jobs whose results it takes.
    needs: Vec<String>,
    /// The shell script.
    script: String,
}

/// Returns the block of YAML text, without its indent, that follows the last line ending with
/// `start`.
fn block(text: &str, start: &str, indent: usize) -> String {
    let after = text.rsplit_once(&format!("{start}\n")).unwrap().1;
    let indent = " ".repeat(indent);
    let lines = after.lines().map_while(|line| line.strip_prefix(&*indent));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns the text between `before` and `after` in each line that contains both.
fn between(text: &str, before: &str, after: &str) -> Vec<String> {
    let found = text.lines().filter_map(|line| line.split_once(before)?.1.split_once(after));
    found.map(|(found, _)| found.to_owned()).collect()
}

/// Reads the jobs of an exported file, in the order of the file.
fn jobs(system: &str, text: &str) -> Vec<Job> {
    let (jobs, indent) = match system {
        "github" => (text.split_once("\njobs:\n").unwrap().1.split("\n\n"), 2),
        "gitlab" => (text.split_once("\n\n").unwrap().1.split("\n\n"), 0),
        _ => (text.split_once("\n  tasks:\n    - name: ").unwrap().1.split("\n    - name: "), 0),
    };
    let read = |job: &str| {
        let name = job[indent..].lines().next().unwrap().trim_end_matches(':').to_owned();
        let (needs, script) = match system {
            "github" => (between(job, "${{ needs.", ".outputs."), block(job, "run: |", 10)),
            "gitlab" => {
                let needs = between(job, "  needs: [", "]").join(", ");
                let needs = needs.split(", ").filter(|name| !name.is_empty()).map(str::to_owned);
                (needs.collect(), block(job, "- |", 6))
            }
            _ => (between(job, "$(tasks.", ".results."), block(job, "script: |", 14)),
        };
        Job { name, needs, script }
    };
    jobs.map(read).collect()
}

/// Writes a wrapper `build-pipeline` with the options that these tests need on a machine and that a
/// workflow does not contain. Returns the environment of jobs on the machine.
fn install(bench: &Bench) -> BTreeMap<OsString, OsString> {
    let mirror = format!("registry.example.org={}", shared_registry().host());
    wrap(&bench.project, &format!("--engine podman --mirror {mirror}"));
    environment(&bench.command_at("", shared_registry().host()))
}

/// Writes a wrapper `build-pipeline` that adds options.
fn wrap(project: &Project, options: &str) {
    let (real, wrapper) = (env!("CARGO_BIN_EXE_build-pipeline"), "bin/build-pipeline");
    project.write(wrapper, &format!("#!/bin/sh\nexec {real} \"$@\" {options}\n"));
    ran(Command::new("chmod").arg("+x").arg(project.path(wrapper)).output().unwrap());
}

fn environment(command: &Command) -> BTreeMap<OsString, OsString> {
    let variables = command.get_envs();
    variables.filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect()
}

/// Runs a job as its system does, on its own machine. Returns what it passes to other jobs:
/// variables for GitLab, and the digest for the others.
fn work(system: &str, job: &Job, results: &BTreeMap<String, String>) -> String {
    let bench = Bench::new(TEXT);
    let environment = install(&bench);
    let passed = bench.project.path("passed");
    let script = job
        .script
        .replace("$(workspaces.registry-auth.bound)", "false")
        .replace("$(workspaces.registry-auth.path)", "")
        .replace("$(results.digest.path)", passed.to_str().unwrap());
    assert!(!script.contains("$(w") && !script.contains("$(r"), "{script}");
    let mut command = Command::new("sh");
    command.args(["-e", "-c", &script]).current_dir(bench.project.path(""));
    command.env_clear().envs(environment);
    command.env("GITHUB_OUTPUT", &passed);
    for (number, need) in job.needs.iter().enumerate() {
        let result = &results[need];
        match system {
            "gitlab" => command.envs(result.lines().filter_map(|line| line.split_once('='))),
            _ => command.env(format!("RESULT_{number}"), result),
        };
    }
    ran(command.output().unwrap()).expect(0);
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    match system {
        "github" => read(&passed).trim_end().strip_prefix("digest=").unwrap().to_owned(),
        "gitlab" if job.script.contains("digest.env") => read(&bench.project.path("digest.env")),
        "gitlab" => read(&bench.project.path("digest")).trim_end().to_owned(),
        _ => read(&passed),
    }
}

/// The jobs run on machines that share a store and nothing else.
#[test]
fn exported_jobs_build_the_image_that_one_machine_builds() {
    let bench = Bench::new(TEXT);
    let build = "build vulkan --variant tiny --engine podman";
    let alone = ran(bench.command_at(build, shared_registry().host()).output().unwrap());
    let digest = alone.expect(0).digest();
    for system in ["github", "gitlab", "tekton"] {
        let folder = tempfile::tempdir().unwrap();
        let store = format!("dir:{}", folder.path().join("store").display());
        let line = format!(
            "export {system} vulkan --variant tiny --store {store} --install true --output jobs.yml"
        );
        bench.project.run(&line).expect(0);
        bench.project.run(&format!("{line} --check")).expect(0);
        let jobs = jobs(system, &bench.project.read("jobs.yml"));
        let names: Vec<_> = jobs.iter().map(|job| &*job.name).collect();
        assert_eq!(names, ["seal-tiny", "image-vulkan-tiny"], "{system}");
        let mut results = BTreeMap::new();
        for job in &jobs {
            let result = work(system, job, &results);
            results.insert(job.name.clone(), result);
        }
        assert_eq!(results["image-vulkan-tiny"], digest, "{system}");
        std::fs::remove_file(bench.project.path("jobs.yml")).unwrap();
    }
}

/// Exports the workflow of the given tracks, commits the project, and returns the command that runs
/// the workflow. act runs a workflow as GitHub does, except that all jobs run on this machine. If
/// act is killed, its jobs are killed too.
fn act(
    project: &Project,
    export: &str,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Command {
    let act = workspace().join("target/tools/act/bin/act");
    assert!(act.is_file(), "`{}` is missing; `cargo xtask setup` installs it", act.display());
    let export = format!("export github {export} --install true");
    project.run(&format!("{export} --output .github/workflows/images.yml")).expect(0);
    project.write(".gitignore", "/home/\n/dist/\n");
    for words in ["init --quiet", "add --all", "commit --quiet --message=all"] {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@example.org"]);
        git.args(words.split(' ')).current_dir(project.path(""));
        ran(git.output().unwrap()).expect(0);
    }
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]).arg(act);
    command.args(["push", "--no-cache-server", "--platform", "ubuntu-24.04=-self-hosted"]);
    command.current_dir(project.path("")).env_clear().envs(environment);
    command
}

#[test]
fn the_exported_workflow_runs_and_builds_each_step_once() {
    let bench = Bench::new(TEXT);
    let host = shared_registry().host();
    let alone = ran(bench
        .command_at("build vulkan --variant tiny --engine podman", host)
        .output()
        .unwrap());
    let digest = alone.expect(0).digest();
    let name = format!("{host}/act/{}", std::process::id());
    let export = format!("vulkan --variant tiny --store registry:{name}/steps --push {name}:1");
    let run = |bench: &Bench| {
        let environment = install(bench);
        ran(act(&bench.project, &export, environment).output().unwrap()).expect(0).stdout
    };
    let text = run(&Bench::new(TEXT));
    assert!(text.contains("[Images/seal-tiny]") && text.contains("RUN echo 1 > /one"), "{text}");
    assert!(text.contains(&format!("set-output:: digest={digest}")), "{digest}: {text}");
    bench.project.run(&format!("verify {name}:1")).expect(0);
    // Another machine, later: the step is in the store.
    let text = run(&Bench::new(TEXT));
    assert!(text.contains("[Images/image-vulkan-tiny]") && !text.contains("RUN echo 1"), "{text}");
}

#[test]
fn a_workflow_that_is_killed_leaves_a_correct_store_and_the_next_run_succeeds() {
    let project = Project::new();
    let base = slim_track::base(&project, "act-killed");
    let options = format!("official --variant slim {}", base.options());
    let digest = project.run(&format!("build {options}")).expect(0).digest();
    wrap(&project, &base.mirror());
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let environment = environment(&project.command(&[]));
    let mut path = project.path("bin").into_os_string();
    path.push(":");
    path.push(&environment[OsStr::new("PATH")]);
    let mut workflow =
        act(&project, &format!("{options} --store dir:{}", store.display()), environment);
    workflow.env("PATH", path);
    // Every run is on a new machine.
    let mut run = |moment: Option<Duration>| {
        drop(std::fs::remove_dir_all(project.path("home")));
        let Some(moment) = moment else {
            let workflow = workflow.stdout(Stdio::piped()).stderr(Stdio::piped());
            return ran(workflow.output().unwrap()).expect(0).stdout;
        };
        let mut child = workflow.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(moment);
        if is_killed(&mut child) { String::new() } else { "ended".to_owned() }
    };
    let start = Instant::now();
    run(None);
    let whole = start.elapsed();
    std::fs::remove_dir_all(&store).unwrap();
    let kills = gate_cases(3, 200);
    until_hit(kills, whole, |_, moment| run(Some(moment)).is_empty());
    for _ in 0..2 {
        let text = run(None);
        assert!(text.contains(&format!("set-output:: digest={digest}")), "{digest}: {text}");
        assert!(!text.contains("store-refused"), "{text}");
    }
    let entries = std::fs::read_dir(store.join("blobs/sha256")).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    // A killed writer leaves its temporary file; `step clean` removes it later.
    let blobs: Vec<_> = names.filter(|name| !name.starts_with(".tmp")).collect();
    assert!(blobs.len() > 2, "{blobs:?}");
    for name in blobs {
        let bytes = std::fs::read(store.join("blobs/sha256").join(&name)).unwrap();
        assert_eq!(Digest::of(&bytes).hex(), name);
    }
    gate_passed(25, kills);
}

#[test]
fn only_tasks_that_use_an_engine_are_privileged() {
    let (project, _) = tiny_project(TEXT);
    let line = "export tekton vulkan --variant tiny --store registry:registry.example.org/steps \
                --install ./install --runs-on registry.example.org/builder@sha256:1";
    let text = project.run(line).expect(0).stdout;
    let (seal, image) = text.split_once("    - name: image-vulkan-tiny\n").unwrap();
    assert!(seal.contains("privileged: true") && !image.contains("privileged"), "{text}");
    assert_eq!(text.matches("image: registry.example.org/builder@sha256:1\n").count(), 2);
    // Tekton passes results on as they are, with a newline if they have one.
    assert_eq!(text.matches("tr -d '\\n' < \"$digest\" > \"$(results.digest.path)\"").count(), 2);
    project
        .run("init new --ci tekton --install x")
        .expect(2)
        .says("[possible values: github, gitlab]");
}
