//! Classes of mistakes that reviewers of 60 unseen files named on 2026-11-30, each with similar files
//! without the mistake.

use lint::{Context, Exists};

use super::{NONE, expect};
use crate::findings_in;

#[test]
fn a_terminal_is_missing_only_where_none_can_be() {
    let unit = |command: &str| format!("[Unit]\nDescription=a\n[Service]\nExecStart={command}\n");
    let job = |command: &str| {
        format!(
            "on: push\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    steps:\n      - run: {command}\n"
        )
    };
    let image = "docker.io/a/b@sha256:1";
    let cases = [
        ("a.service", unit(&format!("/usr/bin/docker run --rm -it {image}")), &["4 error"][..]),
        ("a.service", unit("/usr/bin/docker exec -ti a ollama serve"), &["4 error"]),
        ("a.service", unit(&format!("/usr/bin/docker run --rm -i {image}")), &[]),
        ("a.service", unit(&format!("/usr/bin/docker run -d -it {image}")), &[]),
        ("a.service", unit(&format!("/usr/bin/podman run --rm -it {image}")), &[]),
        (
            "a.service",
            format!("{}TTYPath=/dev/tty8\n", unit(&format!("/usr/bin/docker run -it {image}"))),
            &[],
        ),
        (
            ".github/workflows/a.yml",
            job(&format!("docker run -it {image} make test")),
            &["6 error"],
        ),
        (".github/workflows/a.yml", job(&format!("docker run -t {image} make test")), &[]),
        ("run.sh", format!("#!/bin/sh\ndocker run -it {image}\n"), &[]),
    ];
    for (file, text, expected) in &cases {
        expect("terminal-missing", NONE, &[(file, text, expected)]);
    }
}

#[test]
fn conda_asks_only_for_channels_of_anaconda() {
    let image = |lines: &str| {
        format!(
            "FROM docker.io/a/b@sha256:1\nADD https://repo.anaconda.com/miniconda/Miniconda3-latest-Linux-x86_64.sh /m.sh\n{lines}\n"
        )
    };
    let cases = [
        (image("RUN conda install -y -c conda-forge git"), &["3 warning"][..]),
        (image("RUN /opt/conda/bin/conda env create -f a.yml"), &["3 warning"]),
        (image("RUN conda install -y --override-channels -c conda-forge git"), &[]),
        (image("RUN conda tos accept\nRUN conda install -y git"), &[]),
        (image("ENV CONDA_PLUGINS_AUTO_ACCEPT_TOS=yes\nRUN conda install -y git"), &[]),
        (image("RUN conda clean -ya"), &[]),
        (
            "FROM docker.io/condaforge/miniforge3@sha256:1\nRUN conda install -y git\n".to_owned(),
            &[],
        ),
        (
            "FROM docker.io/continuumio/miniconda3:4.12.0@sha256:1\nRUN conda install -y git\n"
                .to_owned(),
            &[],
        ),
    ];
    for (text, expected) in &cases {
        expect("conda-terms", NONE, &[("Dockerfile", text, expected)]);
    }
}

#[test]
fn options_are_gone_only_from_newer_programs() {
    let add = "sudo dnf config-manager --add-repo https://h.example/a.repo\n";
    let cases = [
        (format!("# Fedora 42\nID=fedora\n{add}"), &["3 warning"][..]),
        (format!("ID=fedora\n{}", add.replace("--add-repo", "addrepo --from-repofile=")), &[]),
        (format!("# RHEL\nID=rhel\n{add}"), &[]),
        (format!("case $ID in fedora|centos) {add};; esac\n"), &[]),
        (format!("FROM=fedora:40\n{add}"), &[]),
        ("vllm serve a/b --device=rocm\n".to_owned(), &["1 warning"]),
        (
            "python3 -m vllm.entrypoints.openai.api_server --device auto\n".to_owned(),
            &["1 warning"],
        ),
        ("docker run -v ~/vllm:/a --device /dev/kfd vllm/vllm-openai-rocm\n".to_owned(), &[]),
        ("pip install vllm==0.6.3\nvllm serve a/b --device cuda\n".to_owned(), &[]),
        ("vllm serve a/b --device-id 0\n".to_owned(), &[]),
    ];
    for (text, expected) in &cases {
        expect("option-gone", NONE, &[("a.sh", text, expected)]);
    }
}

