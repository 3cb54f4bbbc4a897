//! Rules for the images that a compose file or a script builds: the Dockerfile is read with the arguments
//! and the stage that they choose.

use std::collections::{BTreeMap, BTreeSet};

use super::stages::{command_of, fixed_base, instruction_of, last_stages};
use super::{contradictions, images};
use crate::compose::{self, Build};
use crate::facts::{Container, Package};
use crate::shell::{ShellCommand, UNKNOWN, Word};
use crate::{Context, Exists, Facts, Finding, Findings, Hit, Kind, requirements};

pub(super) fn run(facts: &Facts<'_>, context: Context<'_>, found: &mut Findings<'_>) {
    let Some(files) = context.exists else { return };
    let builds = match facts.kind {
        Kind::Compose => compose::builds(facts, files),
        Kind::Shell | Kind::Workflow => of_script(facts, files),
        _ => return,
    };
    // Many services can build one image. Each text is read once.
    let (mut read, mut known) = (BTreeSet::new(), BTreeMap::new());
    for build in builds {
        let chosen = chosen(&build);
        if chosen != build.text && read.insert((build.path.clone(), chosen.clone())) {
            let known = known
                .entry(build.text.clone())
                .or_insert_with(|| findings(&build.text, without_files(context)));
            with_arguments(facts, &build, (known, &chosen), context, found);
        }
        if facts.kind == Kind::Compose {
            without_gpu(facts, &build, &chosen, files, found);
            if let Some(service) = service(facts, &build) {
                contradictions::of_service(&service.options, &chosen, &build.path, found);
            }
        }
    }
}

/// Returns the service that a build is for.
fn service<'f>(facts: &'f Facts<'_>, build: &Build) -> Option<&'f Container> {
    let is_its =
        |one: &&Container| one.service.as_ref().is_some_and(|own| own.text == build.service);
    facts.containers.iter().find(is_its)
}

/// The maximum number of builds of a script that are read.
const MOST: usize = 20;

/// Returns the builds of a script of which an argument is known.
fn of_script(facts: &Facts<'_>, files: &dyn Exists) -> Vec<Build> {
    let builds = facts.commands.iter().filter_map(build_of).take(MOST);
    let read = |build: Build| {
        let text = files.in_context(facts.file, &build.path)?;
        Some(Build { text, ..build })
    };
    builds.filter_map(read).collect()
}

/// Returns the build of `docker build`, without the text of its Dockerfile.
fn build_of(command: &ShellCommand) -> Option<Build> {
    let words = command.texts();
    let name = words[0].rsplit('/').next().unwrap_or_default();
    let is_build = matches!(name, "buildah" | "docker" | "podman")
        && words.iter().take(3).any(|word| matches!(*word, "bud" | "build"));
    if !is_build || command.is_message() {
        return None;
    }
    let mut build = Build {
        service: String::new(),
        path: String::new(),
        text: String::new(),
        target: None,
        arguments: Vec::new(),
    };
    let mut all = command.words.iter().skip(1);
    while let Some(word) = all.next() {
        let (option, joined) = match word.text.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option, Some(value)),
            _ => (word.text.as_str(), None),
        };
        if !matches!(option, "-f" | "--file" | "--target" | "--build-arg") {
            continue;
        }
        let Some(value) = joined.or_else(|| all.next().map(|one| one.text.as_str())) else { break };
        match option {
            "--target" => build.target = Some(value.to_owned()),
            "--build-arg" => {
                let pair = value.split_once('=').filter(|(_, own)| !own.is_empty());
                let known = pair.filter(|(_, own)| !own.contains([UNKNOWN, '$']));
                let argument = known.map(|(key, own)| (key.to_owned(), own.to_owned(), word.line));
                build.arguments.extend(argument);
            }
            _ => value.clone_into(&mut build.path),
        }
    }
    let folder = command.words.last().filter(|_| words.len() > 2).map(|one| one.text.as_str())?;
    if build.path.is_empty() {
        build.path = format!("{}/Dockerfile", folder.trim_end_matches('/'));
    }
    build.path = build.path.trim_start_matches("./").to_owned();
    let is_known = !build.path.contains([UNKNOWN, '$']) && !build.arguments.is_empty();
    is_known.then_some(build)
}

