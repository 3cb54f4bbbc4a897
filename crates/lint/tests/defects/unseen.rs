//! Defects that 153 previously unseen files from 77 repositories revealed on 2026-11-26.

use std::collections::BTreeSet;

use lint::Context;

use super::{NONE, PROJECT, expect};
use crate::{built, defined, findings_in, shown};

#[test]
fn a_python_package_is_not_the_engine_of_that_name() {
    let install = "FROM docker.io/a/b@sha256:1\nRUN pip install docker==7.1.0 podman==4.9.0\n";
    let cases: &[(&str, &str, &[&str])] =
        &[("requirements.txt", "docker==7.1.0\n", &[]), ("Dockerfile", install, &[])];
    expect("known-bad-version", PROJECT, cases);
}

#[test]
fn an_empty_default_is_not_a_branch() {
    let text = "FROM docker.io/a/b@sha256:1\nARG COMMIT=\nRUN git clone https://h.example/a \\\n && if [ \"$COMMIT\" != \"\" ]; then git -C a checkout \"$COMMIT\"; fi\n";
    expect("branch-as-commit", PROJECT, &[("Dockerfile", text, &[])]);
}

#[test]
fn a_build_argument_may_be_an_optional_override() {
    let start = "source ./versions.env\n";
    let passed = format!("{start}docker build --build-arg \"BRANCH=${{A_VERSION}}\" .\n");
    let used = format!("{passed}git checkout \"$A_VERSION\"\n");
    let others = BTreeSet::from(["OTHER".to_owned()]);
    let context = Context { defined: Some(&others), ..Context::default() };
    let severities = |text: &str| -> Vec<&str> {
        let found = findings_in("build.sh", text, context);
        let found = found.iter().filter(|one| one.rule.id == "undefined-pin");
        found.map(|one| one.severity.name()).collect()
    };
    assert_eq!(severities(&passed), ["information"]);
    assert_eq!(severities(&used), ["information", "information"]);
}

#[test]
fn tuning_that_is_off_or_kept_does_not_repeat() {
    expect(
        "tunableop-on",
        PROJECT,
        &[
            ("a.env", "PYTORCH_TUNABLEOP_ENABLED=1\n", &["1 warning"]),
            ("a.env", "PYTORCH_TUNABLEOP_ENABLED=1\nPYTORCH_TUNABLEOP_TUNING=1\n", &["1 warning"]),
            ("a.env", "PYTORCH_TUNABLEOP_ENABLED=1\nPYTORCH_TUNABLEOP_TUNING=0\n", &[]),
            ("a.env", "PYTORCH_TUNABLEOP_ENABLED=1\nPYTORCH_TUNABLEOP_FILENAME=/m/t.csv\n", &[]),
        ],
    );
}

#[test]
fn a_release_in_the_tag_decides_about_a_variable() {
    let with = |image: &str| {
        format!("services:\n  a:\n    image: {image}\n    environment:\n      - VLLM_USE_V1=0\n")
    };
    let cases = [
        (with("docker.io/rocm/vllm:rocm7.0.0_vllm_0.11.2_20251210"), &[][..]),
        (with("docker.io/vllm/vllm-openai-rocm:v0.11.2"), &[]),
        (with("docker.io/vllm/vllm-openai-rocm:v0.27.1"), &["5 warning"]),
        (with("docker.io/vllm/vllm-openai-rocm:latest"), &["5 warning"]),
        (with("docker.io/rocm/pytorch:rocm7.2.1"), &["5 warning"]),
    ];
    for (text, expected) in &cases {
        expect("variable-without-effect", PROJECT, &[("compose.yml", text, expected)]);
    }
    let uma =
        "FROM docker.io/a/b@sha256:1\nRUN cmake -B b -DGGML_HIP_UMA=ON\nENV LLAMA_HIP_UMA=1\n";
    expect("variable-without-effect", PROJECT, &[("Dockerfile", uma, &["2 warning", "3 warning"])]);
}