#[test]
fn fast_math_breaks_only_ggml() {
    let cases = [
        (
            "git clone https://h.example/llama.cpp\ncmake -DCMAKE_C_FLAGS=-Ofast .\n",
            &["2 error"][..],
        ),
        ("cd whisper.cpp\nCFLAGS=\"-ffast-math -fno-finite-math-only\" make\n", &[]),
        ("cd llama.cpp\ncmake -DGGML_HIP=ON -DCMAKE_CXX_FLAGS=-O3 .\n", &[]),
        ("cd composable_kernel\ncmake -DCMAKE_CXX_FLAGS=-ffast-math .\n", &[]),
        ("cd llama.cpp\necho 'never use -ffast-math'\n", &[]),
    ];
    for (text, expected) in cases {
        expect("fast-math", NONE, &[("a.sh", text, expected)]);
    }
}

/// A folder with a Dockerfile that copies `serve.sh`.
#[derive(Debug)]
struct Image;

impl Exists for Image {
    fn exists(&self, _: &str, path: &str) -> Option<bool> {
        Some(path == "Dockerfile")
    }

    fn text(&self, _: &str, path: &str) -> Option<String> {
        (path == "Dockerfile").then(|| "FROM a\nCOPY serve.sh /\n".to_owned())
    }
}

#[test]
fn a_server_of_a_machine_is_open_without_a_key() {
    let serve = |options: &str| format!("#!/bin/bash\nllama-server -m a.gguf {options}\n");
    let open = &["2 information"][..];
    let cases = [
        (serve("--host 0.0.0.0"), open),
        (serve("--host=0.0.0.0"), open),
        (serve("--host :: --port 8080"), open),
        ("#!/bin/bash\n./bin/sd-server --listen-ip 0.0.0.0 -m a\n".to_owned(), open),
        ("#!/bin/bash\nexec vllm serve a/b --host 0.0.0.0\n".to_owned(), open),
        ("#!/bin/bash\npython3 -m sglang.launch_server --host 0.0.0.0\n".to_owned(), open),
        (serve("--host 127.0.0.1"), &[]),
        (serve("--host 0.0.0.0 --api-key \"$KEY\""), &[]),
        (serve(""), &[]),
        ("#!/bin/bash\necho \"llama-server --host 0.0.0.0\"\n".to_owned(), &[]),
        (format!("{}docker ps\n", serve("--host 0.0.0.0")), &[]),
        (format!("#SBATCH --gres=gpu\n{}srun true\n", serve("--host 0.0.0.0")), &[]),
    ];
    for (text, expected) in &cases {
        expect("service-open", NONE, &[("serve.sh", text, expected)]);
    }
    let text = serve("--host 0.0.0.0");
    expect("service-open", NONE, &[("docker/serve.sh", &text, &[]), ("entrypoint.sh", &text, &[])]);
    let context = Context { exists: Some(&Image), ..Context::default() };
    let found = findings_in("serve.sh", &text, context);
    assert!(found.iter().all(|one| one.rule.id != "service-open"), "{found:?}");
}

#[test]
fn an_archive_stays_in_the_layer_that_contains_it() {
    let image = |lines: &str| format!("FROM docker.io/a/b@sha256:1\n{lines}\n");
    let get = "RUN curl -fO https://h.example/torch-2%2Brocm-cp312-linux_x86_64.whl";
    let name = "torch-2+rocm-cp312-linux_x86_64.whl";
    let later = &["3 information"][..];
    let cases = [
        (image(&format!("{get}\nRUN pip install {name} && rm {name}")), later),
        (image(&format!("{get}\nRUN rm -f {name}")), later),
        (image("COPY a.tar.gz /tmp/\nRUN tar -xf /tmp/a.tar.gz && rm /tmp/a.tar.gz"), later),
        (image(&format!("{get} && pip install {name} && rm {name}")), &[]),
        (image(&format!("{get}\nRUN rm -f other.whl")), &[]),
        (image("COPY requirements.txt /tmp/\nRUN rm /tmp/requirements.txt"), &[]),
        (
            image("COPY wheels/ /tmp/wheels/\nRUN pip install /tmp/wheels/* && rm -rf /tmp/wheels"),
            later,
        ),
        (image("COPY a.tgz /\nRUN tar -C /usr -xzf /a.tgz"), later),
        (image("ADD a.tgz /\nRUN tar -tf /b.tgz"), &[]),
        (image("RUN --mount=type=bind,source=a.tgz,target=/a.tgz \\\n tar -xzf /a.tgz"), &[]),
        (image("COPY wheels/ /opt/wheels/\nRUN pip install --no-index -f /opt/wheels a"), &[]),
        (
            format!(
                "FROM docker.io/a/b@sha256:1 AS build\n{get}\nRUN rm {name}\nFROM docker.io/c/d@sha256:1\nCOPY --from=build /a /a\n"
            ),
            &[],
        ),
    ];
    for (text, expected) in &cases {
        expect("removed-later", NONE, &[("Dockerfile", text, expected)]);
    }
    let text = image("COPY wheels/ /opt/wheels/\nRUN rm -r /opt/wheels");
    let found = findings_in("Dockerfile", &text, Context::default());
    let message = "`/opt/wheels` stays in an earlier layer of the image";
    assert!(found.iter().any(|one| one.message == message), "{found:?}");
}

