//! Defects that a person found in files from repositories that nobody had read before.

use super::{NONE, expect};

#[test]
fn a_comment_silences_no_rule() {
    let cmd = "FROM localhost/a\n# ENTRYPOINT python main.py\nCMD [\"/bin/bash\",\"-c\"]\n";
    let own = "FROM localhost/a\nENTRYPOINT [\"/run.sh\"]\nCMD [\"/bin/bash\",\"-c\"]\n";
    let cases: &[(&str, &str, &[&str])] =
        &[("Dockerfile", cmd, &["3 warning"]), ("Dockerfile", own, &[])];
    expect("command-missing", NONE, cases);
    let build = "# no pipefail here\ndocker build . | tee log\n";
    expect("build-status-lost", NONE, &[("a.sh", build, &["2 warning"])]);
    let groups =
        "# sudo is not needed\npodman run --device /dev/kfd --group-add video localhost/a\n";
    expect("rootless-groups", NONE, &[("a.sh", groups, &["2 information"])]);
}

#[test]
fn a_service_is_open_without_a_gpu_too() {
    let ollama = "[Container]\nImage=docker.io/ollama/ollama:rocm\nPublishPort=11434:11434\n";
    let local = ollama.replace("=11434", "=127.0.0.1:11434");
    let other = ollama.replace("ollama/ollama", "a/b");
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.container", ollama, &["3 information"]),
        ("a.container", &local, &[]),
        ("a.container", &other, &[]),
    ];
    expect("service-open", NONE, cases);
    let run = "docker run -p 8000:8000 docker.io/vllm/vllm-openai-rocm:v0.19.0 --model a";
    let (open, keyed) = (format!("{run}\n"), format!("{run} --api-key b\n"));
    expect("service-open", NONE, &[("a.sh", &open, &["1 information"]), ("a.sh", &keyed, &[])]);
    let tracking = "services:\n  a:\n    image: ghcr.io/mlflow/mlflow:v2\n    ports: ['5000:5000']\n    command: mlflow server";
    let (open, keyed) = (format!("{tracking}\n"), format!("{tracking} --app-name basic-auth\n"));
    let cases: &[(&str, &str, &[&str])] =
        &[("compose.yml", &open, &["4 information"]), ("compose.yml", &keyed, &[])];
    expect("service-open", NONE, cases);
}

#[test]
fn a_server_of_the_host_is_open_without_a_key() {
    let unit = "[Service]\nExecStart=/usr/bin/llama-server --host 0.0.0.0 --port 8080";
    let keyed = format!("{unit} --api-key-file /etc/key\n");
    let file = format!("[Service]\nEnvironmentFile=/etc/a.env\n{unit}\n");
    let inside = "[Service]\nExecStart=/usr/bin/podman run -p 127.0.0.1:8080:8080 localhost/a llama-server --host 0.0.0.0\n";
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.service", unit, &["2 information"]),
        ("a.service", &keyed, &[]),
        ("a.service", &file, &[]),
        ("a.service", inside, &[]),
    ];
    expect("service-open", NONE, cases);
}

#[test]
fn selinux_is_off_without_a_device_too() {
    let quadlet = |image: &str| format!("[Container]\nImage={image}\nSecurityLabelDisable=true\n");
    let (ollama, other) = (quadlet("docker.io/ollama/ollama:0.20.0"), quadlet("localhost/a"));
    let nvidia = format!("{ollama}AddDevice=nvidia.com/gpu=all\n");
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.container", &ollama, &["3 information"]),
        ("a.container", &other, &[]),
        ("a.container", &nvidia, &[]),
    ];
    expect("selinux-off", NONE, cases);
}

#[test]
fn unsigned_packages_are_unsigned_on_every_server() {
    let apt = "apt-get install -y --allow-unauthenticated a\n";
    let list = "echo 'deb [arch=amd64 trusted=yes] http://h.example/deb a main' | tee /etc/apt/sources.list.d/a.list\n";
    let yum = "echo \"gpgcheck=0\" >> /etc/yum.repos.d/a.repo\n";
    let local = "echo 'deb [trusted=yes] file:/packages ./' | tee /etc/apt/sources.list.d/a.list\n";
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", apt, &["1 warning"]),
        ("a.sh", list, &["1 warning"]),
        ("a.sh", yum, &["1 warning"]),
        ("a.sh", local, &[]),
        ("a.sh", "dnf install -y --nogpgcheck ./a.rpm\n", &[]),
    ];
    expect("packages-unsigned", NONE, cases);
}

