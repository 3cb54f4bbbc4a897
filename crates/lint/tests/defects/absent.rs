//! Things that a build does without: package lists, a GPU, an address, code for the GPU, the number in
//! the name of an installer; and tokens in arguments.

use super::together::{self, Texts};
use super::{NONE, expect};

#[test]
fn a_build_does_not_know_how_old_the_lists_of_its_base_are() {
    let install = "RUN apt-get install -y curl\n";
    for (text, expected) in [
        (format!("FROM docker.io/rocm/pytorch:a@sha256:1\n{install}"), &["2 warning"][..]),
        (format!("FROM a/b:1\n{install}{install}"), &["2 warning"]),
        (format!("FROM a/b:1 AS one\nFROM one\n{install}"), &["3 warning"]),
        (format!("FROM a/b:1\nRUN apt-get update && apt-get install -y a\n{install}"), &[]),
        // An own image, or one that the caller chooses.
        (format!("FROM base\n{install}"), &[]),
        (format!("FROM localhost/base\n{install}"), &[]),
        (format!("ARG BASE=a/b:1\nFROM ${{BASE}}\n{install}"), &[]),
        // A script may fetch the lists.
        (format!("FROM a/b:1\nCOPY a.sh /\nRUN /a.sh\n{install}"), &[]),
        ("FROM a/b:1\nRUN <<E\napt-get update\napt-get install -y a\nE\n".to_owned(), &[]),
        ("FROM a/b:1\nRUN apt-get install -y ./a.deb\n".to_owned(), &[]),
        ("FROM a/b:1\nRUN apt-get install --only-upgrade a\n".to_owned(), &[]),
    ] {
        expect("package-lists-missing", NONE, &[("Dockerfile", &text, expected)]);
    }
}

const SCRIPTS: Texts = &[
    ("torch.sh", "#!/bin/sh\nset -e\nif rocminfo | grep -q gfx; then\n  pip install a\nfi\n"),
    ("version.sh", "#!/bin/sh\nset -e\nrocminfo --version\npip install a\n"),
    ("device.sh", "#!/bin/sh\nset -e\nif [ -e /dev/kfd ]; then\n  rocminfo | grep gfx\nfi\n"),
    ("list.sh", "#!/bin/sh\nset -e\nlist=(\n  clinfo lspci\n  rocminfo\n)\nrocminfo\n"),
    ("said.sh", "#!/bin/sh\nset -e\necho 'check it with rocminfo'\n# rocminfo\n"),
];

#[test]
fn a_script_of_a_build_finds_no_gpu() {
    let says =
        |line: usize| format!("{line} `torch.sh` calls `rocminfo`, and the build has no GPU");
    for (steps, lines) in [
        ("COPY torch.sh /\nRUN bash /torch.sh\n", &[3][..]),
        ("COPY . /src/\nWORKDIR /src\nRUN ./torch.sh\n", &[4]),
        ("COPY torch.sh /\nRUN chmod +x /torch.sh\nCMD [\"/torch.sh\"]\n", &[]),
        ("# podman build --device /dev/kfd .\nCOPY torch.sh /\nRUN /torch.sh\n", &[]),
        ("COPY version.sh /\nRUN /version.sh\n", &[]),
        ("COPY device.sh /\nRUN /device.sh\n", &[]),
        ("COPY list.sh /\nRUN /list.sh\n", &[]),
        ("COPY said.sh /\nRUN /said.sh\n", &[]),
    ] {
        let text = format!("FROM docker.io/a/b@sha256:1\n{steps}");
        let expected: Vec<String> = lines.iter().map(|line| says(*line)).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        together::expect("gpu-during-build", SCRIPTS, "Dockerfile", &text, &expected);
    }
}

