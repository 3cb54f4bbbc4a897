//! Defects that 74 previously unseen files from 45 repositories revealed on 2026-11-27.

use super::{NONE, expect};

const BASE: &str = "FROM docker.io/a/b@sha256:1\n";

#[test]
fn the_target_of_a_build_is_not_the_gpu() {
    let file = "export HSA_OVERRIDE_GFX_VERSION=11.0.0\nexport PYTORCH_ROCM_ARCH=gfx1100\n";
    let named = format!("# for the RX 7900 XT\n{file}");
    let cases: &[(&str, &str, &[&str])] =
        &[("a.sh", file, &[]), ("a.sh", &named, &["2 information"])];
    expect("hsa-override-identity", NONE, cases);
    let cases: &[(&str, &str, &[&str])] =
        &[("a.sh", file, &["1 information"]), ("a.sh", &named, &[])];
    expect("hsa-override-any-gpu", NONE, cases);
}

#[test]
fn a_comment_above_a_workaround_gives_its_reason() {
    for (text, expected) in [
        ("# The DMA is broken on this board.\nexport HSA_ENABLE_SDMA=0\n", &[][..]),
        ("# without it, the machine hangs\n# (seen twice)\nexport HSA_ENABLE_SDMA=0\n", &[]),
        (
            "# HSA_ENABLE_SDMA=1\n# the best settings\nexport HSA_ENABLE_SDMA=0\n",
            &["3 information"],
        ),
        ("# hangs\n\nexport HSA_ENABLE_SDMA=0\n", &["3 information"]),
    ] {
        expect("workaround-baked", NONE, &[("a.sh", text, expected)]);
    }
    let service = "services:\n  a:\n    image: localhost/a\n    environment:\n      - ";
    let default = format!("{service}HSA_ENABLE_SDMA=${{HSA_ENABLE_SDMA:-0}}\n");
    let fixed = format!("{service}HSA_ENABLE_SDMA=0\n");
    let cases: &[(&str, &str, &[&str])] =
        &[("compose.yml", &default, &[]), ("compose.yml", &fixed, &["5 information"])];
    expect("workaround-baked", NONE, cases);
}

#[test]
fn an_ancient_rocm_is_out_of_date_on_every_gpu() {
    let text = "if a; then\n  add http://repo.radeon.com/rocm/apt/2.1\nelse\n  add http://repo.radeon.com/rocm/apt/3.1\nfi\n";
    expect("rocm-too-old", NONE, &[("a.sh", text, &[])]);
    expect("rocm-outdated", NONE, &[("a.sh", text, &["2 information"])]);
    let old = format!("# Polaris\n{text}");
    expect("rocm-outdated", NONE, &[("a.sh", &old, &[])]);
}

#[test]
fn a_fallback_is_not_the_value() {
    let use_it =
        "echo \"deb https://repo.radeon.com/rocm/apt/$A noble main\" > /etc/apt/a.list # gfx1151\n";
    let text = format!("A=$(get)\nif [ -z \"$A\" ]; then\n  A=7.2\nfi\n{use_it}");
    let fixed = format!("A=$(get)\nA=7.2\n{use_it}");
    let cases: &[(&str, &str, &[&str])] = &[("a.sh", &text, &[]), ("a.sh", &fixed, &["3 warning"])];
    expect("rocm-7-2-0", NONE, cases);
}

#[test]
fn a_checkout_in_a_nested_repository_pins_only_that() {
    let commit = "01efc7ef781391e744ed08c3292817a773d654e6";
    let start = "git clone https://h.example/a /r/a\n";
    for (next, expected) in [
        (format!("git -C /r/a/sub checkout {commit}\n"), &["1 warning"][..]),
        (format!("git -C /r/a checkout {commit}\n"), &[]),
        (format!("cd /r/a/sub && git checkout {commit}\n"), &[]),
        (
            format!("git clone https://h.example/b /r/a/b\ncd /r/a/b && git checkout {commit}\n"),
            &["1 warning"],
        ),
    ] {
        expect("clone-unpinned", NONE, &[("a.sh", &format!("{start}{next}"), expected)]);
    }
}