#[test]
fn one_old_rocm_is_reported_once() {
    let index = "--find-links https://repo.radeon.com/rocm/manylinux/rocm-rel-6.4.1/\n";
    let stamped = format!("torch==2.9.0+rocm7.0.0\ntorchvision==0.24.0+rocm7.0.0\n{index}");
    expect(
        "rocm-too-old",
        PROJECT,
        &[
            ("requirements.txt", index, &["1 error"]),
            ("requirements.txt", &stamped, &["1 error"]),
            ("a.sh", "echo 'see https://repo.radeon.com/rocm/apt/6.4'\n", &[]),
            ("a.sh", "echo 'deb https://repo.radeon.com/rocm/apt/6.4 x main' > l\n", &["1 error"]),
            (
                "a.sh",
                "echo 'deb https://repo.radeon.com/rocm/apt/6.4 x main' | tee l\n",
                &["1 error"],
            ),
            // A GPU that imitates gfx1030 is not a gfx1151, and neither is an MI50.
            ("requirements.txt", &format!("# for an MI50\n{index}"), &[]),
        ],
    );
    let imitates =
        "FROM docker.io/rocm/dev-ubuntu-22.04:6.2@sha256:1\nENV HSA_OVERRIDE_GFX_VERSION=10.3.0\n";
    expect("rocm-too-old", NONE, &[("Dockerfile", imitates, &[])]);
    // A release that is old for every GPU is reported as such.
    let imitates = imitates.replace("10.3.0", "11.0.0");
    expect("rocm-outdated", NONE, &[("Dockerfile", &imitates, &["1 information"])]);
    let newer = imitates.replace(":6.2@", ":7.0@");
    expect("rocm-too-old", NONE, &[("Dockerfile", &newer, &[])]);
}

#[test]
fn repositories_of_dnf_are_read_everywhere() {
    let line = "baseurl=https://repo.radeon.com/rocm/el9/6.4.4/main";
    let base = "FROM registry.fedoraproject.org/fedora:43@sha256:1\n";
    let run = format!("{base}RUN <<R\ntee /etc/yum.repos.d/rocm.repo <<E\n[rocm]\n{line}\nE\nR\n");
    let copy = format!(
        "{base}COPY <<EOF /etc/yum.repos.d/rocm.repo\n[rocm]\n{line}\nEOF\nRUN dnf install rocm\n"
    );
    let script = format!("cat > /etc/yum.repos.d/rocm.repo <<'EOF'\n[rocm]\n{line}\nEOF\n");
    let plain = format!("[rocm]\nname = x\n{line}\n");
    expect(
        "rocm-too-old",
        PROJECT,
        &[
            ("Dockerfile", &run, &["5 error"]),
            ("Dockerfile", &copy, &["4 error"]),
            ("a.sh", &script, &["3 error"]),
            ("rocm.repo", &plain, &["3 error"]),
        ],
    );
    let cases: &[(&str, &str, &[&str])] =
        &[("Dockerfile", &run, &["1 warning"]), ("Dockerfile", &copy, &["1 warning"])];
    expect("fedora-release", PROJECT, cases);
}

#[test]
fn a_unit_or_compose_file_in_a_here_document_is_read_as_one() {
    let unit = "set -e\ncat > o.service <<EOF\n[Service]\nEnvironment=\"OLLAMA_GPU_MEMORY=96GB\"\nExecStart=/usr/bin/ollama serve\nEOF\nsystemctl enable o\n";
    let copied = "FROM docker.io/a/b@sha256:1\nCOPY <<EOF /etc/o.service\n[Service]\nEnvironment=OLLAMA_GPU_MEMORY=1\nExecStart=/usr/bin/ollama serve\nEOF\n";
    let compose = "cat > compose.yml <<'EOF'\nservices:\n  a:\n    image: ollama/ollama:rocm\n    environment:\n      - OLLAMA_GPU_MEMORY=1\nEOF\n";
    let tee = "F=/etc/systemd/system/ollama.service.d/override.conf\nsudo tee \"$F\" > /dev/null << 'E'\n[Service]\nEnvironment=\"OLLAMA_GPU_MEMORY=1\"\nE\n";
    let saved = "cat > /etc/systemd/system/ollama.service.d/a.conf <<E\n[Service]\nEnvironment=\"OLLAMA_GPU_MEMORY=1\"\nE\n";
    let drop_in = "[Service]\nEnvironment=OLLAMA_GPU_MEMORY=1\n";
    expect(
        "variable-does-not-exist",
        PROJECT,
        &[
            ("a.sh", unit, &["4 error"]),
            ("Dockerfile", copied, &["4 error"]),
            ("a.sh", compose, &["6 error"]),
            ("a.sh", tee, &["4 error"]),
            ("a.sh", saved, &["3 error"]),
            ("etc/systemd/system/ollama.service.d/a.conf", drop_in, &["2 error"]),
            ("etc/systemd/system/other.service.d/a.conf", drop_in, &[]),
        ],
    );
    // A file that is copied is not a list of instructions.
    let text = "FROM docker.io/a/b@sha256:1\nCOPY <<EOF /a.txt\nFROM b\nENV HSA_OVERRIDE_GFX_VERSION=x\nEOF\n";
    expect("hsa-override-form", PROJECT, &[("Dockerfile", text, &[])]);
}