#[test]
fn a_container_that_selects_a_gpu_gets_one() {
    let service = |lines: &str| {
        format!(
            "services:\n  a:\n    image: docker.io/a/b@sha256:1\n    environment:\n      - CUDA_VISIBLE_DEVICES=0\n{lines}"
        )
    };
    let cases = [
        (service(""), &["5 information"][..]),
        (service("    gpus: all\n"), &[]),
        (service("    runtime: nvidia\n"), &[]),
        (service("    devices: [/dev/kfd, /dev/dri]\n"), &[]),
        (service("").replace("=0", "=-1"), &[]),
        (service("").replace("=0", "="), &[]),
    ];
    for (text, expected) in &cases {
        expect("variable-without-effect", NONE, &[("compose.yml", text, expected)]);
    }
}

#[test]
fn presets_in_the_own_repository_are_of_its_release() {
    let copy = "FROM docker.io/a/b@sha256:1\nCOPY external/ollama/ollama/CMakePresets.json ./\nRUN cmake --preset 'ROCm 7'\n";
    expect("build-option-gone", NONE, &[("Dockerfile", copy, &[])]);
    let clone = "FROM docker.io/a/b@sha256:1\nRUN git clone https://github.com/ollama/ollama\nRUN cmake --preset 'ROCm 7'\n";
    expect("build-option-gone", NONE, &[("Dockerfile", clone, &["3 warning"])]);
}

#[test]
fn extensions_can_be_installed_only_by_those_who_reach_the_page() {
    let service = |options: &str| {
        format!("services:\n  a:\n    image: docker.io/a/b@sha256:1\n    command: {options}\n")
    };
    let cases = [
        (service("--api --enable-insecure-extension-access"), &["4 information"][..]),
        (service("--listen --enable-insecure-extension-access"), &["4 information"]),
        (service("--enable-insecure-extension-access --gradio-auth a:b"), &[]),
        (service("--api"), &[]),
    ];
    for (text, expected) in &cases {
        expect("service-open", NONE, &[("compose.yml", text, expected)]);
    }
}

#[test]
fn models_that_python_downloads_have_a_revision() {
    let image = |code: &str| format!("FROM docker.io/a/b@sha256:1\nRUN python3 -c \"{code}\"\n");
    let cases = [
        (image("from a import M; M.from_pretrained('a/b')"), &["2 information"][..]),
        (image("from a import M; M.from_pretrained('a/b', revision='0123')"), &[]),
        (image("from a import M; M.from_pretrained('/m', local_files_only=True)"), &[]),
        (image("import torch; print(torch.__version__)"), &[]),
    ];
    for (text, expected) in &cases {
        expect("model-unpinned", NONE, &[("Dockerfile", text, expected)]);
    }
    let get = "import urllib.request as u; u.urlopen('http://localhost:8188/')";
    expect("download-unchecked", NONE, &[("Dockerfile", &image(get), &[])]);
}

#[test]
fn cupy_is_compiled_for_the_gpu_that_it_is_told() {
    let image = |lines: &str| format!("FROM docker.io/rocm/pytorch@sha256:1\n{lines}\n");
    let cases = [
        (image("RUN pip install cupy"), &["2 warning"][..]),
        (image("RUN CUPY_INSTALL_USE_HIP=1 pip install cupy"), &[]),
        (image("RUN pip install cupy-rocm-7-0"), &[]),
        ("FROM docker.io/nvidia/cuda@sha256:1\nRUN pip install cupy\n".to_owned(), &[]),
    ];
    for (text, expected) in &cases {
        expect("cuda-package", NONE, &[("Dockerfile", text, expected)]);
    }
}

