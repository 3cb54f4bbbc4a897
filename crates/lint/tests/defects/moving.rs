//! Defects that 189 previously unseen files from 61 repositories revealed on 2026-11-28: workflows
//! were not read, and neither were packages of distributions and models without a version.

use super::{NONE, expect};

/// A workflow with one step.
fn workflow(step: &str) -> String {
    format!("on: push\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    steps:\n{step}\n")
}

#[test]
fn a_workflow_runs_scripts() {
    let run = |script: &str| workflow(&format!("      - name: b\n        run: {script}"));
    let block = run("|\n          make\n          wget https://h.example/a.deb\n          make b");
    let verified = run("|\n          wget https://h.example/a.deb\n          sha256sum -c sums");
    let plain = run("wget https://h.example/a.deb");
    let windows = "      - run: |\n          curl https://h.example/a.zip -o a.zip\n          b\n        if: runner.os == 'Windows'";
    let other = "      - run: |\n          curl https://h.example/a.zip -o a.zip\n          b\n        shell: pwsh";
    let cases = [
        (block.as_str(), &["9 warning"][..]),
        (&plain, &["7 warning"]),
        (&verified, &[]),
        (&workflow(windows), &[]),
        (&workflow(other), &[]),
    ];
    for (text, expected) in cases {
        expect("download-unchecked", NONE, &[(".github/workflows/a.yml", text, expected)]);
    }
    let gitlab = "build:\n  image: docker.io/a/b:1\n  script:\n    - make\n    - wget https://h.example/a.deb\n";
    expect("download-unchecked", NONE, &[(".gitlab-ci.yml", gitlab, &["5 warning"])]);
    expect("image-unpinned", NONE, &[(".gitlab-ci.yml", gitlab, &["2 information"])]);
}

#[test]
fn a_workflow_reads_variables_that_the_runner_sets() {
    let step = "      - run: |\n          make ${{ matrix.target }} \"$GITHUB_REF\"\n          pip install \"a==${{ env.A_VERSION }}\"";
    for rule in ["undefined-pin", "index-unpinned"] {
        expect(rule, NONE, &[("a.yml", &workflow(step), &[])]);
    }
}

#[test]
fn a_job_may_push() {
    let step = "      - run: |\n          git commit -am a\n          git push";
    expect("git-push-in-script", NONE, &[("a.yml", &workflow(step), &[])]);
    let script = "git commit -am a\ngit push\n";
    expect("git-push-in-script", NONE, &[("a.sh", script, &["2 warning"])]);
}

#[test]
fn a_job_runs_in_an_image() {
    let job = |container: &str| format!("on: push\njobs:\n  a:\n    container: {container}\n");
    let cases = [
        (job("docker.io/a/b:1"), &["4 information"][..]),
        (job("\n      image: docker.io/a/b:1"), &["5 information"]),
        (job("${{ matrix.image }}"), &[]),
        (job("docker.io/a/b@sha256:1"), &[]),
    ];
    for (text, expected) in cases {
        expect("image-unpinned", NONE, &[("a.yml", &text, expected)]);
    }
}

#[test]
fn a_job_of_gitlab_has_one_command_or_a_list() {
    let install = "curl -fsSL https://example.org/install.sh | sh";
    for (script, line) in [(install.to_owned(), 2), (format!("\n    - {install}"), 3)] {
        let text = format!("build:\n  script: {script}\n");
        let expected = format!("{line} warning");
        expect("download-unchecked", NONE, &[(".gitlab-ci.yml", &text, &[&expected])]);
    }
}