#[test]
fn an_image_that_the_run_builds_is_not_pulled() {
    let by_script = built("build.sh", "docker build -t pytorch .\n");
    let compose = "services:\n  a:\n    image: b:latest\n    build: .\n";
    let built: BTreeSet<String> =
        by_script.into_iter().chain(built("compose.yml", compose)).collect();
    assert_eq!(Vec::from_iter(&built), ["b:latest", "pytorch"]);
    let context = Context { built: Some(&built), ..Context::default() };
    let run = "docker run pytorch\ndocker run b:latest\ndocker run local/a:1\ndocker run a:local\n";
    assert_eq!(shown(&findings_in("run.sh", run, context)), Vec::<String>::new());
    let cases: &[(&str, &str, &[&str])] = &[
        ("run.sh", "docker run a/pytorch\n", &["1 warning"]),
        ("run.sh", "docker run docker.io/a/b:rocm-latest\n", &["1 warning"]),
    ];
    expect("image-latest", NONE, cases);
    let digest = "FROM a/b@sha256:1\n";
    expect("image-short-name", NONE, &[("Dockerfile", digest, &[])]);
}

#[test]
fn the_gpu_does_not_come_from_a_list_in_a_comment() {
    let list = "# The binary supports gfx900, gfx90c and gfx1151.\nexport HSA_OVERRIDE_GFX_VERSION=9.0.0\n";
    let own = "# for gfx1151\nexport HSA_OVERRIDE_GFX_VERSION=9.0.0\n";
    let cases: &[(&str, &str, &[&str])] = &[("a.sh", list, &[]), ("a.sh", own, &["2 error"])];
    expect("hsa-override-gfx1151", NONE, cases);
}

#[test]
fn a_list_that_grows_is_not_set_twice() {
    expect(
        "duplicate-pin",
        NONE,
        &[
            ("a.sh", "A_PATH=\"/a:$A_PATH\"\nA_PATH=\"/b:$A_PATH\"\n", &[]),
            ("a.sh", "V=1\nV=1\n", &[]),
            ("a.sh", "V=1\nV=12\n", &["2 warning"]),
        ],
    );
}

#[test]
fn downloads_are_named_by_the_file_that_is_kept() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", "curl -k https://h.example/x | grep -q Host\n", &[]),
        (
            "a.sh",
            "pip install https://h.example/a-1-cp312-cp312-linux_x86_64.whl\n",
            &["1 warning"],
        ),
        ("a.sh", "pip install https://h.example/a-1-py3-none-any.whl#sha256=1\n", &[]),
    ];
    expect("download-unchecked", NONE, cases);
    for text in [
        "curl -L -o one.tar.gz https://h.example/v3.11.tar.gz\n",
        "wget https://h.example/v3.11.tar.gz -O one.tar.gz\n",
    ] {
        let found = findings_in("a.sh", text, Context::default());
        let shown = shown(&found);
        assert!(shown.iter().any(|one| one.contains("`one.tar.gz` is downloaded")), "{shown:?}");
    }
}

#[test]
fn values_of_options_are_not_packages() {
    expect(
        "index-unpinned",
        NONE,
        &[
            ("a.sh", "uv pip install --python-preference system -r r.txt\n", &[]),
            ("a.sh", "pip install -e python\n", &[]),
            ("a.sh", "uv pip install --requirements r.txt\n", &[]),
            ("a.sh", "pip install --no-index --find-links=/w torch\n", &[]),
            ("a.sh", "pip install torch\n", &["1 information"]),
        ],
    );
}

#[test]
fn templates_of_environment_files_are_read() {
    for file in [".env-template", ".env_example", "x.env.tmpl", "env.template", ".env.sample"] {
        expect("hsa-override-form", NONE, &[(file, "HSA_OVERRIDE_GFX_VERSION=11\n", &["1 error"])]);
    }
}

