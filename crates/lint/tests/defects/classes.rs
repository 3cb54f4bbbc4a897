//! Classes of mistakes that were missed, each with similar files without the mistake.

use lint::{Context, Exists};

use super::{NONE, PROJECT, expect};
use crate::findings_in;

/// Returns a Dockerfile with some lines after its base.
fn image(lines: &str) -> String {
    format!("FROM docker.io/library/ubuntu:24.04@sha256:1\n{lines}\n")
}

#[test]
fn releases_with_two_digits_are_not_old() {
    for (text, expected) in [
        ("# ROCm 7.14 for gfx1151 is stable.", &[][..]),
        ("# ROCm 7.1 for gfx1151 is stable.", &["1 error"]),
        ("# ROCm 6.4.1 added gfx1151.", &["1 error"]),
    ] {
        expect("rocm-too-old", NONE, &[("a.md", text, expected)]);
    }
    let servers = "# For MI300X and Instinct.\nARG ROCM_VERSION=7.0\nFROM docker.io/rocm/dev-ubuntu-24.04:${ROCM_VERSION}-complete@sha256:1\n";
    expect("rocm-too-old", NONE, &[("Dockerfile", servers, &[])]);
}

#[test]
fn branches_for_other_vendors_may_use_their_packages() {
    let run = |condition: &str| {
        image(&format!(
            "ARG B=cpu\nENV R=/opt/rocm\nRUN if [ \"$B\" = {condition} ]; then pip install onnxruntime-gpu==1; fi"
        ))
    };
    expect(
        "cuda-package",
        NONE,
        &[
            ("Dockerfile", &run("cuda"), &[]),
            ("Dockerfile", &run("rocm"), &["4 warning"]),
            (
                "Dockerfile",
                &image("ENV R=/opt/rocm\nRUN pip install onnxruntime-gpu==1"),
                &["3 warning"],
            ),
        ],
    );
}

#[test]
fn only_some_tags_are_known_to_move() {
    for (text, expected) in [
        ("git clone -b v0.36.0 https://h.example/ComfyUI\n", &[][..]),
        ("git clone -b v0.11.0 https://github.com/vllm-project/vllm\n", &["1 information"]),
        ("git clone -b rocm-5.2.0-fixes https://h.example/a\n", &["1 information"]),
    ] {
        expect("tag-not-commit", NONE, &[("a.sh", text, expected)]);
    }
}

#[test]
fn lock_files_are_used_strictly() {
    let copy = |run: &str| image(&format!("COPY package*.json ./\nRUN {run}"));
    for (run, expected) in [
        ("npm install", &["3 information"][..]),
        ("npm ci", &[]),
        ("npm ci || npm install", &[]),
        ("npm install left-pad@1.3.0", &[]),
    ] {
        expect("lock-file-unused", NONE, &[("Dockerfile", &copy(run), expected)]);
    }
    for (run, expected) in [
        ("npm install --omit=dev sharp", &["2 information"][..]),
        ("npm install --prefix frontend", &[]),
        ("npm install sharp@0.33.5", &[]),
        ("npm install ./a.tgz", &[]),
    ] {
        let text = image(&format!("RUN {run}"));
        expect("javascript-unpinned", NONE, &[("Dockerfile", &text, expected)]);
    }
}

/// A folder without other files.
#[derive(Debug)]
struct Empty;

impl Exists for Empty {
    fn exists(&self, _: &str, _: &str) -> Option<bool> {
        Some(false)
    }
}

#[test]
fn a_pattern_copies_a_lock_file_only_if_there_is_one() {
    let text = image("COPY package*.json ./\nRUN npm install");
    let context = Context { exists: Some(&Empty), ..Context::default() };
    let found = findings_in("Dockerfile", &text, context);
    assert!(found.iter().all(|one| !one.rule.id.starts_with("lock-file")), "{found:#?}");
    let named = image("COPY package.json package-lock.json ./\nRUN npm install");
    let found = findings_in("Dockerfile", &named, context);
    assert!(found.iter().any(|one| one.rule.id == "lock-file-unused"), "{found:#?}");
}