#[test]
fn an_action_has_a_commit_or_not() {
    let uses = |action: &str| workflow(&format!("      - uses: {action}"));
    let commit = uses("a/b@54081f138730dfa15788a46383842cd2f914a1be # v1.3.1");
    let cases = [
        ("branch-as-commit", uses("a/b@main"), &["6 warning"][..]),
        ("branch-as-commit", uses("a/b@v1"), &[]),
        ("branch-as-commit", uses("a/rust-toolchain@stable"), &[]),
        ("branch-as-commit", uses("./b"), &[]),
        ("tag-not-commit", uses("a/b@v1.2"), &["6 information"]),
        ("tag-not-commit", uses("actions/checkout@v6"), &[]),
        ("tag-not-commit", commit, &[]),
        ("workflow-retired", uses("actions/upload-artifact@v3"), &["6 warning"]),
        ("workflow-retired", uses("actions/upload-artifact@v4"), &[]),
    ];
    for (rule, text, expected) in cases {
        expect(rule, NONE, &[("a.yml", &text, expected)]);
    }
    let on = |line: &str| format!("on: push\njobs:\n  a:\n    {line}\n    runs-on: ubuntu-24.04\n");
    let cases = [
        ("os: [ubuntu-20.04, ubuntu-22.04]", &["4 warning"][..]),
        ("runs-on: [self-hosted, ubuntu-20.04]", &[]),
        ("container: docker.io/rocm/dev-ubuntu-20.04:6.0", &[]),
        ("name: ubuntu-20.04", &[]),
        ("# ubuntu-20.04", &[]),
    ];
    for (line, expected) in cases {
        expect("workflow-retired", NONE, &[("a.yml", &on(line), expected)]);
    }
}