#[test]
fn a_service_may_get_an_empty_override() {
    let with =
        |line: &str| format!("services:\n  a:\n    build: .\n    environment:\n      {line}\n");
    let cases = [
        (with("- HSA_OVERRIDE_GFX_VERSION=${HSA_OVERRIDE_GFX_VERSION}"), &["5 warning"][..]),
        (with("HSA_OVERRIDE_GFX_VERSION: \"$HSA_OVERRIDE_GFX_VERSION\""), &["5 warning"]),
        (with("- HSA_OVERRIDE_GFX_VERSION"), &[]),
        (with("- HSA_OVERRIDE_GFX_VERSION=${GFX:?set GFX}"), &[]),
    ];
    for (text, expected) in &cases {
        expect("hsa-override-empty", NONE, &[("compose.yml", text, expected)]);
        // The file alone, as the command checks it.
        let defined = defined("compose.yml", text);
        let context = Context { defined: Some(&defined), ..Context::default() };
        let found = findings_in("compose.yml", text, context);
        let found = found.iter().filter(|one| one.rule.id == "hsa-override-empty");
        assert_eq!(found.count(), expected.len(), "{text}");
    }
    let environment = defined(".env", "HSA_OVERRIDE_GFX_VERSION=12.0.1\n");
    let context = Context { defined: Some(&environment), ..Context::default() };
    let found = findings_in("compose.yml", &cases[0].0, context);
    assert!(!found.iter().any(|one| one.rule.id == "hsa-override-empty"), "{found:?}");
}

#[test]
fn all_ways_to_open_a_gpu_are_found() {
    expect(
        "world-writable-gpu",
        NONE,
        &[
            ("a.sh", "mknod -m 666 /dev/kfd c 509 0\n", &["1 warning"]),
            ("a.sh", "mknod -m 660 /dev/kfd c 509 0\n", &[]),
            (
                "70.rules",
                "SUBSYSTEM==\"drm\", KERNEL==\"card[0-9]*\", MODE=\"0666\"\n",
                &["1 warning"],
            ),
        ],
    );
}

#[test]
fn a_container_without_a_gpu_is_no_matter_of_rocm() {
    let service = "services:\n  a:\n    image: docker.io/a/b@sha256:1\n    privileged: true\n";
    let gpu = format!("{service}    devices: [/dev/kfd]\n");
    let cases: &[(&str, &str, &[&str])] =
        &[("compose.yml", service, &[]), ("compose.yml", &gpu, &["4 warning"])];
    expect("privileged-container", NONE, cases);
}

#[test]
fn messages_and_names_of_instructions_are_no_advice() {
    let message = "echo \"Source: https://rocm.nightlies.amd.com/v2/gfx1151/\"\n";
    expect("index-moved", PROJECT, &[("a.sh", message, &[])]);
    let parameter = "echo 'add amdgpu.gttsize=1 to the command line'\n";
    expect("gttsize-deprecated", PROJECT, &[("a.sh", parameter, &[])]);
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", "# v_pk_mul exists on gfx940+ only\n", &[]),
        ("a.sh", "# builds gfx940 and gfx942\n", &["1 information"]),
    ];
    expect("retired-target", NONE, cases);
}

#[test]
fn images_of_vllm_without_code_for_the_gpu_are_known() {
    expect(
        "rocm-too-old",
        PROJECT,
        &[
            ("run.sh", "podman run docker.io/vllm/vllm-openai-rocm:v0.14.1\n", &["1 warning"]),
            ("run.sh", "podman run docker.io/vllm/vllm-openai-rocm:v0.9.0\n", &["1 warning"]),
            ("run.sh", "podman run docker.io/vllm/vllm-openai-rocm:v0.19.0\n", &[]),
            ("run.sh", "podman run docker.io/vllm/vllm-openai-rocm:v0.27.1\n", &[]),
        ],
    );
}