#[test]
fn a_repeated_value_is_reported_once() {
    let global = "FROM docker.io/a/b@sha256:1\nRUN echo A=1 >> /etc/environment && \\\n echo B=2 >> /etc/environment\n";
    expect(
        "variable-without-effect",
        NONE,
        &[("Dockerfile", global, &["2 information", "3 information"])],
    );
    let own =
        "# gfx1030\nexport HSA_OVERRIDE_GFX_VERSION=10.3.0\nHSA_OVERRIDE_GFX_VERSION=10.3.0 ./a\n";
    expect("hsa-override-identity", NONE, &[("a.sh", own, &["2 information", "3 information"])]);
    let held = "#!/bin/bash\nO=\"--device /dev/kfd --device /dev/dri --security-opt apparmor=unconfined\"\ndocker run $O docker.io/a/b@sha256:1\n";
    expect("container-unconfined", NONE, &[("a.sh", held, &["2 information"])]);
}

#[test]
fn a_virtual_environment_alone_is_reported_once() {
    let text = "FROM docker.io/a/b@sha256:1\nRUN source venv/bin/activate\nRUN source ./env.sh\n";
    expect("shell-state-lost", NONE, &[("Dockerfile", text, &["2 warning", "3 warning"])]);
}

#[test]
fn exports_are_lost_only_if_nothing_uses_them() {
    let image = |run: &str| format!("FROM docker.io/a/b@sha256:1\nRUN {run}\n");
    let cases = [
        (image("export A=1 && export B=2"), &["2 warning"][..]),
        (image("export A=1 && make"), &[]),
        (image("export A=1 && echo $A > /a"), &[]),
        (image("echo 'export A=1' >> /etc/profile && true"), &[]),
    ];
    for (text, expected) in &cases {
        expect("shell-state-lost", NONE, &[("Dockerfile", text, expected)]);
    }
}

#[test]
fn packages_with_the_names_of_modules_exist_elsewhere() {
    let wrong = &["1 error"][..];
    let cases = [
        ("requirements.txt", "cv2\n", wrong),
        ("requirements.txt", "PIL>=9\n", wrong),
        ("a.sh", "pip3 install yaml\n", wrong),
        ("requirements.txt", "opencv-python\nscikit-learn\nPyYAML\nfaiss-cpu\n", &[]),
        ("requirements.txt", "--index-url https://h.example/simple\nfaiss\n", &[]),
        ("a.sh", "conda install -y faiss\n", &[]),
        (
            "a.sh",
            "SKLEARN_ALLOW_DEPRECATED_SKLEARN_PACKAGE_INSTALL=True pip install sklearn\n",
            &[],
        ),
        ("a.sh", "python -c 'import cv2'\n", &[]),
    ];
    for (file, text, expected) in cases {
        expect("package-misnamed", NONE, &[(file, text, expected)]);
    }
}

#[test]
fn an_installation_may_fail_only_if_the_script_says_so() {
    let cases = [
        ("pip install a==1 || true\n", &["1 information"][..]),
        ("grep -v torch r.txt | pip install -r /dev/stdin || true\n", &["1 information"]),
        ("pip uninstall -y a || true\n", &[]),
        ("pip install --upgrade pip || true\n", &[]),
        ("pip install a==1 || exit 1\n", &[]),
        ("echo 'pip install a || true'\n", &[]),
    ];
    for (text, expected) in cases {
        expect("build-status-lost", NONE, &[("a.sh", text, expected)]);
    }
}

#[test]
fn variables_of_a_shell_are_empty_in_the_builder() {
    let image = |lines: &str| format!("FROM docker.io/library/ubuntu:24.04@sha256:1\n{lines}\n");
    let cases = [
        (image("ENV PATH=${HOME}/bin:$PATH"), &["2 information"][..]),
        (image("WORKDIR $HOME/app"), &["2 information"]),
        (image("ENV A=1 \\\n P=$PWD/lib"), &["2 warning"]),
        (image("ENV PATH=$HOME/bin:$PATH\nENV B=$HOME/b"), &["2 information"]),
        (image("ENV HOME=/root\nENV PATH=$HOME/bin:$PATH"), &[]),
        (image("ARG USER=a\nWORKDIR /home/$USER"), &[]),
        (image("ENV P=${HOME:-/root}/bin H=$HOMEDIR"), &[]),
        (image("ENV P='$HOME/bin' Q=\\$HOME"), &[]),
        (image("RUN echo $HOME"), &[]),
        ("FROM docker.io/a/b@sha256:1\nENV PATH=$HOME/bin:$PATH\n".to_owned(), &[]),
    ];
    for (text, expected) in &cases {
        expect("builder-variable", NONE, &[("Dockerfile", text, expected)]);
    }
}
