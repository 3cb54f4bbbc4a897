//! Images that lack a part: a file that is not copied, the torch that a build needs, the ROCm of a
//! package, the Python of a virtual environment.

use lint::{Context, Exists, check};

use super::{NONE, expect, of};

/// A project with these files beside the Dockerfile.
#[derive(Debug)]
struct Files(&'static [(&'static str, &'static str)]);

impl Exists for Files {
    fn text(&self, _: &str, path: &str) -> Option<String> {
        self.0.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned())
    }

    fn beside(&self, _: &str) -> Vec<(String, String)> {
        self.0.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }
}

/// Returns the lines of the findings of `missing-file` in a Dockerfile of this project.
fn missing(files: &'static [(&'static str, &'static str)], text: &str) -> Vec<usize> {
    let files = Files(files);
    let context = Context { exists: Some(&files), ..Context::default() };
    let all = check("Dockerfile", text, context);
    all.iter().filter(|one| one.rule.id == "missing-file").map(|one| one.line).collect()
}

#[test]
fn a_script_that_is_copied_must_exist() {
    let start: &[(&str, &str)] = &[("start.sh", "exec python3 main.py\n")];
    let text = "FROM docker.io/a/b@sha256:1\nCOPY start.sh /app/\nCOPY install.sh /app/\n";
    assert_eq!(missing(start, text), [3]);
    assert_eq!(missing(start, &text.replace("install.sh", "./requirements.txt")), [3]);
    // Nothing shows that the files of the project are there, or those of this folder.
    assert!(missing(&[], text).is_empty());
    assert!(missing(start, &text.replace("install.sh", "tools/install.sh")).is_empty());
    for right in [
        "COPY --from=build install.sh /app/",
        "COPY $SCRIPT /app/",
        "COPY *.sh /app/",
        "COPY ../install.sh /app/",
        "COPY app.jar /opt/",
        "COPY nginx.conf /etc/",
        "COPY model.gguf /models/",
        "COPY src/ /app/",
        "ADD https://h.example/install.sh /app/",
        "COPY <<EOF /install.sh\nEOF",
    ] {
        let text = text.replace("COPY install.sh /app/", right);
        assert!(missing(start, &text).is_empty(), "{right}");
    }
    // A script that only runs it does not make it.
    let runs: &[(&str, &str)] = &[("start.sh", "bash /app/install.sh\n")];
    assert_eq!(missing(runs, text), [3]);
    // A script makes it, git ignores it, or a comment names it.
    for made in [
        &[("start.sh", ""), ("prepare.sh", "cat a > install.sh\n")][..],
        &[("start.sh", ""), (".gitignore", "/install.sh\n")],
    ] {
        assert!(missing(made, text).is_empty(), "{made:?}");
    }
    assert!(missing(start, &format!("# Write install.sh first.\n{text}")).is_empty());
}

#[test]
fn a_list_has_the_name_under_which_it_is_copied() {
    let text = |base: &str, list: &str| {
        format!(
            "FROM {base}\nRUN apt update && apt install -y git\nRUN mkdir /app\nWORKDIR /app\nCOPY requirements/server_rocm.txt /app/\nRUN pip install --no-cache-dir -r {list} && rm {list}\n"
        )
    };
    for base in ["docker.io/rocm/pytorch", "docker.io/rocm/dev-ubuntu-24.04:7.2", "python:3.12"] {
        let wrong = text(base, "server.txt");
        expect("path-absent", NONE, &[("Dockerfile", &wrong, &["6 error"])]);
        let right = text(base, "server_rocm.txt");
        expect("path-absent", NONE, &[("Dockerfile", &right, &[])]);
        let made =
            wrong.replace("WORKDIR /app\n", "WORKDIR /app\nRUN curl -LO https://h.example/x\n");
        expect("path-absent", NONE, &[("Dockerfile", &made, &[])]);
    }
    // Nobody knows what is in another image.
    expect(
        "path-absent",
        NONE,
        &[("Dockerfile", &text("docker.io/a/b", "server.txt").replace("mkdir", "mkdir -p"), &[])],
    );
}