#[test]
fn packages_are_found_in_variables_and_on_continuation_lines() {
    let suite = "FROM docker.io/library/ubuntu@sha256:1\nARG R=http://repo.radeon.com/rocm/apt/debian/\nRUN sh -c \"echo deb [arch=amd64] $R xenial main > /etc/apt/sources.list.d/rocm.list\"\n";
    let list = "FROM docker.io/library/ubuntu@sha256:1\nRUN apt-get update \\\n  && apt-get install -y \\\n    rocm-dkms \\\n    rocprim\n";
    let old = "FROM docker.io/library/ubuntu@sha256:1\nRUN apt-get install -y rocm-libs \\\n  cxlactivitylogger && \\\n  apt-get clean\n";
    let talk = "echo 'run apt install rocm-dkms'\n";
    let cases: &[(&str, &str, &[&str])] = &[
        ("Dockerfile", suite, &["3 error"]),
        ("Dockerfile", list, &["4 warning"]),
        ("Dockerfile", old, &["3 warning"]),
        ("a.sh", talk, &[]),
        ("a.sh", "cp -r /opt/rocm/hip/samples /tmp\n", &["1 warning"]),
        ("a.sh", "docker pull a/rocm-5.7\ncp -r /opt/rocm/hip/samples /tmp\n", &[]),
        ("a.sh", "export HIP_PATH=/opt/rocm/hip\n", &["1 information"]),
        ("a.sh", "export HIP_PATH=/opt/rocm/hip GPU=gfx803\n", &[]),
    ];
    expect("rocm-package-gone", NONE, cases);
    let image = "FROM docker.io/rocm/dev-ubuntu-22.04:5.7\nENV HIP_PATH=/opt/rocm/hip\n";
    expect("rocm-package-gone", NONE, &[("Dockerfile", image, &[])]);
}

#[test]
fn variables_of_old_compilers_do_nothing() {
    let text = "FROM localhost/a\nENV HIP_PLATFORM=hcc HCC_HOME=/opt/rocm/hcc\n";
    let old = text.replace("localhost/a", "docker.io/rocm/dev-ubuntu-20.04:3.8");
    let new = "FROM localhost/a\nENV HIP_PLATFORM=amd HCC_AMDGPU_TARGET=gfx1100\n";
    let cases: &[(&str, &str, &[&str])] = &[
        ("Dockerfile", text, &["2 warning", "2 warning"]),
        ("Dockerfile", &old, &[]),
        ("Dockerfile", new, &[]),
    ];
    expect("variable-without-effect", NONE, cases);
}

#[test]
fn names_of_other_tools_are_no_variables() {
    let compose = "services:\n  a:\n    image: localhost/a\n    environment:\n      - Environment=A=http://b:1\n";
    let cases: &[(&str, &str, &[&str])] = &[
        ("compose.yml", compose, &["5 warning"]),
        ("a.container", "[Container]\nImage=localhost/a\nEnvironment=A=1\n", &[]),
        ("a.sh", "export RCCL_IB_DISABLE=1\n", &["1 warning"]),
        ("a.sh", "export RCCL_MSCCL_ENABLE=0\n", &[]),
    ];
    expect("variable-unknown", NONE, cases);
}

#[test]
fn a_table_of_containers_is_read() {
    let table = "declare -A T\nT[\"a\"]=\"docker.io/a/b:rocm --device /dev/kfd --group-add video --group-add sudo --cap-add SYS_ADMIN --security-opt seccomp=unconfined\"\n";
    let used = format!("{table}toolbox create a --image \"${{T[a]%% *}}\" -- ${{T[a]#* }}\n");
    let cases: &[(&str, &str, &[&str])] =
        &[("a.sh", &used, &["2 information"]), ("a.sh", table, &[])];
    expect("container-unconfined", NONE, cases);
    expect("rootless-groups", NONE, &[("a.sh", &used, &["2 information"])]);
    expect("image-unpinned", NONE, &[("a.sh", &used, &["2 information"])]);
}

#[test]
fn devices_keep_their_places() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", "DEVICE=\"/dev/dri:/dev/kfd\"\n", &["1 warning"]),
        ("a.sh", "docker run --device /dev/dri:/dev/dri --device /dev/kfd localhost/a\n", &[]),
    ];
    expect("device-path", NONE, cases);
    let all = "[Container]\nImage=localhost/a\nAddDevice=/dev/dri\nVolume=/dev/:/dev/:rw\n";
    expect("container-unconfined", NONE, &[("a.container", all, &["4 information"])]);
}