#[test]
fn scripts_in_an_argument_are_read() {
    let run = "docker run --privileged --device=/dev/kfd localhost/a";
    for (text, expected) in [
        (format!("sg docker -c \"{run}\"\n"), &["1 warning"][..]),
        (format!("ssh -p 22 me@host '{run}'\n"), &["1 warning"]),
        (format!("su - me -c '{run}'\n"), &["1 warning"]),
        (format!("timeout -k 5 30 {run}\n"), &["1 warning"]),
        (format!("sudo -u me nice -n 5 {run}\n"), &["1 warning"]),
        (format!("sudo sh -c 'true\n  {run}'\n"), &["2 warning"]),
        ("ssh -i key host\n".to_owned(), &[]),
        (format!("echo '{run}'\n"), &[]),
    ] {
        expect("privileged-container", NONE, &[("a.sh", &text, expected)]);
    }
}

#[test]
fn names_that_are_almost_known_are_mistakes() {
    for (text, expected) in [
        ("HSA_ENABLE_SIWA=0\n", &["1 warning"][..]),
        ("HIP_VISIBLE_DEVICE=0\n", &["1 warning"]),
        ("HSA_OVERRIDE_GFX_VERSION_1=10.3.0\n", &[]),
        ("HSA_ENABLE_SDMA_GANG=0\n", &[]),
        ("HSA_SOMETHING_ELSE=0\n", &[]),
        ("export MIOPEN_FIND_MODES=1\nexport MIOPEN_FIND_MODE=$MIOPEN_FIND_MODES\n", &[]),
    ] {
        expect(
            "variable-unknown",
            NONE,
            &[("a.sh", &format!("export {text}").replace("export export", "export"), expected)],
        );
    }
}

#[test]
fn a_build_variable_does_nothing_where_a_server_starts() {
    let start = "export AMDGPU_TARGETS=gfx906\n";
    let serve = "./build/bin/llama-server -m a.gguf\n";
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", &format!("{start}{serve}"), &["1 information"]),
        ("a.sh", &format!("{start}cmake -B build\n{serve}"), &[]),
        ("a.sh", &format!("{start}python3 main.py\n"), &[]),
    ];
    expect("variable-build-only", NONE, cases);
}

#[test]
fn a_published_server_without_a_key_is_open() {
    let start = "services:\n  a:\n    build: .\n    ports: [\"8000:8000\"]\n    command: ";
    for (rest, expected) in [
        ("[\"--n-gpu-layers\", \"99\", \"--host\", \"0.0.0.0\"]\n", &["4 information"][..]),
        ("[\"llama-server\", \"--api-key\", \"a\"]\n", &[]),
        ("koboldcpp --model a.gguf\n", &["4 information"]),
        ("koboldcpp --model a.gguf --password a\n", &[]),
        ("[\"python3\", \"main.py\"]\n", &[]),
        ("vllm serve a\n    env_file: .env\n", &[]),
        ("vllm serve a\n    network_mode: host\n", &[]),
        ("vllm serve a --host 0.0.0.0\n    network_mode: host\n", &["6 information"]),
    ] {
        expect("service-open", NONE, &[("compose.yml", &format!("{start}{rest}"), expected)]);
    }
    let local = "docker run -p 127.0.0.1:8000:8000 localhost/a vllm serve a\n";
    let open = "docker run -p 8000:8000 localhost/a vllm serve a\n";
    let cases: &[(&str, &str, &[&str])] =
        &[("a.sh", local, &[]), ("a.sh", open, &["1 information"])];
    expect("service-open", NONE, cases);
    let script = "./build/bin/llama-server --host 0.0.0.0 --port 8080\n";
    let inside = "/app/build/bin/llama-server --host 0.0.0.0 --port 8080\n";
    let cases: &[(&str, &str, &[&str])] =
        &[("a.sh", script, &["1 information"]), ("a.sh", inside, &[])];
    expect("service-open", NONE, cases);
}

#[test]
fn the_socket_is_reported_without_a_gpu_too() {
    let text = |image: &str| {
        format!(
            "services:\n  a:\n    image: {image}\n    volumes: [\"/var/run/docker.sock:/var/run/docker.sock:ro\"]\n"
        )
    };
    let cases: &[(&str, &str, &[&str])] = &[
        ("compose.yml", &text("docker.io/a/b@sha256:1"), &["4 information"]),
        ("compose.yml", &text("docker.io/portainer/portainer-ce@sha256:1"), &[]),
    ];
    expect("engine-socket", NONE, cases);
}

