//! Defects that a person found in 66 previously unseen files from 31 repositories on 2026-11-26. The
//! problems of these files were labelled before the first run of `lint`.

use lint::{Context, Exists};

use super::{Gpus, NONE, PROJECT, expect, of};
use crate::findings_in;

/// A folder with one compose file.
#[derive(Debug)]
struct Beside(String);

impl Exists for Beside {
    fn compose_files(&self, _: &str) -> Vec<String> {
        vec![self.0.clone()]
    }
}

#[test]
fn a_compose_file_may_use_a_variable_itself() {
    let compose = |lines: &str| format!("services:\n  a:\n    build: .\n{lines}");
    let backend = "${VLLM_ATTENTION_BACKEND}";
    for (lines, expected) in [
        (format!("    command: [serve, --attention-backend, \"{backend}\"]\n"), 0),
        (format!("    environment:\n      VLLM_ATTENTION_BACKEND: {backend}\n"), 1),
        (format!("    command: {backend}\n    env_file: .env\n"), 1),
        (format!("    command: {backend}\n    environment:\n      - VLLM_ATTENTION_BACKEND\n"), 1),
        (String::new(), 1),
    ] {
        let beside = Beside(compose(&lines));
        let context = Context { exists: Some(&beside), ..Context::default() };
        let found = findings_in(".env", "VLLM_ATTENTION_BACKEND=TRITON_ATTN\n", context);
        let count = found.iter().filter(|one| one.rule.id == "variable-without-effect").count();
        assert_eq!(count, expected, "{lines}");
    }
}

#[test]
fn a_compose_file_may_have_a_default_for_an_empty_override() {
    for (value, expected) in [("${HSA_OVERRIDE_GFX_VERSION:-11.0.0}", 0), ("11.0.0", 1)] {
        let text = format!(
            "services:\n  a:\n    build: .\n    environment:\n      HSA_OVERRIDE_GFX_VERSION: {value}\n"
        );
        let beside = Beside(text);
        let context = Context { exists: Some(&beside), ..Context::default() };
        let found = findings_in(".env", "HSA_OVERRIDE_GFX_VERSION=\n", context);
        let count = found.iter().filter(|one| one.rule.id == "hsa-override-empty").count();
        assert_eq!(count, expected, "{value}");
    }
}

#[test]
fn an_override_is_the_own_version_only_of_all_named_gpus() {
    let text = |targets: &str| format!("# for {targets}\nHSA_OVERRIDE_GFX_VERSION=10.3.0\n");
    let (several, one) = (text("gfx1030,gfx1031,gfx1100"), text("gfx1030"));
    let cases: &[(&str, &str, &[&str])] =
        &[("a.env", &several, &[]), ("a.env", &one, &["2 information"])];
    expect("hsa-override-identity", NONE, cases);
}

#[test]
fn the_file_of_combined_letters_is_no_package() {
    let base = "FROM docker.io/a/b@sha256:1\n";
    let list = format!("{base}RUN pip install -Ur requirements.txt\n");
    let package = format!("{base}RUN pip install -Uq requests\n");
    let cases: &[(&str, &str, &[&str])] =
        &[("Dockerfile", &list, &[]), ("Dockerfile", &package, &["2 information"])];
    expect("index-unpinned", NONE, cases);
}

#[test]
fn a_variable_that_a_script_uses_itself_is_known() {
    let cases: &[(&str, &str, &[&str])] = &[
        (
            "a.sh",
            "export ROCM_VISIBLE_DEVICES=0\nexport HIP_VISIBLE_DEVICES=${ROCM_VISIBLE_DEVICES}\n",
            &[],
        ),
        ("a.sh", "export ROCM_VISIBLE_DEVICES=${ROCM_VISIBLE_DEVICES:-0}\n", &["1 warning"]),
        ("a.sh", "export MIOPEN_FIND_MODE=2\nexport MIOpen_ROOT=/opt/rocm\n", &[]),
    ];
    expect("variable-unknown", NONE, cases);
}

#[test]
fn a_comment_gives_the_reason_for_a_workaround() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", "export HSA_ENABLE_SDMA=0 # avoids hangs with kernel 6.11\n", &[]),
        ("a.sh", "export HSA_ENABLE_SDMA=0\n", &["1 information"]),
        ("a.sh", "export HSA_ENABLE_SDMA=0 # SDMA off\n", &["1 information"]),
    ];
    expect("workaround-baked", NONE, cases);
}