#[test]
fn the_host_chooses_the_gid_of_render() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("Dockerfile", "FROM localhost/a\nRUN groupadd -g 109 render\n", &["2 information"]),
        ("Dockerfile", "FROM localhost/a\nARG G=109\nRUN groupadd -g $G render\n", &[]),
        ("Dockerfile", "FROM localhost/a\nRUN groupadd -g 1000 user\n", &[]),
    ];
    expect("render-group-missing", NONE, cases);
}

#[test]
fn placeholders_and_kept_files_are_no_problem() {
    let quadlet = "[Container]\nImage=docker.io/ollama/ollama:IMAGE\n";
    expect("image-unpinned", NONE, &[("a.container", quadlet, &[])]);
    let wheel = "wget https://files.pythonhosted.org/packages/ab/68/71/a-1-py3-none-any.whl\n";
    expect("download-unchecked", NONE, &[("a.sh", wheel, &["1 information"])]);
    let shell = "services:\n  a:\n    image: localhost/a\n    devices: [/dev/kfd]\n    ports: ['8188:8188']\n    command: bash\n";
    expect("service-open", NONE, &[("compose.yml", shell, &[])]);
}

#[test]
fn hip_counts_within_the_gpus_that_rocr_leaves() {
    let run = |hip: &str| {
        format!("docker run -e ROCR_VISIBLE_DEVICES=1 -e HIP_VISIBLE_DEVICES={hip} localhost/a\n")
    };
    let (masked, right) = (run("1"), run("0"));
    let two = "services:\n  a:\n    image: localhost/a\n    environment:\n      - ROCR_VISIBLE_DEVICES=0\n  b:\n    image: localhost/a\n    environment:\n      - HIP_VISIBLE_DEVICES=1\n";
    let cases: &[(&str, &str, &[&str])] =
        &[("a.sh", &masked, &["1 warning"]), ("a.sh", &right, &[]), ("compose.yml", two, &[])];
    expect("visible-devices-form", NONE, cases);
}

#[test]
fn torchaudio_brings_its_own_torch() {
    let file = |package: &str| {
        format!(
            "FROM rocm/pytorch@sha256:1\nRUN pip3 install {package} --index-url https://download.pytorch.org/whl/rocm5.7\n"
        )
    };
    let (alone, all, exact) =
        (file("torchaudio"), file("torch torchaudio"), file("torchaudio==2.0.1"));
    let cases: &[(&str, &str, &[&str])] = &[
        ("Dockerfile", &alone, &["2 warning"]),
        ("Dockerfile", &all, &[]),
        ("Dockerfile", &exact, &[]),
    ];
    expect("packages-do-not-match", NONE, cases);
}

#[test]
fn a_driver_belongs_to_the_host() {
    let image = |run: &str| format!("FROM docker.io/a/b@sha256:1\nRUN {run}\n");
    let install = "amdgpu-install -y --usecase=rocm";
    let (image_with, image_without) = (image(install), image(&format!("{install} --no-dkms")));
    let package = image("apt-get update && apt-get install -y \\\n  amdgpu-dkms rocm");
    let cases: &[(&str, &str, &[&str])] = &[
        ("Dockerfile", &image_with, &["2 warning"]),
        ("Dockerfile", &image_without, &[]),
        ("Dockerfile", &package, &["3 warning"]),
        ("a.sh", install, &[]),
    ];
    expect("driver-in-image", NONE, cases);
    let script = "/opt/rocm/bin/rocm_smi.py\n";
    expect("rocm-package-gone", NONE, &[("a.sh", script, &["1 warning"])]);
}

#[test]
fn cgroups_of_the_host_are_shared() {
    let quadlet = |image: &str| format!("[Container]\nImage={image}\nPodmanArgs=--cgroupns=host\n");
    let (ollama, other) = (quadlet("docker.io/ollama/ollama:0.20.0"), quadlet("localhost/a"));
    let device = format!("{other}AddDevice=/dev/kfd\n");
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.container", &ollama, &["3 information"]),
        ("a.container", &other, &[]),
        ("a.container", &device, &["3 information"]),
    ];
    expect("container-unconfined", NONE, cases);
}

#[test]
fn code_of_a_model_is_run_however_vllm_is_started() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", "vllm serve a \\\n  --trust-remote-code\n", &["2 information"]),
        (
            "a.sh",
            "python3 -m vllm.entrypoints.openai.api_server --trust-remote-code\n",
            &["1 information"],
        ),
        (
            "a.sh",
            "docker run vllm/vllm-openai-rocm:v1 --model a --trust-remote-code\n",
            &["1 information"],
        ),
        ("a.sh", "vllm serve a\n", &[]),
        ("a.sh", "lm_eval --trust-remote-code\n", &[]),
    ];
    expect("remote-code", NONE, cases);
}