#[test]
fn a_project_is_installed_from_its_own_files() {
    let text = |copy: &str, install: &str| {
        format!("FROM python:3.12-slim\nWORKDIR /app\n{copy}\nRUN {install}\n")
    };
    let wrong = "COPY app/ ./app/";
    for install in ["pip install -e .", "pip install .", "uv pip install --system '.[all]'"] {
        let file = text(wrong, install);
        expect("path-absent", NONE, &[("Dockerfile", &file, &["4 error"])]);
        for right in [
            "COPY . .",
            "COPY pyproject.toml ./",
            "COPY setup.py ./",
            "ADD a.tar.gz .",
            "COPY --from=docker.io/a/b /app /app",
        ] {
            expect("path-absent", NONE, &[("Dockerfile", &text(right, install), &[])]);
        }
    }
    expect("path-absent", NONE, &[("Dockerfile", &text(wrong, "cd app && pip install ."), &[])]);
    expect("path-absent", NONE, &[("Dockerfile", &text(wrong, "pip install ./app"), &[])]);
}

#[test]
fn a_build_that_needs_torch_sees_it() {
    let image = "FROM docker.io/rocm/pytorch:rocm7.2@sha256:1\nRUN pip install -U pip==26.0 && ";
    let vllm = "git clone https://github.com/vllm-project/vllm.git && cd vllm && pip install -e .";
    let wrong = [
        "pip install git+https://github.com/facebookresearch/detectron2.git",
        "pip install torch-scatter",
        vllm,
        "git clone https://github.com/ROCm/flash-attention.git /src/fa && cd /src/fa && pip install .",
    ];
    for command in wrong {
        let text = format!("{image}{command}\n");
        expect("build-isolated", NONE, &[("Dockerfile", &text, &["2 warning"])]);
        let right = text.replace("pip install", "pip install --no-build-isolation");
        expect("build-isolated", NONE, &[("Dockerfile", &right, &[])]);
    }
    for right in [
        "pip install git+https://github.com/huggingface/diffusers.git",
        "pip install torch-scatter -f https://data.pyg.org/whl/torch-2.9.0+cpu.html",
        "git clone https://github.com/vllm-project/vllm.git && cd vllm && python3 setup.py develop",
        "git clone https://github.com/vllm-project/vllm.git && pip install -r vllm/requirements/rocm.txt",
        "git clone https://github.com/vllm-project/vllm.git && cd app && pip install -e .",
    ] {
        let text = format!("{image}{right}\n");
        expect("build-isolated", NONE, &[("Dockerfile", &text, &[])]);
    }
    // An old pip isolates only the builds of projects that ask for it.
    for (command, expected) in [(wrong[0], &[][..]), (vllm, &["2 warning"])] {
        let text = format!("{image}{command}\n").replace("pip install -U pip==26.0 && ", "");
        expect("build-isolated", NONE, &[("Dockerfile", &text, expected)]);
    }
    // For NVIDIA GPUs, the isolated build gets the right torch.
    let cuda = format!("FROM docker.io/nvidia/cuda:13.0\nRUN {vllm}\n");
    expect("build-isolated", NONE, &[("Dockerfile", &cuda, &[])]);
}