#[test]
fn a_guarded_edit_of_the_list_is_fine() {
    let sed = "sed -i 's/gfx1100/gfx1100;gfx1151/' vllm/CMakeLists.txt";
    let guarded = format!("if ! grep -q gfx1151 vllm/CMakeLists.txt; then\n  {sed}\nfi\n");
    let plain = format!("{sed}\ngrep gfx1151 vllm/CMakeLists.txt\n");
    let cases: &[(&str, &str, &[&str])] =
        &[("a.sh", &guarded, &[]), ("a.sh", &plain, &["1 warning"])];
    expect("vllm-allowlist-sed", NONE, cases);
}

#[test]
fn every_setting_of_a_container_is_reported() {
    let text = "docker run --device /dev/kfd --device /dev/dri \\\n  --cap-add SYS_PTRACE \\\n  --security-opt seccomp=unconfined localhost/a\n";
    expect("container-unconfined", NONE, &[("a.sh", text, &["2 information", "3 information"])]);
}

#[test]
fn capabilities_are_judged_by_what_they_allow() {
    let run = |option: &str| format!("docker run --device /dev/kfd {option} localhost/a\n");
    for (option, expected) in [
        ("--cap-add=ALL", &["1 warning"][..]),
        ("--cap-add CAP_SYS_ADMIN", &["1 warning"]),
        ("--device=/dev/mem", &["1 warning"]),
        ("--cap-drop=ALL", &[]),
        ("--cap-add=IPC_LOCK", &[]),
        ("--privileged --cap-add=ALL", &[]),
    ] {
        expect("container-host-access", NONE, &[("a.sh", &run(option), expected)]);
    }
    expect(
        "container-host-access",
        NONE,
        &[("a.sh", "docker run --cap-add=ALL localhost/a\n", &[])],
    );
}

#[test]
fn a_named_group_gives_a_rootless_container_nothing() {
    let run =
        |start: &str, groups: &str| format!("{start} run --device /dev/kfd {groups} localhost/a\n");
    for (start, groups, expected) in [
        ("podman", "--group-add video --group-add render", &["1 information"][..]),
        ("podman", "--group-add keep-groups", &[]),
        ("sudo podman", "--group-add video", &[]),
        ("docker", "--group-add video", &[]),
        ("podman", "", &[]),
    ] {
        expect("rootless-groups", NONE, &[("a.sh", &run(start, groups), expected)]);
    }
    let root = format!("[ \"$EUID\" -eq 0 ] || exit 1\n{}", run("podman", "--group-add video"));
    expect("rootless-groups", NONE, &[("a.sh", &root, &[])]);
}

#[test]
fn a_port_must_lead_to_one_on_which_ollama_listens() {
    let service = |lines: &str| {
        format!("services:\n  a:\n    image: docker.io/ollama/ollama:rocm@sha256:1\n{lines}")
    };
    for (lines, expected) in [
        ("    ports: [\"8000:8000\"]\n", &["4 error"][..]),
        ("    ports: [\"127.0.0.1:8000:8000/tcp\"]\n", &["4 error"]),
        ("    ports: [\"8000:11434\"]\n", &[]),
        ("    ports: [\"8000:11434/tcp\", \"8001:8001\"]\n", &[]),
        ("    ports: [\"8000:${PORT}\"]\n", &[]),
        ("    ports:\n      - target: 8000\n        published: 8000\n", &[]),
        ("    ports: [\"8000:8000\"]\n    environment: [OLLAMA_HOST=0.0.0.0:8000]\n", &[]),
        ("    ports: [\"8000:8000\"]\n    env_file: a.env\n", &[]),
    ] {
        expect("port-unused", NONE, &[("compose.yml", &service(lines), expected)]);
    }
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", "docker run -p 8000:8000 docker.io/ollama/ollama@sha256:1\n", &["1 error"]),
        (
            "a.sh",
            "docker run -p 8000:8000 -e OLLAMA_HOST=:8000 docker.io/ollama/ollama@sha256:1\n",
            &[],
        ),
        ("a.sh", "docker run -p 8000:8000 docker.io/a/ollama-ui@sha256:1\n", &[]),
        (
            "a.container",
            "[Container]\nImage=docker.io/ollama/ollama:rocm\nPublishPort=8000:8000\nEnvironment=A=1 OLLAMA_HOST=:8000\n",
            &[],
        ),
    ];
    expect("port-unused", NONE, cases);
}