#[test]
fn only_here_documents_are_taken_for_some() {
    let start = "FROM docker.io/a/b@sha256:1\n";
    let wrong = "ENV HSA_OVERRIDE_GFX_VERSION=gfx1151\n";
    for (text, line) in [
        ("RUN echo $((1<<N))\n", 3),
        ("RUN python3 -c 'print(1<<n)'\n", 3),
        ("RUN sed -i 's/a<<b/c/' x\n", 3),
        ("RUN echo 'a <<EOF b'\n", 3),
        ("RUN echo \"x <<EOF\"\n", 3),
        ("COPY <<END-OF-FILE /x\na\nEND-OF-FILE\n", 5),
        ("COPY <<EOF.x /x\na\nEOF.x\n", 5),
        ("COPY <<'E O F' /x\na\nE O F\n", 5),
        ("COPY <<EOF /x\n", 3),
        ("RUN cat <<EOF >/x\na\nEOF\n", 5),
        ("RUN cat <<EOF>/x\na\nEOF\n", 5),
        ("RUN cat <<-EOF | tee x\n\ta\n\tEOF\n", 5),
    ] {
        let wanted = format!("{line} error");
        let text = format!("{start}{text}{wrong}");
        expect("hsa-override-form", NONE, &[("Dockerfile", &text, &[&wanted])]);
    }
}

#[test]
fn settings_that_a_script_writes_are_read() {
    expect(
        "hsa-override-form",
        NONE,
        &[
            ("a.sh", "echo 'export HSA_OVERRIDE_GFX_VERSION=gfx1151' >> ~/.bashrc\n", &["1 error"]),
            ("a.sh", "echo HSA_OVERRIDE_GFX_VERSION=gfx1151 >> /etc/environment\n", &["1 error"]),
            ("a.sh", "echo HSA_OVERRIDE_GFX_VERSION=gfx1151 | tee -a .env\n", &["1 error"]),
            ("a.sh", "echo 'HSA_OVERRIDE_GFX_VERSION=gfx1151 is wrong'\n", &[]),
            (
                "a.sh",
                "cat > s.container <<-EOF\n\t[Container]\n\tEnvironment=HSA_OVERRIDE_GFX_VERSION=gfx1151\n\tEOF\n",
                &["3 error"],
            ),
            (
                "Dockerfile",
                "FROM docker.io/a/b@sha256:1\nCOPY <<EOF \"/app/.env-template\"\nHSA_OVERRIDE_GFX_VERSION=gfx1151\nEOF\n",
                &["3 error"],
            ),
        ],
    );
    let list = "deb https://repo.radeon.com/rocm/apt/6.4 noble main\n";
    let sources = "Types: deb\nURIs: https://repo.radeon.com/rocm/apt/6.4\n";
    let cases: &[(&str, &str, &[&str])] =
        &[("rocm.list", list, &["1 error"]), ("rocm.sources", sources, &["2 error"])];
    expect("rocm-too-old", PROJECT, cases);
}

#[test]
fn each_problem_of_a_line_is_reported() {
    let text = "FROM docker.io/a/b@sha256:1\nRUN pip install torch==2.5.0+rocm6.3 vllm==0.10.3\n";
    expect("no-such-version", NONE, &[("Dockerfile", text, &["2 error", "2 error"])]);
}

#[test]
fn hostile_files_take_no_time() {
    let fragment = |number: usize| {
        let each = vec![format!("*a{}", number - 1); 9].join(", ");
        format!("x-{number}: &a{number} {{<<: [{each}]}}\n")
    };
    let fragments: String = (1..10).map(fragment).collect();
    let service = "services:\n  s:\n    <<: *a9\n    image: a\n";
    let merges = format!("x-0: &a0 {{b: 1}}\n{fragments}{service}");
    let shifts: String =
        (0..30_000).map(|number| format!("a $(b << C{number}\n) << D\n")).collect();
    let assignments: String = (0..30_000).map(|number| format!("A={number}\n")).collect();
    let begin = testkit::processor_time();
    drop(findings_in("compose.yml", &merges, Context::default()));
    drop(findings_in("a.sh", &shifts, Context::default()));
    let found = findings_in("a.env", &assignments, Context::default());
    assert_eq!(found.len(), 29_999);
    let time = testkit::processor_time() - begin;
    // This once took minutes.
    assert!(time.as_secs() < 30, "{time:?}");
}

#[test]
fn quotes_in_an_expansion_hide_nothing() {
    let run = "docker run --cap-add=SYS_PTRACE --device /dev/kfd localhost/a\n";
    for text in [
        "A=\"${B#\"${C}/\"}\"\n",
        "A=\"$(basename \"it's\")\"\n",
        "A=$(cat <<'EOF'\nit's )\nEOF\n)\n",
        "A=`b \\`c\\` \"d\"`\n",
    ] {
        let line = format!("{} information", text.lines().count() + 1);
        expect("container-unconfined", NONE, &[("a.sh", &format!("{text}{run}"), &[&line])]);
    }
    let image = "docker run \"${IMAGE:-\"docker.io/a/b:latest\"}\"\n";
    expect("image-latest", NONE, &[("a.sh", image, &["1 warning"])]);
}