#[test]
fn only_wide_mounts_are_reported() {
    let run = "docker run --device /dev/kfd";
    for (options, expected) in [
        ("-v /tmp:/tmp", &["1 information"][..]),
        ("-v $HOME:/data", &["1 information"]),
        ("-v /etc/shadow:/etc/shadow:ro", &["1 information"]),
        ("-v $HOME/models:/models", &[]),
        ("-v /tmp/.X11-unix:/tmp/.X11-unix", &[]),
        ("-v /etc/localtime:/etc/localtime:ro", &[]),
    ] {
        let text = format!("{run} {options} localhost/a\n");
        expect("host-folder", NONE, &[("a.sh", &text, expected)]);
    }
}

#[test]
fn apparmor_confines_too() {
    let text = "docker run --device /dev/kfd --security-opt apparmor:unconfined localhost/a\n";
    expect("container-unconfined", NONE, &[("a.sh", text, &["1 information"])]);
    let quadlet = "[Container]\nImage=localhost/a\nAddDevice=/dev/kfd\nAppArmor=unconfined\n";
    expect("container-unconfined", NONE, &[("a.container", quadlet, &["4 information"])]);
    let default = "docker run --device /dev/kfd --security-opt apparmor=docker-default a\n";
    expect("container-unconfined", NONE, &[("a.sh", default, &[])]);
}

#[test]
fn the_processes_of_the_host_are_not_the_containers() {
    let service = |pid: &str| {
        format!("services:\n  a:\n    build: .\n    devices: [/dev/kfd]\n    pid: {pid}\n")
    };
    let cases: &[(&str, &str, &[&str])] = &[
        ("compose.yml", &service("host"), &["5 information"]),
        ("compose.yml", &service("service:b"), &[]),
    ];
    expect("container-unconfined", NONE, cases);
}

#[test]
fn only_a_reset_removes_values() {
    let text = |list: &str| format!("services:\n  a:\n    cap_add: {list}\n");
    let cases: &[(&str, &str, &[&str])] = &[
        ("compose.yml", &text("[] # none"), &["3 information"]),
        ("compose.yml", &text("!reset []"), &[]),
        ("compose.yml", &text("[SYS_NICE]"), &[]),
    ];
    expect("compose-empty-list", NONE, cases);
}

#[test]
fn a_build_with_a_current_option_has_a_backend() {
    let clone = "git clone https://github.com/ggml-org/llama.cpp\n";
    let both = format!("{clone}cmake -B build -DGGML_HIP=ON -DLLAMA_HIPBLAS=ON\n");
    let old = format!("{clone}git checkout b3000\ncmake -B build -DLLAMA_HIPBLAS=ON\n");
    let pinned = "CMAKE_ARGS=-DGGML_HIPBLAS=on pip install llama-cpp-python==0.2.90\n";
    let cases: &[(&str, &str, &[&str])] =
        &[("a.sh", &both, &["2 information"]), ("a.sh", &old, &[]), ("a.sh", pinned, &[])];
    expect("build-option-gone", NONE, cases);
}

#[test]
fn packages_are_gone_only_where_the_distribution_dropped_them() {
    let install = "RUN apt-get install -y netcat\n";
    for (base, expected) in [
        ("ubuntu:24.04", &["2 error"][..]),
        ("rocm/pytorch:rocm6.0_ubuntu22.04_py3.10", &[]),
        ("docker.io/a/b@sha256:1", &[]),
    ] {
        let text = format!("FROM {base}\n{install}");
        expect("package-gone", NONE, &[("Dockerfile", &text, expected)]);
    }
    let other = "FROM ubuntu:24.04\nRUN apt-get install -y netcat-openbsd libgl1\n";
    expect("package-gone", NONE, &[("Dockerfile", other, &[])]);
}

#[test]
fn links_within_a_version_and_full_paths_are_fine() {
    for (text, expected) in [
        ("ln -s libamdhip64.so.7.2.1 libamdhip64.so.7\n", &[][..]),
        ("ln -s libxml2.so libxml2.so.2\n", &[]),
        ("ln -s /usr/lib/libtinfo.so.6 /usr/lib/libtinfo.so.5\n", &["1 warning"]),
    ] {
        expect("library-other-version", NONE, &[("a.sh", text, expected)]);
    }
}