#[test]
fn a_package_without_rocm_needs_an_image_with_it() {
    let text = |last: &str| {
        format!(
            "FROM python:3.12-slim AS build\nRUN python3 -m venv /venv && /venv/bin/pip install onnxruntime-rocm==1.22.2\n{last}"
        )
    };
    let plain = text("FROM python:3.12-slim\nCOPY --from=build /venv /venv\n");
    expect("math-libraries-missing", NONE, &[("Dockerfile", &plain, &["2 warning"])]);
    for right in [
        "FROM docker.io/rocm/dev-ubuntu-24.04:7.2-complete\nCOPY --from=build /venv /venv\n",
        "FROM python:3.12-slim\nRUN apt-get update && apt-get install -y migraphx\nCOPY --from=build /venv /venv\n",
        "FROM python:3.12-slim\nCOPY --from=docker.io/rocm/a:1 /opt/rocm /opt/rocm\nCOPY --from=build /venv /venv\n",
        "FROM python:3.12-slim\nRUN pip install rocm[libraries]\nCOPY --from=build /venv /venv\n",
    ] {
        expect("math-libraries-missing", NONE, &[("Dockerfile", &text(right), &[])]);
    }
    let cpu = plain.replace("onnxruntime-rocm", "onnxruntime");
    expect("math-libraries-missing", NONE, &[("Dockerfile", &cpu, &[])]);
}

#[test]
fn an_environment_is_copied_with_its_python() {
    let text = |before: &str, after: &str| {
        format!(
            "FROM docker.io/library/ubuntu:24.04 AS build\nWORKDIR /app\n{before}\nRUN uv sync --frozen\nFROM docker.io/library/ubuntu:24.04\n{after}\nCMD [\"/app/.venv/bin/python\", \"main.py\"]\n"
        )
    };
    let copy = "COPY --from=build /app/.venv /app/.venv";
    let download = "RUN uv python install 3.13";
    let found = |text: String| of("library-not-copied", "Dockerfile", &text, NONE);
    assert_eq!(found(text(download, copy)), ["6 error"]);
    assert_eq!(found(text("ENV UV_PYTHON_PREFERENCE=only-managed", copy)), ["6 error"]);
    let moved = format!("ENV UV_PYTHON_INSTALL_DIR=/python\n{download}");
    assert_eq!(found(text(&moved, copy)), ["7 error"]);
    for (before, after) in [
        ("RUN apt-get install -y python3", copy.to_owned()),
        (download, format!("{copy}\nCOPY --from=build /root/.local /root/.local")),
        (download, "COPY --from=build / /\nCOPY --from=build /app/.venv /app/.venv".to_owned()),
        (moved.as_str(), format!("COPY --from=build /python /python\n{copy}")),
        (download, format!("RUN uv python install 3.13\n{copy}")),
    ] {
        assert!(found(text(before, &after)).is_empty(), "{before} {after}");
    }
}

#[test]
fn a_list_in_a_folder_for_lists_is_one() {
    let list = "torch\nnumpy\nscipy\nfastapi\nuvicorn\npillow\n";
    for (file, expected) in
        [("requirements/server_rocm.txt", &["1 information"][..]), ("docs/notes.txt", &[])]
    {
        expect("index-unpinned", NONE, &[(file, list, expected)]);
    }
}

#[test]
fn the_group_video_does_not_open_the_gpu() {
    let text = |group: &str| {
        format!(
            "# docker run --device=/dev/kfd --device=/dev/dri {group} app\nFROM docker.io/rocm/pytorch:rocm7.2@sha256:1\nRUN useradd -m app\nUSER app\n"
        )
    };
    let rule = "render-group-missing";
    expect(rule, NONE, &[("Dockerfile", &text("--group-add video"), &["4 information"])]);
    expect(rule, NONE, &[("Dockerfile", &text("--group-add=video"), &["4 information"])]);
    expect(rule, NONE, &[("Dockerfile", &text("--group-add video --group-add 992"), &[])]);
    expect(rule, NONE, &[("Dockerfile", &text("--group-add render"), &[])]);
}

#[test]
fn mkdir_does_not_change_the_folder() {
    let run = |text: &str| format!("FROM docker.io/a/b@sha256:1\nRUN {text}\n");
    expect(
        "operator-missing",
        NONE,
        &[
            ("Dockerfile", &run("mkdir -p /a && mkdir -p /b \\\n    cd /a && make"), &["3 error"]),
            ("Dockerfile", &run("mkdir -p /a && cd /a && make"), &[]),
            ("Dockerfile", &run("mkdir -p cd src"), &[]),
        ],
    );
}