#[test]
fn quotes_in_a_quadlet_are_no_part_of_the_value() {
    let start = "[Container]\nAddDevice=/dev/kfd /dev/dri\n";
    let rocm = format!("{start}Image = \"docker.io/ollama/ollama:0.12.0-rocm\"\n");
    let plain = format!("{start}Image=\"docker.io/ollama/ollama:0.12.0\"\n");
    let cases: &[(&str, &str, &[&str])] =
        &[("a.container", &rocm, &[]), ("a.container", &plain, &["3 error"])];
    expect("ollama-without-rocm", NONE, cases);
    let seccomp = format!(
        "{start}Image=localhost/a\nSeccompProfile=\"unconfined\"\nAddCapability=SYS_ADMIN\n"
    );
    expect("container-unconfined", NONE, &[("a.container", &seccomp, &["4 information"])]);
}

#[test]
fn a_message_about_a_failure_is_no_claim() {
    expect(
        "missing-code-objects",
        NONE,
        &[
            ("a.sh", "rocminfo | grep -q gfx1151 || die \"ROCm does not detect gfx1151.\"\n", &[]),
            (
                "a.sh",
                "if ! rocminfo; then\n  echo 'ROCm cannot detect the GPU'\n  exit 1\nfi\n",
                &[],
            ),
            ("a.sh", "# ROCm cannot detect this GPU\nls\n", &["1 information"]),
            (
                "a.sh",
                "echo 'ROCm cannot detect this GPU, so set the override'\nls\n",
                &["1 information"],
            ),
        ],
    );
}

#[test]
fn an_index_of_pytorch_has_the_newest_release_of_its_series() {
    let index = "pip install torch --index-url https://download.pytorch.org/whl/rocm7.2\n";
    let wheel = "pip install torch==2.13.0+rocm7.2\n";
    let amd = "curl -O https://repo.radeon.com/rocm/apt/7.2/a.deb\n";
    let cases: &[(&str, &str, &[&str])] =
        &[("a.sh", index, &[]), ("a.sh", wheel, &[]), ("a.sh", amd, &["1 warning"])];
    expect("rocm-7-2-0", PROJECT, cases);
    let old = "pip install torch --index-url https://download.pytorch.org/whl/rocm7.1\n";
    expect("rocm-too-old", PROJECT, &[("a.sh", old, &["1 error"])]);
}

#[test]
fn one_release_of_a_stage_is_reported_once() {
    for (gpu, release, rule, severity) in [
        ("gfx1151", "6.3", "rocm-too-old", "error"),
        ("an APU", "6.2", "rocm-outdated", "information"),
    ] {
        let text = format!(
            "FROM docker.io/rocm/dev-ubuntu-22.04:{release}\nRUN pip install torch --index-url https://download.pytorch.org/whl/rocm{release}\n# {gpu}\n"
        );
        expect(rule, NONE, &[("Dockerfile", &text, &[&format!("1 {severity}")])]);
    }
    let twice =
        "# gfx1100\nARG ROCM_VERSION=6.2\nFROM docker.io/rocm/dev-ubuntu-22.04:${ROCM_VERSION}\n";
    expect("rocm-outdated", NONE, &[("Dockerfile", twice, &["2 information"])]);
}