#[test]
fn an_unset_variable_in_a_search_path_is_the_current_folder() {
    let line = "ENV LD_LIBRARY_PATH=/opt/rocm/lib:$LD_LIBRARY_PATH\n";
    let set = "ENV LD_LIBRARY_PATH=/a\n";
    let plain = "FROM docker.io/library/ubuntu@sha256:1\n";
    let cases: &[(&str, &str, &[&str])] = &[
        ("Dockerfile", &format!("{plain}{line}"), &["2 information"]),
        ("Dockerfile", &format!("{plain}{set}{line}"), &[]),
        ("Dockerfile", &format!("{BASE}{line}"), &[]),
        ("Dockerfile", &format!("{plain}ENV PATH=/opt/rocm/bin:$PATH\n"), &[]),
    ];
    expect("search-path-open", NONE, cases);
}

#[test]
fn placeholders_and_registries_may_have_capital_letters() {
    for (image, expected) in [
        ("ghcr.io/SomeOne/app:1", &["3 error"][..]),
        ("ghcr.io/OWNER/app:1", &[]),
        ("ghcr.io/YourName/app:1", &[]),
        ("ghcr.io/a/app:V1", &[]),
    ] {
        let text = format!("services:\n  a:\n    image: {image}\n");
        expect("image-name-invalid", NONE, &[("compose.yml", &text, expected)]);
    }
}

#[test]
fn a_script_that_runs_later_may_look_for_the_gpu() {
    let later = format!("{BASE}RUN echo 'A=$(rocminfo)' > /run.sh\n");
    let now = format!("{BASE}RUN a \\\n && export A=\"$(rocminfo | grep gfx)\"\n");
    let cases: &[(&str, &str, &[&str])] =
        &[("Dockerfile", &later, &[]), ("Dockerfile", &now, &["3 warning"])];
    expect("gpu-during-build", NONE, cases);
}