#[test]
fn a_build_gets_no_address_from_its_base() {
    for (run, expected) in [
        ("RUN wget -O a.gguf ${LLM_URL}\n", &["2 warning"][..]),
        ("RUN curl -fLo a \"$MODEL_URL\"\n", &["2 warning"]),
        ("RUN git clone $REPO_URL /src\n", &["2 warning"]),
        ("ARG LLM_URL\nRUN wget ${LLM_URL}\n", &[]),
        ("ENV LLM_URL=https://a.example/b\nRUN wget ${LLM_URL}\n", &[]),
        ("RUN LLM_URL=$(cat /url) && wget $LLM_URL\n", &[]),
        ("RUN for LLM_URL in a b; do wget $LLM_URL; done\n", &[]),
        ("RUN read -r LLM_URL < /url && wget $LLM_URL\n", &[]),
        ("RUN wget ${LLM_URL:-https://a.example/b}\n", &[]),
        // A base image can set a part of an address.
        ("RUN wget $BASE_URL/a\n", &[]),
        ("RUN . /env && wget $LLM_URL\n", &[]),
        ("RUN echo $LLM_URL\n", &[]),
    ] {
        let text = format!("FROM docker.io/rocm/rocm-terminal@sha256:1\n{run}");
        expect("undefined-pin", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn onnxruntime_of_the_default_index_is_for_the_cpu() {
    let rocm = "FROM docker.io/rocm/pytorch@sha256:1\n";
    for (base, run, expected) in [
        (rocm, "pip install onnxruntime==1.22.0", &["2 information"][..]),
        (rocm, "pip3 install numba onnxruntime", &["2 information"]),
        (rocm, "pip install onnxruntime-rocm", &[]),
        (rocm, "pip install onnxruntime -f https://repo.radeon.com/rocm/a/", &[]),
        (rocm, "pip install onnxruntime-genai", &[]),
        (rocm, "pip uninstall -y onnxruntime", &[]),
        (rocm, "pip install onnxruntime && echo CPUExecutionProvider", &[]),
        ("FROM docker.io/library/python:3.12@sha256:1\n", "pip install onnxruntime", &[]),
    ] {
        let text = format!("{base}RUN {run}\n");
        expect("cpu-package", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn the_name_of_an_installer_contains_a_number() {
    let url = "https://repo.radeon.com/amdgpu-install/7.1/ubuntu/noble/amdgpu-install";
    for (name, expected) in [
        ("_7.1-1_all.deb", &["1 error"][..]),
        ("_7.1.0-1_all.deb", &["1 error"]),
        ("-7.1-1.el9.noarch.rpm", &["1 error"]),
        ("_7.1.70100-1_all.deb", &[]),
        ("_${VERSION}-1_all.deb", &[]),
        ("_7.1*_all.deb", &[]),
        ("_$NUMBER.deb", &[]),
    ] {
        expect("rocm-package-gone", NONE, &[("a.sh", &format!("wget {url}{name}\n"), expected)]);
    }
    let own = "wget https://a.example/amdgpu-install_7.1-1_all.deb\n";
    expect("rocm-package-gone", NONE, &[("a.sh", own, &[])]);
}

#[test]
fn a_token_is_passed_by_its_name() {
    for (line, expected) in [
        ("docker run -e HF_TOKEN=$HF_TOKEN localhost/a", &["1 information"][..]),
        ("podman run --env \"HUGGING_FACE_HUB_TOKEN=${HF_TOKEN}\" localhost/a", &["1 information"]),
        ("llama-server --hf-token \"$HF_TOKEN\" -hf a/b", &["1 information"]),
        ("docker run -e HF_TOKEN localhost/a", &[]),
        ("docker run --env-file .env localhost/a", &[]),
        ("docker run -e HF_HOME=$HF_HOME localhost/a", &[]),
        ("HF_TOKEN=$TOKEN llama-server -hf a/b", &[]),
        ("export HF_TOKEN=$TOKEN", &[]),
        // It ends at once.
        ("hf auth login --token $HF_TOKEN", &[]),
        ("echo \"docker run -e HF_TOKEN=$HF_TOKEN localhost/a\"", &[]),
        ("# docker run -e HF_TOKEN=$HF_TOKEN localhost/a", &[]),
    ] {
        expect("token-in-arguments", NONE, &[("a.sh", &format!("{line}\n"), expected)]);
    }
    let text = "docker run -e HF_TOKEN=$HF_TOKEN localhost/a\n";
    expect("token-in-arguments", NONE, &[("tests/a.sh", text, &[])]);
}

const IMAGES: Texts = &[
    ("Dockerfile", "FROM a/b:1\nRUN cmake -B build -DGGML_HIP=ON -DGPU_TARGETS=gfx1103\n"),
    ("both.Dockerfile", "FROM a/b:1\nRUN cmake -B b -DGPU_TARGETS='gfx1102;gfx1103'\n"),
    ("family.Dockerfile", "FROM a/b:1\nRUN cmake -B b -DGPU_TARGETS=gfx110X\n"),
    ("choice.Dockerfile", "FROM a/b:1\nARG GPU_TARGETS\nRUN cmake -B b -DGPU_TARGETS=gfx1103\n"),
    ("torch.Dockerfile", "FROM a/b:1\nRUN pip install torch && cmake -B b -DGPU_TARGETS=gfx1103\n"),
    ("none.Dockerfile", "FROM a/b:1\nENV PYTORCH_ROCM_ARCH=gfx1103\nRUN pip install a\n"),
];

#[test]
fn a_service_runs_what_its_image_contains() {
    for (file, value, is_wrong) in [
        ("Dockerfile", "11.0.2", true),
        ("Dockerfile", "11.0.3", false),
        ("both.Dockerfile", "11.0.2", false),
        ("family.Dockerfile", "11.0.2", false),
        ("choice.Dockerfile", "11.0.2", false),
        ("torch.Dockerfile", "11.0.2", false),
        ("none.Dockerfile", "11.0.2", false),
    ] {
        let text = format!(
            "# gfx1103\nservices:\n  a:\n    build: {{ context: ., dockerfile: {file} }}\n    environment:\n      - HSA_OVERRIDE_GFX_VERSION={value}\n"
        );
        let message = format!(
            "6 `HSA_OVERRIDE_GFX_VERSION={value}` selects code for gfx1102, but `{file}` compiles only for gfx1103"
        );
        let expected: &[&str] = if is_wrong { &[&message] } else { &[] };
        together::expect("hsa-override-other", IMAGES, "compose.yml", &text, expected);
    }
}