#[test]
fn a_version_without_a_stamp_takes_the_stamped_build_of_the_index() {
    let rocm = "https://download.pytorch.org/whl/rocm5.2";
    let install = "FROM docker.io/a/b@sha256:1\nRUN pip install torch==1.13.1+rocm5.2";
    for (rest, expected) in [
        (format!(" torchaudio==0.13.1 --extra-index-url {rocm}\n"), &[][..]),
        (format!(" torchaudio==0.13.1 --index-url {rocm}\n"), &[]),
        (format!(" torchaudio==0.13.1 -f {rocm}\n"), &[]),
        (format!(" torchaudio==0.13.1+rocm5.1 --extra-index-url {rocm}\n"), &["2 error"]),
        (format!(" --index-url {rocm}\nRUN pip install torchaudio==0.13.1\n"), &["3 error"]),
    ] {
        let text = format!("{install}{rest}");
        expect("packages-do-not-match", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn an_extra_index_that_cannot_change_torch_is_accepted() {
    let index = "--extra-index-url https://download.pytorch.org/whl/rocm6.4";
    for (words, expected) in [
        ("pip install torch==2.9.1", &["1 warning"][..]),
        ("pip install torch==2.9.1+rocm6.4", &[]),
        ("uv pip install torch==2.9.1", &[]),
        ("uv pip install --index-strategy unsafe-best-match torch==2.9.1", &["1 warning"]),
    ] {
        let text = format!("{words} {index}\n");
        expect("extra-index-url", NONE, &[("a.sh", &text, expected)]);
    }
}

#[test]
fn praise_of_bitsandbytes_is_no_complaint() {
    for (comment, expected) in [
        ("# bitsandbytes (upstream with native gfx1151 support)\n", &[][..]),
        ("# upstream bitsandbytes instead of the ROCm fork\n", &[]),
        ("# bitsandbytes does not support ROCm\n", &["1 information"]),
        ("# bitsandbytes doesn't support AMD\n", &["1 information"]),
        ("# bitsandbytes lacks ROCm support\n", &["1 information"]),
    ] {
        expect("bitsandbytes-stale", NONE, &[("a.sh", comment, expected)]);
    }
}

#[test]
fn a_service_of_ollama_listens_in_its_container() {
    let text =
        "services:\n  ollama:\n    build: .\n    environment:\n      - OLLAMA_HOST=0.0.0.0\n";
    expect("ollama-open", NONE, &[("compose.yml", text, &[])]);
}

#[test]
fn an_old_pytorch_reads_only_the_old_name() {
    let allocator = "ENV PYTORCH_HIP_ALLOC_CONF=max_split_size_mb:128\n";
    for (version, expected) in [("2.6.0", &[][..]), ("2.9.1", &["3 information"])] {
        let text = format!(
            "FROM docker.io/a/b@sha256:1\nRUN pip install torch=={version} --index-url https://download.pytorch.org/whl/rocm6.4\n{allocator}"
        );
        expect("variable-renamed", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn what_changes_nothing_in_a_container_is_not_reported() {
    let run = "docker run --device /dev/kfd --device /dev/dri";
    for (options, expected) in [
        ("--security-opt apparmor=unconfined localhost/a", &["1 information"][..]),
        ("--security-opt seccomp=unconfined localhost/a", &[]),
        ("--privileged --security-opt seccomp=unconfined localhost/a", &[]),
        ("--privileged --cap-add SYS_PTRACE localhost/a", &[]),
        ("--privileged --pid host localhost/a", &["1 information"]),
    ] {
        let text = format!("{run} {options}\n");
        expect("container-unconfined", NONE, &[("a.sh", &text, expected)]);
    }
    // AMD's images have the group, and run as root. Root needs no group.
    let cases = [
        ("rocm/pytorch:7.2", &[][..]),
        ("docker.io/a/b", &[]),
        ("--user 1000 rocm/pytorch:7.2", &[]),
        ("--user 1000 docker.io/a/b", &["1 information"]),
        ("--user root docker.io/a/b", &[]),
    ];
    for (image, expected) in cases {
        let text = format!("{run} --group-add render {image}\n");
        expect("group-by-name", NONE, &[("a.sh", &text, expected)]);
    }
    for (base, expected) in [
        ("docker.io/rocm/dev-ubuntu-24.04:7.2", &["2 information"][..]),
        ("registry.redhat.io/rhaiis/vllm-rocm-rhel9:3", &[]),
    ] {
        let text = format!("FROM {base}\nUSER 2000\n");
        expect("render-group-missing", NONE, &[("Dockerfile", &text, expected)]);
    }
}