/// The rules about what an argument can choose: images, releases, packages, and GPUs.
const RULES: [&str; 35] = [
    "base-end-of-life",
    "branch-as-commit",
    "build-native",
    "command-missing",
    "cpu-package",
    "cuda-package",
    "glibc-older",
    "gpu-target-list",
    "gpu-target-missing",
    "gpu-without-rocblas",
    "image-moved",
    "image-tag-missing",
    "image-tag-scheme",
    "image-without-rocm",
    "index-moved",
    "known-bad-version",
    "math-libraries-missing",
    "mesa-too-old",
    "no-such-version",
    "other-distribution",
    "packages-do-not-match",
    "python-other",
    "release-candidate-image",
    "repository-gone",
    "retired-target",
    "rocm-before-gpu",
    "rocm-below-minimum",
    "rocm-mixed",
    "rocm-outdated",
    "rocm-path-other",
    "rocm-too-old",
    "target-separator",
    "torch-index-name",
    "torch-test-index",
    "wheel-python",
];

/// The start of the names of rules about overrides of the GPU.
const OVERRIDE: &str = "hsa-override-";

/// The length of the shortest value that a message can name without chance.
const SHORTEST: usize = 3;

/// Returns the context of a Dockerfile that is read without its folder.
const fn without_files(context: Context<'_>) -> Context<'_> {
    Context { exists: None, built: None, defined: None, ..context }
}

/// Reports what is wrong with a Dockerfile only with the arguments of a compose file: what is found in
/// the `chosen` text and is not `known` from the Dockerfile alone.
fn with_arguments(
    facts: &Facts<'_>,
    build: &Build,
    (known, chosen): (&[Finding], &str),
    context: Context<'_>,
    found: &mut Findings<'_>,
) {
    for one in findings(chosen, without_files(context)) {
        let rule = one.rule.id.as_str();
        let code = build.text.lines().nth(one.line - 1).unwrap_or_default();
        let is_cause = |(name, value, _): &&(String, String, usize)| {
            let is_named = value.len() >= SHORTEST && one.message.contains(value.as_str());
            is_named || uses(code, name) || declared(code).is_some_and(|own| own == name)
        };
        let cause = build.arguments.iter().find(is_cause);
        let Some((name, value, line)) = cause else { continue };
        let is_said = found.places().contains(&(*line, rule));
        let is_known = || known.iter().any(|own| own.rule.id == rule && own.message == one.message);
        if is_said || is_known() || !is_written(facts, *line) {
            continue;
        }
        let message = format!(
            "with `{name}={value}`, line {} of `{}`: {}",
            one.line, build.path, one.message
        );
        let hit = Hit::new(rule, *line, message).help(one.help.clone());
        found.hit(hit.at_most(one.severity).evidence(Some(&one.evidence)));
    }
}

/// Returns whether a line of a file has text.
fn is_written(facts: &Facts<'_>, line: usize) -> bool {
    !facts.line(line).trim().is_empty()
}

/// Returns the findings in the text of a Dockerfile.
fn findings(text: &str, context: Context<'_>) -> Vec<Finding> {
    let image = Facts::read("Dockerfile", text);
    let mut all = Findings::new("Dockerfile");
    super::run(&image, context, &mut all);
    all.all.retain(|one| RULES.contains(&&*one.rule.id) || one.rule.id.starts_with(OVERRIDE));
    crate::in_order(all.all, text, Kind::Dockerfile)
}

/// Returns the Dockerfile that a service builds: with its arguments, and without the stages behind its
/// target.
pub(super) fn chosen(build: &Build) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut is_last = false;
    for line in build.text.lines() {
        let is_from = instruction(line).is_some_and(|(name, _)| name.eq_ignore_ascii_case("FROM"));
        if is_from && is_last {
            break;
        }
        if is_from {
            let name = line.split_whitespace().last().unwrap_or_default();
            is_last = build.target.as_ref().is_some_and(|target| target.eq_ignore_ascii_case(name));
        }
        lines.push(with_values(line, is_from, build));
    }
    let end = if build.text.ends_with('\n') { "\n" } else { "" };
    lines.join("\n") + end
}