#[test]
fn a_run_that_only_changes_its_shell_does_nothing() {
    for (run, expected) in [
        ("cd /app", &["2 warning"][..]),
        ("export A=1", &["2 warning"]),
        ("cd /app && make", &[]),
        ("cd /app \\\n && make", &[]),
    ] {
        let text = format!("{BASE}RUN {run}\n");
        expect("shell-state-lost", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn systemd_expands_variables_in_commands() {
    for (text, expected) in [
        ("[Service]\nExecStart=/usr/bin/a $A\nUser=%i\n", &[][..]),
        ("[Service]\nEnvironment=\"PATH=/a:$PATH\"\n", &["2 warning"]),
        ("[Service]\nEnvironment=A=5$\n", &[]),
    ] {
        expect("unit-variable", NONE, &[("a.service", text, expected)]);
    }
    let written =
        "#!/bin/sh\ncat <<EOF > /etc/systemd/system/a.service\n[Service]\nUser=$USER\nEOF\n";
    expect("unit-variable", NONE, &[("a.sh", written, &[])]);
}

#[test]
fn a_password_is_set_by_passwd_too() {
    let text = format!("{BASE}RUN /bin/bash -c \"echo -e 'a\\na' | passwd me\"\n");
    expect("password-in-file", NONE, &[("Dockerfile", &text, &["2 warning"])]);
    let key = "echo key | sudo tee /etc/a\nsudo -S -k\n";
    expect("password-in-file", NONE, &[("a.sh", key, &[])]);
}

#[test]
fn a_choice_of_build_options_is_not_the_build() {
    let choice = format!("{BASE}RUN case $A in native) F=-DGGML_NATIVE=ON ;; esac\n");
    let build = format!("{BASE}RUN cmake -B b -DGGML_NATIVE=ON\n");
    let cases: &[(&str, &str, &[&str])] =
        &[("Dockerfile", &choice, &[]), ("Dockerfile", &build, &["2 information"])];
    expect("build-native", NONE, cases);
}

#[test]
fn a_path_of_another_release_does_not_exist() {
    let path = "ENV LD_LIBRARY_PATH=/opt/rocm-6.4.1/lib\n";
    for (base, expected) in [
        ("rocm/pytorch:latest", &["2 warning"][..]),
        ("rocm/dev-ubuntu-24.04:7.2.4-complete", &["2 warning"]),
        ("rocm/dev-ubuntu-24.04:6.4.1-complete", &[]),
        ("rocm/dev-ubuntu-24.04:6.4-complete", &[]),
        ("rocm/pytorch@sha256:1", &[]),
        ("docker.io/library/ubuntu:24.04", &[]),
    ] {
        let text = format!("FROM {base}\n{path}");
        expect("rocm-path-other", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn an_override_for_another_gpu_than_the_images_is_wrong() {
    let run = "docker run -e HSA_OVERRIDE_GFX_VERSION=11.0.0";
    for (image, expected) in [
        ("localhost/a:gfx1103", &["1 warning"][..]),
        ("localhost/a:gfx1100", &[]),
        ("localhost/a:gfx1100-gfx1103", &[]),
        ("localhost/a:7.2", &[]),
    ] {
        let text = format!("{run} {image}\n");
        expect("hsa-override-other", NONE, &[("a.sh", &text, expected)]);
    }
    // The other rules say more precisely what is wrong.
    let text = format!("{run} localhost/a:gfx1151\n");
    expect("hsa-override-gfx1151", NONE, &[("a.sh", &text, &["1 error"])]);
    expect("hsa-override-other", NONE, &[("a.sh", &text, &[])]);
    let derived = "V=${BASH_REMATCH[1]}.${BASH_REMATCH[2]}.0\nexport HSA_OVERRIDE_GFX_VERSION=$V\n";
    expect("hsa-override-other", NONE, &[("a.sh", derived, &["1 warning"])]);
}

#[test]
fn the_architecture_of_a_target_is_checked_in_comments() {
    for (text, expected) in [
        ("# GFX1151 = RDNA 4 iGPU\n", &["1 warning"][..]),
        ("# gfx1151 (RDNA 3.5)\n", &[]),
        ("# RDNA3: gfx1100, RDNA4: gfx1201\n", &[]),
    ] {
        expect("silicon-mixup", NONE, &[("a.sh", text, expected)]);
    }
}

#[test]
fn what_no_registry_resolves_is_no_image_name() {
    for name in ["oci-archive:/home/Me/x.tar", "docker-archive:/tmp/Foo.tar", "oci:/home/Me/x"] {
        let text = format!("podman run --rm {name}\n");
        expect("image-name-invalid", NONE, &[("a.sh", &text, &[])]);
    }
    let model = "FROM hf.co/Owner/Llama-3.2-3B-Instruct-GGUF\n";
    expect("image-name-invalid", NONE, &[("Modelfile", model, &[])]);
    let image = "podman run --rm docker.io/Owner/x:1\n";
    expect("image-name-invalid", NONE, &[("a.sh", image, &["1 error"])]);
}

#[test]
fn a_run_with_a_second_command_uses_its_folder() {
    for (line, expected) in [
        ("RUN cd /src", &["2 warning"][..]),
        ("RUN cd /src&&make", &[]),
        ("RUN cd /src;make", &[]),
        ("RUN cd /src\\\n && make", &[]),
    ] {
        let text = format!("{BASE}{line}\n");
        expect("shell-state-lost", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn only_a_literal_password_is_one() {
    for (line, expected) in [
        ("RUN echo 'user:geheim' | chpasswd", &["2 warning"][..]),
        ("RUN echo \"user:$(cat /run/secrets/pw)\" | chpasswd", &[]),
        ("RUN echo \"user:$HASH\" | chpasswd -e", &[]),
        ("RUN printf 'y' | sudo -S true", &[]),
    ] {
        let text = format!("{BASE}{line}\n");
        expect("password-in-file", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn a_virtual_environment_with_its_own_torch_hides_nothing() {
    let venv = "FROM docker.io/rocm/pytorch:7.2\nRUN python3 -m venv /v";
    for (rest, expected) in [
        ("", &["2 warning"][..]),
        (" && /v/bin/pip install --index-url https://rocm.nightlies.amd.com/v2/gfx1151/ x", &[]),
        (" && /v/bin/pip install --pre torch", &[]),
        (" && /v/bin/pip install pre-commit", &[]),
    ] {
        let text = format!("{venv}{rest}\n");
        expect("torch-hidden", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn a_script_that_runs_another_one_may_build() {
    for (build, expected) in [("", &["1 information"][..]), ("./build.sh\n", &[])] {
        let text = format!("export AMDGPU_TARGETS=gfx1151\n{build}llama-server -m /m.gguf\n");
        expect("variable-build-only", NONE, &[("a.sh", &text, expected)]);
    }
}

#[test]
fn long_options_of_wrappers_take_values() {
    for wrapper in ["timeout --signal KILL 60", "sudo --group render", "env --chdir /src"] {
        let text = format!("{wrapper} git clone https://github.com/ggml-org/llama.cpp\n");
        expect("clone-unpinned", NONE, &[("a.sh", &text, &["1 warning"])]);
    }
}