#[test]
fn settings_of_ollamas_server_are_not_those_of_its_clients() {
    expect(
        "variable-does-not-exist",
        NONE,
        &[
            // A client of Ollama may use the name for a setting of its own.
            (".env", "OLLAMA_HOST=http://ollama:11434\nOLLAMA_NUM_GPU=1\n", &[]),
            (".env", "OLLAMA_MODELS=/m\nOLLAMA_PORT=11434\nOLLAMA_IMAGE=a\n", &[]),
            ("a.env", "OLLAMA_MODELS=/m\nexport OLLAMA_GPU=rocm\n", &["2 warning"]),
            (
                "a.sh",
                "echo 'export OLLAMA_MODELS=/m' >> ~/.bashrc\necho 'export OLLAMA_GPU=rocm' >> ~/.bashrc\n",
                &["2 warning"],
            ),
            ("a.sh", "OLLAMA_GPU=1\nexport OLLAMA_MODELS=/m\n", &[]),
            (
                "a.sh",
                "export OLLAMA_MODELS=/m OLLAMA_NUM_GPU=9\ncurl -d \"{\\\"num_gpu\\\": ${OLLAMA_NUM_GPU}}\" h\n",
                &[],
            ),
        ],
    );
    expect(
        "ollama-open",
        NONE,
        &[
            ("ollama.service.d/a.conf", "[Service]\nEnvironment=OLLAMA_HOST=127.0.0.1\n", &[]),
            (
                "ollama.service",
                "[Service]\nExecStart=/usr/bin/ollama serve\nEnvironment=OLLAMA_HOST=0.0.0.0\n",
                &["3 information"],
            ),
            // In a container, only a published port opens it.
            (
                "a.container",
                "[Container]\nImage=docker.io/ollama/ollama:0.12.0@sha256:1\nEnvironment=OLLAMA_HOST=0.0.0.0\n",
                &[],
            ),
            (
                "compose.yml",
                "services:\n  a:\n    image: ollama/ollama\n    environment: [OLLAMA_HOST=0.0.0.0]\n",
                &[],
            ),
            (
                "a.service",
                "[Service]\nEnvironment=OLLAMA_HOST=0.0.0.0\nExecStart=/usr/bin/podman run a\n",
                &[],
            ),
            (".env", "OLLAMA_HOST=0.0.0.0\nA=1\n", &[]),
            (".env", "OLLAMA_HOST=0.0.0.0\nOLLAMA_MODELS=/m\n", &["1 information"]),
        ],
    );
}

#[test]
fn build_variables_beside_the_override_do_nothing() {
    expect(
        "variable-build-only",
        NONE,
        &[
            ("a.env", "PYTORCH_ROCM_ARCH=gfx1030\n", &[]),
            (
                "a.env",
                "HSA_OVERRIDE_GFX_VERSION=10.3.0\nPYTORCH_ROCM_ARCH=gfx1030\n",
                &["2 information"],
            ),
            (
                "a.sh",
                "export HSA_OVERRIDE_GFX_VERSION=10.3.0 PYTORCH_ROCM_ARCH=gfx1030\npip install .\n",
                &[],
            ),
        ],
    );
}

#[test]
fn keys_of_other_sections_are_no_keys_of_quadlet() {
    expect(
        "quadlet-key",
        NONE,
        &[
            (
                "a.container",
                "[Unit]\nDescription=a\n[Container]\nImage=localhost/a\nUserNS=keep-id\nAppArmor=unconfined\n[Service]\nRestart=always\n[Install]\nWantedBy=default.target\n",
                &[],
            ),
            ("a.container", "[Container]\nImage=localhost/a\nEeec=a \\\n  --b=c\n", &["3 warning"]),
        ],
    );
}

#[test]
fn lines_of_a_string_that_is_written_are_settings() {
    let text = "LINES=\"\n# ROCm\nexport ROCM_PATH=/opt/rocm\nexport HSA_OVERRIDE_GFX_VERSION=gfx1151\n\"\n";
    let written = format!("{text}echo \"$LINES\" >> ~/.bashrc\n");
    let shown = format!("{text}echo \"$LINES\"\n");
    let cases: &[(&str, &str, &[&str])] =
        &[("a.sh", &written, &["6 error"]), ("a.sh", &shown, &[])];
    expect("hsa-override-form", NONE, cases);
}

#[test]
fn quotes_around_an_item_are_no_part_of_the_value() {
    let start = "services:\n  a:\n    image: localhost/a\n    environment:\n";
    for (item, expected) in [
        ("      - \"HIP_VISIBLE_DEVICES=0\"\n", &[][..]),
        ("      HIP_VISIBLE_DEVICES: \"0\"\n", &[]),
        ("      - CUDA_VISIBLE_DEVICES=\"\"\n", &["5 warning"]),
    ] {
        expect("value-quoted", NONE, &[("compose.yml", &format!("{start}{item}"), expected)]);
    }
    let run = "docker run -e HIP_VISIBLE_DEVICES=\"0\" localhost/a\n";
    expect("value-quoted", NONE, &[("a.sh", run, &[])]);
}