/// Returns a line of a Dockerfile with the arguments of a build.
fn with_values(line: &str, is_from: bool, build: &Build) -> String {
    let mut text = line.to_owned();
    for (name, value, _) in &build.arguments {
        if is_from {
            text = text.replace(&format!("${{{name}}}"), value);
            // `$ROCM` is also the start of `$ROCM_VERSION`.
            let plain = format!("${name}");
            if let Some((before, after)) = text.split_once(&plain)
                && !after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            {
                text = format!("{before}{value}{after}");
            }
        } else if declared(line) == Some(name) {
            let quote = if value.contains(char::is_whitespace) { "\"" } else { "" };
            text = format!("ARG {name}={quote}{value}{quote}");
        }
    }
    text
}

/// Returns the name of the instruction of a line, and the rest.
fn instruction(line: &str) -> Option<(&str, &str)> {
    line.trim().split_once(char::is_whitespace)
}

/// Returns the argument that a line declares, if it declares only one.
fn declared(line: &str) -> Option<&str> {
    let (name, rest) = instruction(line)?;
    let mut words = rest.split_whitespace();
    let first = words.next().filter(|_| name.eq_ignore_ascii_case("ARG"))?;
    let is_one = rest.contains('"') || words.next().is_none();
    first.split('=').next().filter(|_| is_one && !line.trim_end().ends_with('\\'))
}

/// Returns whether a line uses an argument.
fn uses(line: &str, name: &str) -> bool {
    let forms = [format!("${name}"), format!("${{{name}}}"), format!("${{{name}:")];
    forms.iter().any(|form| line.contains(form.as_str()))
}

/// Texts, in lower case, of stages that can use an AMD GPU, or get programs that are not known.
const OTHER: [&str; 33] = [
    "--constraint",
    "--from=",
    "--index-strategy",
    "amd.com",
    "amdgpu",
    "conda",
    "ctranslate2",
    "find-links",
    "ggml",
    "git clone",
    "hip_",
    "hipcc",
    "llama",
    "mamba",
    "ncnn",
    "nightlies",
    "ollama",
    "onnxruntime",
    "opencl",
    "openvino",
    "pip_config",
    "pip_constraint",
    "pip_extra",
    "pip_index",
    "pyproject",
    "rocm",
    "tinygrad",
    "uv sync",
    "uv_constraint",
    "uv_index",
    "uv_torch",
    "whisper.cpp",
    "zluda",
];

/// Checks for a service that gets /dev/kfd, although its image has torch for another GPU, or for none.
fn without_gpu(
    facts: &Facts<'_>,
    build: &Build,
    chosen: &str,
    files: &dyn Exists,
    found: &mut Findings<'_>,
) {
    let Some(own) = service(facts, build) else { return };
    let has = |start: &str| own.options.iter().any(|one| one.text.starts_with(start));
    let is_kfd = |one: &&Word| one.text.starts_with("--device=/dev/kfd");
    let device = own.options.iter().find(is_kfd);
    // The script of the service can install another build.
    let Some(device) = device.filter(|_| !has("--entrypoint") && !has("--gpus")) else { return };
    let folder = facts.file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let place = format!("{folder}/{}", build.path);
    let place = place.trim_start_matches('/');
    let inlined = requirements::inlined(place, chosen, files);
    let (text, lists) =
        inlined.map_or_else(|| (chosen.to_owned(), Vec::new()), |all| (all.text, all.lists));
    let image = Facts::read("Dockerfile", &text);
    let all = image.instructions();
    let stages = last_stages(&image, all);
    let lines = all.iter().filter(|one| stages.contains(&one.stage)).map(|one| one.text.as_str());
    let code: String = lines.chain(lists.iter().map(String::as_str)).collect();
    let lower = code.to_ascii_lowercase();
    if OTHER.iter().any(|other| lower.contains(other)) {
        return;
    }
    // A branch can be for another GPU.
    let is_certain = |line: usize| {
        instruction_of(all, line)
            .is_some_and(|one| !one.text.contains("if [") && !one.text.contains("case "))
    };
    let is_torch = |one: &&Package| {
        one.name == "torch"
            && stages.contains(&one.stage)
            && !one.is_special
            && is_certain(one.line)
    };
    let last = image.packages.iter().rfind(is_torch);
    let base = fixed_base(&image, all, image.stages.len());
    let found_in = match last {
        Some(torch) => {
            let kind = torch_kind(&image, torch);
            kind.map(|kind| {
                format!("line {} of `{}` installs {kind} of torch", torch.line, build.path)
            })
        }
        None => images::is_for_others(base)
            .then(|| format!("the base image in `{}`, `{base}`, has no ROCm", build.path)),
    };
    if let Some(what) = found_in {
        let hit =
            Hit::new("image-without-rocm", device.line, format!("/dev/kfd is passed, but {what}"));
        found.hit(hit.help(HELP));
    }
}