#[test]
fn a_tool_without_a_version_is_reported() {
    let with = |run: &str| format!("FROM docker.io/a/b:1\nRUN {run}\n");
    let cases = [
        (with("pipx install poetry"), &["2 information"][..]),
        (with("pipx install poetry==2.1.0"), &[]),
        (with("uv tool install black"), &["2 information"]),
        (with("uv tool install black==25.1.0"), &[]),
        (with("conda install -y -c conda-forge cmake"), &["2 information"]),
        (with("conda install -y cmake=3.31"), &[]),
        (with("conda install -y --file list.txt"), &[]),
        (with("gem install bundler"), &["2 information"]),
        (with("gem install bundler -v 2.6.0"), &[]),
        // Many images have no newer source of a Python.
        (with("add-apt-repository -y ppa:a/b"), &[]),
    ];
    for (text, expected) in cases {
        expect("package-unpinned", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn an_installer_without_a_release_is_reported_where_it_is_downloaded() {
    let with = |file: &str| {
        format!(
            "FROM docker.io/a/b@sha256:1\nRUN wget https://h.example/{file} \\\n && sh ./{file}\n"
        )
    };
    let cases = [
        (with("Miniconda3-latest-Linux-x86_64.sh"), &["2 information"][..]),
        (with("Miniconda3-py312_25.1.1-0-Linux-x86_64.sh"), &[]),
    ];
    for (text, expected) in cases {
        expect("release-latest", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn a_model_comes_from_a_commit_or_a_branch() {
    let cases = [
        ("wget https://huggingface.co/a/b/resolve/main/c.gguf", &["1 information"][..]),
        ("wget https://huggingface.co/a/b/resolve/1f0a/c.gguf", &[]),
        ("hf download a/b\nhf download c/d", &["1 information"]),
        ("hf download a/b --revision 1f0a", &[]),
        ("hf download \"$MODEL\"", &["1 information"]),
        ("echo 'run hf download a/b'", &[]),
        ("wget https://huggingface.co/a/b/resolve/main/c.gguf\nsha256sum -c c.sum", &[]),
    ];
    for (text, expected) in cases {
        expect("model-unpinned", NONE, &[("a.sh", text, expected)]);
    }
}

#[test]
fn an_image_is_replaced_by_a_policy() {
    let with = |image: &str, policy: &str| {
        format!("services:\n  a:\n    image: {image}\n    pull_policy: {policy}\n")
    };
    let cases = [
        (with("docker.io/a/b:rocm", "always"), &["4 information"][..]),
        (with("docker.io/a/b:rocm", "missing"), &[]),
        (with("docker.io/a/b@sha256:1", "always"), &[]),
    ];
    for (text, expected) in cases {
        expect("image-updated", NONE, &[("compose.yml", &text, expected)]);
    }
    let local = "[Container]\nImage=localhost/a\nAutoUpdate=local\n";
    expect("image-updated", NONE, &[("a.container", local, &[])]);
}

#[test]
fn an_image_selects_a_gpu_or_not() {
    let with = |line: &str| format!("FROM docker.io/a/b@sha256:1\n{line}\n");
    let cases = [
        ("ENV HIP_VISIBLE_DEVICES=0", &["2 information"][..]),
        ("ENV ROCR_VISIBLE_DEVICES=0,1", &["2 information"]),
        ("ARG HIP_VISIBLE_DEVICES=0", &[]),
        ("ARG GPUS\nENV HIP_VISIBLE_DEVICES=$GPUS", &[]),
        ("RUN HIP_VISIBLE_DEVICES=0 make", &[]),
    ];
    for (line, expected) in cases {
        expect("visible-devices-fixed", NONE, &[("Dockerfile", &with(line), expected)]);
    }
    let service =
        "services:\n  a:\n    build: .\n    environment:\n      - HIP_VISIBLE_DEVICES=0\n";
    expect("visible-devices-fixed", NONE, &[("compose.yml", service, &[])]);
}

#[test]
fn a_build_starts_the_server_of_ollama_itself() {
    let with = |run: &str| format!("FROM docker.io/a/b@sha256:1\n{run}\n");
    let cases = [
        ("RUN ollama pull a", &["2 warning"][..]),
        ("RUN ollama start & sleep 5 && ollama pull a", &[]),
        ("CMD ollama run a", &[]),
        ("RUN ollama serve & sleep 5 && ollama pull a", &[]),
        ("RUN ollama --version", &[]),
        ("CMD [\"ollama\", \"run\", \"a\"]", &[]),
    ];
    for (run, expected) in cases {
        expect("build-without-server", NONE, &[("Dockerfile", &with(run), expected)]);
    }
}

#[test]
fn a_later_instruction_checks_what_add_downloads() {
    let add = "FROM docker.io/a/b@sha256:1\nADD https://h.example/a.onnx /m/a.onnx\n";
    let checked = format!("{add}RUN echo '1  /m/a.onnx' | sha256sum -c -\n");
    let other = format!("{add}RUN echo '1  /m/b.onnx' | sha256sum -c -\n");
    let cases: &[(&str, &str, &[&str])] = &[
        ("Dockerfile", add, &["2 warning"]),
        ("Dockerfile", &checked, &[]),
        ("Dockerfile", &other, &["2 warning"]),
    ];
    expect("download-unchecked", NONE, cases);
}

#[test]
fn options_on_the_next_line_and_folders_in_lists_count() {
    let pip = "FROM docker.io/a/b@sha256:1\nRUN pip install \\\n  --trusted-host h.example \\\n  a==1.0\n";
    expect("tls-off", NONE, &[("Dockerfile", pip, &["3 warning"])]);
    let with = |tag: &str, value: &str| {
        format!(
            "FROM docker.io/rocm/dev-ubuntu-24.04:{tag}@sha256:1\nENV LD_LIBRARY_PATH={value}\n"
        )
    };
    let cases = [
        (with("6.4.3", "/a/lib:/opt/rocm/hip/lib"), &["2 information"][..]),
        (with("6.4.3", "/a/lib:/opt/rocm/lib/hipfft"), &[]),
        (with("5.7.1", "/a/lib:/opt/rocm/hip/lib"), &[]),
    ];
    for (text, expected) in cases {
        expect("rocm-package-gone", NONE, &[("Dockerfile", &text, expected)]);
    }
    let cmake = "export CMAKE_ARGS=\"-DLLAMA_BLAS=ON\"\npip install llama-cpp-python==0.3.16\n";
    expect("build-option-gone", NONE, &[("a.sh", cmake, &["1 warning"])]);
}