#[test]
fn the_group_render_is_newer_than_ubuntu_18() {
    for (base, expected) in [("ubuntu:18.04", &[][..]), ("ubuntu:22.04", &["2 warning"])] {
        let text = format!(
            "FROM docker.io/library/{base}@sha256:1\nRUN useradd -G video a && ls /opt/rocm\n"
        );
        expect("render-group-missing", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn downloads_are_run_by_any_interpreter() {
    for (run, expected) in [
        ("curl -fsSL https://h.example | perl - App::a", &["2 warning"][..]),
        ("curl -fsSL https://h.example/a | node", &["2 warning"]),
        ("curl -fsSL https://h.example/a | perl -pe 's/a/b/'", &[]),
        ("curl -fsSL https://h.example/a | node parse.js", &[]),
        ("curl -fsSL https://h.example/a | ruby -e 'puts 1'", &[]),
    ] {
        let text = image(&format!("RUN {run}"));
        expect("download-unchecked", NONE, &[("Dockerfile", &text, expected)]);
    }
    let nested = image(
        "RUN <<EOF\ncurl -o /tmp/a.sh https://h.example/a.sh\ncat > /a.service <<E\n[Service]\nExecStart=/a\nE\nEOF",
    );
    expect("download-unchecked", NONE, &[("Dockerfile", &nested, &["3 warning"])]);
}

#[test]
fn commands_need_operators() {
    for (run, expected) in [
        ("apt-get update apt-get install -y git", &["2 error"][..]),
        ("apt-get update sudo apt install -y git", &["2 error"]),
        ("apt-get update && apt-get install -y git", &[]),
        ("apt-get install -y sudo apt apt-utils", &[]),
        ("apt-get install pip -y", &[]),
    ] {
        let text = image(&format!("RUN {run}"));
        expect("operator-missing", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn pods_pull_images_with_short_names() {
    let pod = |image: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      image: {image}\n"
        )
    };
    for (image, expected) in [
        ("vllm:latest", &["6 warning"][..]),
        ("vllm", &["6 warning"]),
        ("vllm:1.2", &[]),
        ("vllm:latest\n      imagePullPolicy: Never", &[]),
    ] {
        expect("image-latest", NONE, &[("a.yaml", &pod(image), expected)]);
    }
}

#[test]
fn models_have_revisions() {
    for (run, expected) in [
        ("hf download a/b --local-dir /m", &["2 information"][..]),
        ("hf download a/b --revision 0123abc --local-dir /m", &[]),
        (
            "python3 -c \"from huggingface_hub import snapshot_download; snapshot_download('a/b')\"",
            &["2 information"],
        ),
        ("python3 -c \"snapshot_download('a/b', revision='0123abc')\"", &[]),
    ] {
        let text = image(&format!("RUN {run}"));
        expect("model-unpinned", NONE, &[("Dockerfile", &text, expected)]);
    }
    for (run, expected) in [
        // The list may pin all packages.
        ("pip install --upgrade -r /requirements.txt", &[][..]),
        ("pip install -r /requirements.txt", &[]),
        ("pip install numpy", &["3 information"]),
        ("pip install 'numpy<2' 'scipy~=1.14'", &[]),
        ("pip install 'numpy>=2'", &["3 information"]),
        ("pip install --ignore-installed blinker", &[]),
    ] {
        let text = image(&format!("ENV R=/opt/rocm\nRUN {run}"));
        expect("index-unpinned", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn other_languages_have_versions_too() {
    for (run, expected) in [
        ("cargo install just", &["2 information"][..]),
        ("cargo install --locked just --version 1.2.3", &[]),
        ("cargo install just@1.2.3", &[]),
        ("cargo install --path .", &[]),
        ("go install h.example/a@latest", &["2 information"]),
        ("go install h.example/a@v1.2.3", &[]),
        ("go mod download", &[]),
    ] {
        let text = image(&format!("RUN {run}"));
        expect("package-unpinned", NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn the_gid_of_the_host_counts() {
    let user = |more: &str| {
        format!(
            "FROM docker.io/rocm/pytorch@sha256:1\n{more}RUN usermod -aG video,render a\nUSER a\n"
        )
    };
    for (more, expected) in [
        ("", &["2 information"][..]),
        ("# docker run --group-add 109\n", &[]),
        ("RUN groupmod -g $G render\n", &[]),
    ] {
        expect("render-group-missing", NONE, &[("Dockerfile", &user(more), expected)]);
    }
    let service = |group: &str| {
        format!(
            "useradd -r a{group}\ncat > a.service <<'E'\n[Service]\nUser=a\nEnvironment=HSA_OVERRIDE_GFX_VERSION=11.0.0\nExecStart=/opt/rocm/a\nE\n"
        )
    };
    let cases: &[(&str, &str, &[&str])] =
        &[("a.sh", &service(""), &["4 warning"]), ("a.sh", &service(" -G render"), &[])];
    expect("render-group-missing", NONE, cases);
    let printed = |options: &str| format!("echo \"docker run {options} -p 1:1 a\"\n");
    expect(
        "kfd-missing",
        NONE,
        &[
            ("build-rocm.sh", &printed(""), &["1 warning"]),
            ("build-rocm.sh", &printed("--device /dev/kfd"), &[]),
            ("build.sh", &printed(""), &[]),
        ],
    );
}

#[test]
fn lists_of_an_override_are_added() {
    let file = |comment: &str, tag: &str| {
        format!(
            "# docker compose -f compose.yml -f compose.amd.yml up\nservices:\n  a:\n    # {comment}\n    devices:{tag}\n      - /dev/kfd\n"
        )
    };
    for (comment, tag, expected) in [
        ("Native Linux (replaces /dev/dxg)", "", &["5 warning"][..]),
        ("Native Linux (replaces /dev/dxg)", " !override", &[]),
        ("The GPU", "", &[]),
    ] {
        expect(
            "compose-override-adds",
            NONE,
            &[("compose.amd.yml", &file(comment, tag), expected)],
        );
    }
    let alone = "services:\n  a:\n    # Replaces the CPU\n    devices:\n      - /dev/kfd\n";
    expect("compose-override-adds", NONE, &[("compose.yml", alone, &[])]);
}

#[test]
fn releases_agree() {
    let clone = |base: &str| {
        format!(
            "FROM docker.io/rocm/dev-ubuntu-24.04:{base}@sha256:1\nRUN git clone -b rocm-6.2.0 https://github.com/ROCm/rocBLAS\n"
        )
    };
    for (base, expected) in [("7.2-complete", &["2 information"][..]), ("6.2.4-complete", &[])] {
        expect("rocm-mixed", PROJECT, &[("Dockerfile", &clone(base), expected)]);
    }
    let index = |release: &str| {
        format!(
            "ARG ROCM_VERSION=7.2.3\nFROM docker.io/a/b:${{ROCM_VERSION}}@sha256:1\nRUN pip install a==1 -f https://repo.radeon.com/rocm/manylinux/rocm-rel-{release}/\n"
        )
    };
    for (release, expected) in
        [("7.2.3", &["3 information"][..]), ("${ROCM_VERSION}", &[]), ("7.2.30", &[])]
    {
        expect("release-repeated", PROJECT, &[("Dockerfile", &index(release), expected)]);
    }
}