#[test]
fn a_user_with_a_group_may_open_the_gpu() {
    let run = "docker run --device /dev/kfd";
    for (options, expected) in [
        ("-u 1000", &["1 information"][..]),
        ("--user 1000:1000", &["1 information"]),
        ("--user 1000:992", &[]),
        ("--user 0", &[]),
        ("-u 1000 --group-add 992", &[]),
        ("-u 1000 --userns keep-id", &[]),
    ] {
        let text = format!("{run} {options} localhost/a\n");
        expect("render-group-missing", NONE, &[("a.sh", &text, expected)]);
    }
}

#[test]
fn an_old_rocm_has_no_new_pytorch() {
    let allocator = "PYTORCH_HIP_ALLOC_CONF=max_split_size_mb:128\n";
    let old = format!("ROCM_VERSION=5.6\n{allocator}");
    let new = format!("ROCM_VERSION=7.2.1\n{allocator}");
    let wheel = format!(
        "FROM docker.io/a/b@sha256:1\nRUN pip install torch --index-url https://download.pytorch.org/whl/rocm6.2\nFROM docker.io/a/b@sha256:1\nENV {allocator}"
    );
    let cases: &[(&str, &str, &[&str])] =
        &[("a.env", &old, &[]), ("a.env", &new, &[]), ("Dockerfile", &wheel, &[])];
    expect("variable-renamed", NONE, cases);
    for named in [
        "RUN wget https://repo.radeon.com/rocm/manylinux/rocm-rel-7.0/torch-2.8.0%2Brocm7.0-cp312-cp312-linux_x86_64.whl",
        "RUN pip install torch-2.8.0+rocm7.0*.whl",
        "ARG PYTORCH_VERSION=v2.8.0",
        "ARG TORCH_VER=2.8",
    ] {
        let text = |named: &str| format!("FROM docker.io/a/b@sha256:1\n{named}\nENV {allocator}");
        expect("variable-renamed", NONE, &[("Dockerfile", &text(named), &[])]);
        let newer = named.replace("2.8", "2.10");
        expect("variable-renamed", NONE, &[("Dockerfile", &text(&newer), &["3 information"])]);
    }
}

#[test]
fn a_stage_has_the_packages_of_its_base() {
    let text = |first: &str| {
        format!(
            "FROM docker.io/rocm/dev-ubuntu-22.04:6.2 AS dev\nRUN apt-get update && apt-get install -y {first}\nFROM dev AS build\nRUN cmake -B build -DGGML_HIP=ON\n"
        )
    };
    expect(
        "math-libraries-missing",
        NONE,
        &[("Dockerfile", &text("rocm-libs"), &[]), ("Dockerfile", &text("git"), &["4 error"])],
    );
}

#[test]
fn a_variable_of_another_program_is_no_typing_error() {
    expect(
        "variable-unknown",
        NONE,
        &[
            ("a.env", "API_LOG_LEVEL=DEBUG\n", &[]),
            ("a.env", "AMD_LOG_LEVLE=3\n", &["1 warning"]),
            ("a.env", "HAS_OVERRIDE_GFX_VERSION=11.0.0\n", &["1 warning"]),
        ],
    );
}

#[test]
fn a_gpu_before_vega_may_have_its_own_setting() {
    let text =
        |version: &str| format!("HSA_OVERRIDE_GFX_VERSION={version}\nROC_ENABLE_PRE_VEGA=1\n");
    expect(
        "pre-vega",
        NONE,
        &[("a.env", &text("8.0.3"), &[]), ("a.env", &text("10.3.0"), &["2 information"])],
    );
}

#[test]
fn an_image_is_reported_once() {
    let twice = "FROM docker.io/library/golang:1 AS a\nFROM docker.io/library/golang:1\n";
    let ended = "FROM docker.io/library/node:16.14.0-slim\n";
    expect(
        "image-unpinned",
        NONE,
        &[("Dockerfile", twice, &["1 information"]), ("Dockerfile", ended, &[])],
    );
    expect("base-end-of-life", NONE, &[("Dockerfile", ended, &["1 warning"])]);
    let short = "FROM golang:1 AS a\nFROM golang:1\n";
    expect("image-unpinned", NONE, &[("Dockerfile", short, &["1 information"])]);
    expect("image-short-name", NONE, &[("Dockerfile", short, &[])]);
}