#[test]
fn ports_are_published_only_without_the_hosts_network() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", "docker run --net=host -p 80:80 localhost/a\n", &["1 warning"]),
        ("a.sh", "docker run --network bridge -p 80:80 localhost/a\n", &[]),
        ("a.sh", "docker run --network host --pid host localhost/a\n", &[]),
        (
            "a.container",
            "[Container]\nImage=localhost/a\nNetwork=host\nPublishPort=80:80\n",
            &["4 warning"],
        ),
    ];
    expect("port-ignored", NONE, cases);
}

#[test]
fn the_name_of_a_program_has_no_spaces() {
    for (instruction, expected) in [
        ("ENTRYPOINT [\"python3 main.py\"]", &["2 error"][..]),
        ("ENTRYPOINT [\"python3\", \"main.py\"]", &[]),
        ("ENTRYPOINT [ \"/start.sh\" ]", &[]),
        ("ENTRYPOINT [\"sh\", \"-c\", \"exec main\"]", &[]),
        ("ENTRYPOINT python3 main.py", &[]),
        // The shell of the base may start it.
        ("CMD [\"python3 main.py\"]", &[]),
    ] {
        let text = format!("FROM docker.io/a/b@sha256:1\n{instruction}\n");
        expect("program-with-spaces", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn quotes_protect_a_version_from_the_shell() {
    for (command, expected) in [
        ("pip install transformers>=4.37.2 tqdm", &["1 warning"][..]),
        ("pip3 install -U numpy<2", &["1 warning"]),
        ("pip install a[b]>=1.0", &["1 warning"]),
        ("pip install 'transformers>=4.37.2'", &[]),
        ("pip install \"numpy<2\"", &[]),
        ("pip install transformers\\>=4.37.2", &[]),
        ("pip install torch==2.9.1 > pip.log 2>&1", &[]),
        ("pip install torch 2>/dev/null", &[]),
        ("echo \"pip install a>=1\"", &[]),
        ("# pip install a>=1", &[]),
        ("pip install torch | tee a.log && b>=1", &[]),
    ] {
        expect("version-redirected", NONE, &[("a.sh", &format!("{command}\n"), expected)]);
    }
    expect("version-redirected", NONE, &[("requirements.txt", "transformers>=4.37.2\n", &[])]);
}

#[test]
fn a_dot_precedes_the_star_of_a_version() {
    for (command, expected) in [
        ("pip install 'torch==2.9.1*'", &["1 warning"][..]),
        ("pip install torch==2.9.*", &[]),
        ("pip install torch==2.9.1.* dist/*", &[]),
        ("conda install pytorch==2.9*", &[]),
    ] {
        expect("version-form", NONE, &[("a.sh", &format!("{command}\n"), expected)]);
    }
}

#[test]
fn a_pattern_with_the_quote_matches() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", "sed -i '/torch == 2.8.0,/d' pyproject.toml || true\n", &["1 warning"]),
        ("a.sh", "sed -i '/torch == 2.8.0/d' pyproject.toml\n", &[]),
        ("a.sh", "sed -i '/\"torch == 2.8.0\",/d' pyproject.toml\n", &[]),
    ];
    expect("sed-without-match", NONE, cases);
}

#[test]
fn an_image_for_several_generations_has_no_right_override() {
    let start = "FROM docker.io/a/b@sha256:1\n";
    for (text, expected) in [
        (format!("{start}# RX 6600 or RX 7600\nENV HSA_OVERRIDE_GFX_VERSION=10.3.0\n"), 1),
        (format!("{start}# RX 6600\nENV HSA_OVERRIDE_GFX_VERSION=10.3.0\n"), 0),
        (format!("{start}# RX 6600 or RX 6700\nENV HSA_OVERRIDE_GFX_VERSION=10.3.0\n"), 0),
    ] {
        let found = of("hsa-override-any-gpu", "Dockerfile", &text, NONE);
        assert_eq!(found.len(), expected, "{text}");
    }
    let script = "# RX 6600: 10.3.0, RX 7600: 11.0.0\nexport HSA_OVERRIDE_GFX_VERSION=10.3.0\n";
    expect("hsa-override-any-gpu", NONE, &[("a.sh", script, &[])]);
}

#[test]
fn the_name_of_a_tarball_contains_the_release() {
    let get = |name: &str| format!("# Strix Halo\ncurl -O https://h.example/{name}\n");
    for (name, gpus, expected) in [
        ("therock-dist-linux-gfx1151-7.0.0rc20250710.tar.gz", NONE, &["2 warning"][..]),
        ("therock-dist-linux-gfx1151-7.10.0.tar.gz", PROJECT, &["2 error"]),
        ("therock-dist-linux-gfx1151-7.13.0.tar.gz", NONE, &[]),
        (
            "therock-dist-linux-gfx110X-all-7.0.0.tar.gz",
            Gpus { asked: Some("gfx1100"), ..NONE },
            &[],
        ),
    ] {
        expect("rocm-too-old", gpus, &[("a.sh", &get(name), expected)]);
    }
}

#[test]
fn a_branch_is_named_once_and_plain_transport_is_named() {
    let message = |text: &str, rule: &str| -> String {
        let found = findings_in("a.sh", text, Context::default());
        found.iter().filter(|one| one.rule.id == rule).map(|one| one.message.clone()).collect()
    };
    assert_eq!(
        message("pip install git+https://h.example/a@main\n", "branch-as-commit"),
        "the branch `main` of https://h.example/a is installed"
    );
    assert_eq!(
        message("wget http://h.example/a.deb\n", "download-unchecked"),
        "`a.deb` is downloaded without encryption, and nothing checks it"
    );
}

#[test]
fn only_the_current_llama_cpp_needs_a_newer_rocm() {
    let build = |tag: &str, git: &str| {
        format!(
            "FROM docker.io/rocm/dev-ubuntu-22.04:{tag}@sha256:1\nRUN {git} && cd llama.cpp \\\n  && cmake -B build -DGGML_HIP=ON\n"
        )
    };
    let clone = "git clone --depth 1 https://github.com/ggml-org/llama.cpp";
    for (tag, git, expected) in [
        ("6.0-complete", clone.to_owned(), &["1 error"][..]),
        ("6.1.2-complete", clone.to_owned(), &[]),
        ("6.0-complete", format!("{clone} -b b3000"), &[]),
        ("6.0-complete", format!("{clone} && git -C llama.cpp checkout b3000"), &[]),
        ("6.0-complete", clone.replace("ggml-org", "h"), &[]),
    ] {
        expect("rocm-below-minimum", NONE, &[("Dockerfile", &build(tag, &git), expected)]);
    }
    let other = build("6.0", clone).replace("-DGGML_HIP=ON", "-DGGML_VULKAN=ON");
    expect("rocm-below-minimum", NONE, &[("Dockerfile", &other, &[])]);
}

#[test]
fn a_backend_for_cuda_fails_on_an_amd_gpu() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.env", "# Strix Halo\nVLLM_ATTENTION_BACKEND=FLASH_ATTN_MLA\n", &["2 error"]),
        ("a.env", "# Strix Halo\nVLLM_ATTENTION_BACKEND=TRITON_MLA\n", &[]),
        ("a.env", "VLLM_ATTENTION_BACKEND=FLASH_ATTN_MLA\n", &[]),
    ];
    expect("attention-backend", NONE, cases);
}

#[test]
fn a_tool_of_the_host_needs_its_folder() {
    let run = |options: &str| format!("docker run {options} localhost/a\n");
    let tool = "-v /opt/rocm/bin/rocm-smi:/usr/bin/rocm-smi";
    for (options, expected) in [
        (tool.to_owned(), &["1 warning"][..]),
        (format!("{tool} -v /opt/rocm:/opt/rocm:ro"), &[]),
        ("-v /usr/bin/jq:/usr/bin/jq".to_owned(), &[]),
    ] {
        expect("host-tool", NONE, &[("a.sh", &run(&options), expected)]);
    }
}