#[test]
fn llama_cpp_reads_the_variables_that_it_lists() {
    let run = |variable: &str| {
        format!(
            "services:\n  a:\n    image: ghcr.io/ggml-org/llama.cpp:server-rocm\n    environment:\n      {variable}: 1\n"
        )
    };
    let wrong = [
        "LLAMA_ARG_TEMP",
        "LLAMA_ARG_REASONING_FORMAT",
        "LLAMA_ARG_API_KEY",
        "LLAMA_ARG_PARALLEL",
        "LLAMA_ARG_MODEL_PATH",
        "LLAMA_ARG_REPEAT_LAST_N",
        "LLAMA_ARG_GPU_LAYERS",
    ];
    for name in wrong {
        expect("variable-unknown", NONE, &[("compose.yml", &run(name), &["5 warning"])]);
    }
    let right = [
        "LLAMA_ARG_TEMPERATURE",
        "LLAMA_ARG_THINK",
        "LLAMA_ARG_API_KEY_FILE",
        "LLAMA_ARG_N_PARALLEL",
        "LLAMA_ARG_NO_MMAP",
        "LLAMA_ARG_MMAP",
        "LLAMA_ARG_WEBUI",
        "LLAMA_ARG_DRAFT_MAX",
    ];
    for name in right {
        expect("variable-unknown", NONE, &[("compose.yml", &run(name), &[])]);
    }
    // A fork has more, and a script of the author reads the variable itself.
    let fork = run("LLAMA_ARG_X").replace("ggml-org/llama.cpp", "a/ik_llama.cpp");
    expect("variable-unknown", NONE, &[("compose.yml", &fork, &[])]);
    let own = "export LLAMA_ARG_X=1\nllama-server --model $LLAMA_ARG_X\n";
    expect("variable-unknown", NONE, &[("a.sh", own, &[])]);
}

#[test]
fn libraries_of_nvidia_are_not_in_a_rocm_image() {
    let text =
        |base: &str, path: &str| format!("FROM {base}@sha256:1\nENV LD_LIBRARY_PATH={path}\n");
    let packages = "/usr/lib/python3.12/site-packages/nvidia/cudnn/lib";
    let rule = "nvidia-leftover";
    expect(
        rule,
        NONE,
        &[("Dockerfile", &text("docker.io/rocm/pytorch", packages), &["2 warning"])],
    );
    expect(rule, NONE, &[("Dockerfile", &text("docker.io/rocm/pytorch", "/opt/rocm/lib"), &[])]);
    expect(rule, NONE, &[("Dockerfile", &text("docker.io/nvidia/cuda", packages), &[])]);
}

#[test]
fn a_model_is_in_the_format_that_the_option_names() {
    let serve = |model: &str, format: &str| format!("vllm serve {model} --quantization {format}\n");
    let rule = "option-value";
    for model in ["meta-llama/Llama-3.1-8B-Instruct", "--model Qwen/Qwen3-8B"] {
        expect(rule, NONE, &[("a.sh", &serve(model, "awq"), &["1 information"])]);
    }
    for (model, format) in [
        ("Qwen/Qwen3-14B-AWQ", "awq"),
        ("/models/mine", "awq"),
        ("$MODEL", "gptq"),
        ("Qwen/Qwen3-8B", "fp8"),
        ("a/b-4bit", "gptq"),
    ] {
        expect(rule, NONE, &[("a.sh", &serve(model, format), &[])]);
    }
}

#[test]
fn rdna_3_multiplies_no_fp8_matrices() {
    let start = |gpu: &str| format!("# {gpu}\npython3 main.py --supports-fp8-compute\n");
    let rule = "variable-without-effect";
    expect(rule, NONE, &[("a.sh", &start("gfx1103"), &["2 warning"])]);
    expect(rule, NONE, &[("a.sh", &start("gfx1201"), &[])]);
    expect(rule, NONE, &[("a.sh", &start("any GPU"), &[])]);
}