/// What an image for an AMD GPU needs.
const HELP: &str = "install torch from PyTorch's index for ROCm, or start from an image that contains it; without that, the program uses the processor";

/// Returns the kind of torch that a command installs, if it has no code for AMD GPUs.
fn torch_kind(image: &Facts<'_>, torch: &Package) -> Option<&'static str> {
    let command = command_of(image, torch)?;
    let words = command.texts().join(" ");
    let version = torch.version.as_deref().unwrap_or_default();
    let has_index =
        ["--index-url", "--extra-index-url", "-i ", "--find-links", "-f ", "--torch-backend"]
            .iter()
            .any(|option| words.contains(option));
    if words.contains("/whl/cpu") || version.ends_with("+cpu") {
        Some("the CPU build")
    } else if words.contains("/whl/cu") || version.contains("+cu") || !has_index {
        Some("the CUDA build")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dockerfile_is_read_as_the_service_builds_it() {
        let text = "ARG A=1\nARG B\nFROM a:$A AS one\nRUN x\nFROM ${B} AS two\nARG A\nFROM c\n";
        let values = [("A", "2"), ("B", "one")];
        let build = Build {
            service: "s".to_owned(),
            path: "Dockerfile".to_owned(),
            text: text.to_owned(),
            target: Some("two".to_owned()),
            arguments: values.map(|(name, value)| (name.to_owned(), value.to_owned(), 1)).into(),
        };
        let expected = "ARG A=2\nARG B=one\nFROM a:2 AS one\nRUN x\nFROM one AS two\nARG A=2\n";
        assert_eq!(chosen(&build), expected);
        let (target, arguments) = (None, Vec::new());
        assert_eq!(chosen(&Build { target, arguments, ..build }), text);
    }

    #[test]
    fn the_build_of_a_script_has_a_dockerfile_and_known_arguments() {
        for (line, expected) in [
            ("docker build --build-arg A=1 -f b/Dockerfile.c .", Some(("b/Dockerfile.c", "A=1"))),
            ("podman build -t x --build-arg=A=1 ./d/", Some(("d/Dockerfile", "A=1"))),
            ("docker buildx build --build-arg A=1 --build-arg B=$B .", Some(("Dockerfile", "A=1"))),
            ("docker build --build-arg A=$A .", None),
            ("docker build .", None),
            ("docker run --build-arg A=1 .", None),
            ("echo docker build --build-arg A=1 .", None),
        ] {
            let script = Facts::read("a.sh", line);
            let found = script.commands.iter().find_map(build_of).map(|build| {
                let first = build.arguments.first().map(|one| format!("{}={}", one.0, one.1));
                (build.path, first.unwrap_or_default())
            });
            let found = found.as_ref().map(|(path, first)| (path.as_str(), first.as_str()));
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn an_argument_is_declared_on_a_line_of_its_own() {
        for (line, expected) in [
            ("ARG A=1", Some("A")),
            ("arg A", Some("A")),
            ("ARG A=\"b c\"", Some("A")),
            ("ARG A B", None),
            ("ARG A=1 \\", None),
            ("ENV A=1", None),
        ] {
            assert_eq!(declared(line), expected, "{line}");
        }
    }
}