#[test]
fn torch_wants_colons() {
    let text =
        |value: &str| format!("FROM docker.io/a/b@sha256:1\nENV PYTORCH_HIP_ALLOC_CONF={value}\n");
    let rule = "value-unknown";
    let wrong = "garbage_collection_threshold:0.8,max_split_size_mb=512";
    expect(rule, NONE, &[("Dockerfile", &text(wrong), &["2 warning"])]);
    expect(rule, NONE, &[("Dockerfile", &text(&wrong.replace('=', ":")), &[])]);
    expect(
        rule,
        NONE,
        &[("a.sh", "export PYTORCH_ALLOC_CONF=backend:native\npython3 a.py\n", &[])],
    );
}

#[test]
fn an_instruction_is_no_program() {
    let run = |text: &str| format!("FROM docker.io/a/b@sha256:1\nRUN {text}\n");
    let rule = "instruction-unknown";
    expect(rule, NONE, &[("Dockerfile", &run("RUN make"), &["2 error"])]);
    expect(rule, NONE, &[("Dockerfile", &run("COPY a b"), &["2 error"])]);
    for right in ["make RUN", "./RUN", "run make", "echo a && USER=b make"] {
        expect(rule, NONE, &[("Dockerfile", &run(right), &[])]);
    }
}

#[test]
fn an_argument_of_the_service_chooses_the_base() {
    let files =
        Files(&[("Dockerfile", "ARG BASE=docker.io/nvidia/cuda:13.0\nFROM ${BASE}\nRUN make\n")]);
    let context = Context { exists: Some(&files), ..Context::default() };
    let found = |base: &str| {
        let text = format!(
            "services:\n  a:\n    build:\n      context: .\n      args:\n        BASE: {base}\n    devices:\n      - /dev/kfd\n    group_add:\n      - render\n"
        );
        let all = check("compose.yml", &text, context);
        all.iter()
            .filter(|one| one.rule.id == "group-unknown")
            .map(|one| one.line)
            .collect::<Vec<_>>()
    };
    assert_eq!(found("ubuntu:24.04"), [10]);
    assert_eq!(found("${BASE:-ubuntu:24.04}"), [10]);
    assert!(found("docker.io/rocm/pytorch:latest").is_empty());
}

#[test]
fn a_function_of_the_script_runs_the_command() {
    let text = |function: &str| {
        format!(
            "{function}\nrun pip install torch --index-url https://download.pytorch.org/whl/rocm7.2\n"
        )
    };
    for function in [
        "run() {\n    if $DRY; then\n        echo \"would run $*\"\n    else\n        \"$@\"\n    fi\n}",
        "run() { echo \"+ $*\"; \"$@\"; }",
        "function run() {\n  sudo \"$@\" || exit 1\n}",
    ] {
        let lines = function.lines().count() + 1;
        let expected = format!("{lines} information");
        expect("index-unpinned", NONE, &[("a.sh", &text(function), &[expected.as_str()])]);
    }
    for function in ["run() { echo \"$@\"; }", "other() { \"$@\"; }\nrun() {\n  echo\n}"] {
        expect("index-unpinned", NONE, &[("a.sh", &text(function), &[])]);
    }
}

#[test]
fn some_gpus_are_no_vga_controllers() {
    let rule = "gpu-detection";
    let text = |test: &str| format!("if {test}; then\n  echo AMD\nfi\n");
    for wrong in ["lspci | grep -i 'vga.*amd' > /dev/null", "lspci | grep -qi \"VGA.*AMD\""] {
        expect(rule, NONE, &[("a.sh", &text(wrong), &["1 warning"])]);
    }
    for right in [
        "lspci | grep -iE 'vga|display controller|3d' | grep -i amd",
        "lspci -d 1002:: | grep -q .",
        "lspci | grep -i 'vga.*nvidia'",
    ] {
        expect(rule, NONE, &[("a.sh", &text(right), &[])]);
    }
}
