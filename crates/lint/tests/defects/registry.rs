//! Names of Python packages, packages that bring torch, and the Python that starts a program.

use lint::{Context, Exists};

use super::{NONE, expect};
use crate::findings_in;

#[test]
fn a_name_that_the_index_does_not_have_is_found_where_the_index_is_used() {
    let rule = "no-such-package";
    let base = "FROM docker.io/library/python:3.12\n";
    for (lines, expected) in [
        ("RUN pip install torch-audio\n", &["2 error"][..]),
        ("RUN pip install torch_audio==2.1\n", &["2 error"]),
        ("RUN uv pip install --system qqq-no-such-name\n", &["2 error"]),
        ("RUN pip install torchaudio PyYAML ruamel.yaml\n", &[]),
        // Another source, or a name that is not known.
        ("RUN pip install torch-audio --index-url https://h.example/simple\n", &[]),
        ("RUN pip install --find-links /w torch-audio\n", &[]),
        ("ENV PIP_EXTRA_INDEX_URL=https://h.example\nRUN pip install torch-audio\n", &[]),
        ("RUN pip install torch-audio==1+rocm6.4\n", &[]),
        ("RUN pip install git+https://h.example/torch-audio\n", &[]),
        ("ARG NAME\nRUN pip install $NAME-no-such-name\n", &[]),
    ] {
        expect(rule, NONE, &[("Dockerfile", &format!("{base}{lines}"), expected)]);
    }
    let cases = [
        ("requirements.txt", "flask\nhugginface_hub>=0.2\n", &["2 error"][..]),
        ("requirements.txt", "flask\nqqq-no-such-name\n", &["2 warning"]),
        ("requirements.txt", "--extra-index-url https://h.example\nqqq-no-such-name\n", &[]),
        // Prose in a file with the name of a list.
        ("requirements.txt", "Requisitos do desafio\nqqq-no-such-name\n", &[]),
        ("wandb/run/files/requirements.txt", "flask==3\nqqq-no-such-name==0.1\n", &[]),
        ("a.sh", "pip install transformer\n", &["1 error"]),
        // A script can run where pip has another index.
        ("a.sh", "pip install qqq-no-such-name\n", &[]),
        // An image that is not known can name an index.
        ("Dockerfile", "FROM h.example/a:1\nRUN pip install qqq-no-such-name\n", &["2 warning"]),
    ];
    expect(rule, NONE, &cases);
}

#[test]
fn a_package_brings_torch_if_nothing_else_does() {
    let rule = "torch-for-cuda";
    let base = "FROM rocm/dev-ubuntu-22.04:6.4-complete\n";
    for (lines, expected) in [
        ("RUN pip install flask sentence-transformers\n", &["2 warning"][..]),
        ("RUN pip install transformers[torch]\n", &["2 warning"]),
        ("ENV PYTORCH_ROCM_ARCH=gfx1100\nRUN pip install peft\n", &["3 warning"]),
        ("RUN pip install flask transformers\n", &[]),
        ("RUN pip install --no-deps peft\n", &[]),
        (
            "RUN pip install torch --index-url https://h.example/whl/rocm6.4\nRUN pip install peft\n",
            &[],
        ),
        ("RUN ./install-torch.sh\nRUN pip install peft\n", &[]),
        (
            "COPY --from=a /usr/lib/python3/dist-packages /usr/lib/python3/dist-packages\nRUN pip install peft\n",
            &[],
        ),
        ("RUN pip install peft\nCMD [\"/start.sh\"]\n", &[]),
    ] {
        expect(rule, NONE, &[("Dockerfile", &format!("{base}{lines}"), expected)]);
    }
    let plain = "FROM docker.io/library/python:3.12\nRUN pip install peft\n";
    let image = "FROM rocm/pytorch:latest\nRUN pip install peft\n";
    let cases = [
        ("Dockerfile", plain, &[][..]),
        ("Dockerfile.rocm", plain, &["2 warning"]),
        ("Dockerfile.rocm", image, &[]),
    ];
    expect(rule, NONE, &cases);
}

/// A folder with a list of requirements, a project and a script.
#[derive(Debug)]
struct Folder(&'static str);

impl Exists for Folder {
    fn text(&self, _: &str, path: &str) -> Option<String> {
        let text = match path {
            "requirements.txt" => self.0.to_owned(),
            "pyproject.toml" => {
                let list: Vec<String> = self.0.lines().map(|one| format!("\"{one}\"")).collect();
                format!("[project]\nname = \"a\"\ndependencies = [{}]\n", list.join(", "))
            }
            "start.sh" => "exec python3 a.py\n".to_owned(),
            _ => return None,
        };
        Some(text)
    }
}

#[test]
fn a_list_or_a_project_brings_torch() {
    let list = "FROM rocm/dev-ubuntu-22.04:6.4\nCOPY requirements.txt start.sh ./\nRUN pip install -r requirements.txt\nCMD [\"/start.sh\"]\n";
    let project = "FROM rocm/dev-ubuntu-22.04:6.4\nCOPY . .\nRUN pip install -e '.[dev]'\n";
    for (packages, is_wrong) in [
        ("flask>=2\nstable-baselines3>=2", true),
        ("flask>=2\naccelerate", true),
        ("flask>=2", false),
        ("peft\ntorch", false),
    ] {
        let folder = Folder(packages);
        let context = Context { exists: Some(&folder), ..Context::default() };
        for text in [list, project] {
            let found = findings_in("Dockerfile", text, context);
            let lines: Vec<usize> = found
                .iter()
                .filter(|one| one.rule.id == "torch-for-cuda")
                .map(|one| one.line)
                .collect();
            assert_eq!(lines == [3], is_wrong, "{packages} {text} {lines:?}");
        }
    }
}

#[test]
fn the_name_of_a_gpu_override_does_not_hold_torch() {
    let text = "FROM rocm/pytorch:latest\nENV HSA_OVERRIDE_GFX_VERSION=10.3.0\nRUN pip install torchaudio\n";
    let cases = [
        ("Dockerfile", text, &["3 information"][..]),
        (
            "Dockerfile",
            "FROM rocm/pytorch:latest\nRUN pip install peft\nRUN pip install torchaudio\n",
            &["3 information"],
        ),
        (
            "Dockerfile",
            "FROM rocm/pytorch:latest\nRUN uv pip install --overrides o.txt torchaudio\n",
            &[],
        ),
    ];
    expect("torch-not-held", NONE, &cases);
}

#[test]
fn pip_of_the_distribution_does_not_serve_another_python() {
    let rule = "pip-other-python";
    let apt = "FROM ubuntu:22.04\nRUN apt-get update && apt-get install -y python3.11 python3-pip";
    for (lines, expected) in [
        ("\nRUN pip install flask\nCMD python3.11 a.py\n", &["3 error"][..]),
        (
            " && ln -sf /usr/bin/python3.11 /usr/bin/python\nRUN pip3 install -r r.txt\nENTRYPOINT [\"python\", \"-m\", \"a\"]\n",
            &["3 error"],
        ),
        ("\nRUN pip install flask\nCMD python3 a.py\n", &[]),
        ("\nRUN pip install flask\nCMD python3.10 a.py\n", &[]),
        ("\nRUN pip install --upgrade pip\nCMD python3.11 a.py\n", &[]),
        ("\nRUN python3.11 -m pip install flask\nCMD python3.11 a.py\n", &[]),
        (
            " && ln -sf /usr/bin/python3.11 /usr/bin/python3\nRUN pip install flask\nCMD python3.11 a.py\n",
            &[],
        ),
        (
            "\nRUN update-alternatives --install /usr/bin/python3 p /usr/bin/python3.11 1\nRUN pip install flask\nCMD python3.11 a.py\n",
            &[],
        ),
        (
            "\nRUN python3.11 -m venv /v\nENV PATH=/v/bin:$PATH\nRUN pip install flask\nCMD python3.11 a.py\n",
            &[],
        ),
    ] {
        expect(rule, NONE, &[("Dockerfile", &format!("{apt}{lines}"), expected)]);
    }
}

#[test]
fn a_container_starts_a_program_that_its_image_has() {
    let rule = "program-missing";
    let base = "FROM rocm/dev-ubuntu-22.04:6.4\nRUN apt-get update && apt-get install -y libfoo1 ";
    for (lines, expected) in [
        ("python3-pip\nCMD [\"python\", \"a.py\"]\n", &["3 error"][..]),
        ("python3.12-venv\nCMD python a.py\n", &["3 error"]),
        ("python3-pip\nCMD [\"python3\", \"a.py\"]\n", &[]),
        ("python3-pip\nENTRYPOINT [\"/a\"]\nCMD [\"python\"]\n", &[]),
        ("python-is-python3\nCMD [\"python\", \"a.py\"]\n", &[]),
        ("python-dev-is-python3\nCMD [\"python\", \"a.py\"]\n", &[]),
        ("python3 && ln -s python3 /usr/bin/python\nCMD [\"python\", \"a.py\"]\n", &[]),
        ("$PACKAGES\nCMD [\"python\", \"a.py\"]\n", &[]),
        (
            "python3-venv && python3 -m venv /v\nENV PATH=/v/bin:$PATH\nCMD [\"python\", \"a.py\"]\n",
            &[],
        ),
        ("python3\nCOPY --from=a /v /v\nCMD [\"python\", \"a.py\"]\n", &[]),
    ] {
        expect(rule, NONE, &[("Dockerfile", &format!("{base}{lines}"), expected)]);
    }
}

#[test]
fn a_list_for_an_existing_torch_holds_it() {
    let cases = [
        (
            "requirements-rocm.txt",
            "# for the torch of the image\nflask\nxformers\ntrl\n",
            &["3 information"][..],
        ),
        ("requirements-rocm.txt", "flask\npeft\n", &[]),
        ("requirements-rocm.txt", "-c constraints.txt\nxformers\n", &[]),
        ("requirements-rocm.txt", "torch==2.9.1+rocm6.4\nxformers\n", &[]),
        ("requirements.txt", "xformers\n", &[]),
    ];
    expect("torch-not-held", NONE, &cases);
    let clone = "git clone https://github.com/vllm-project/vllm && cd vllm\npip install torch --index-url https://download.pytorch.org/whl/rocm6.4\npip install -r ";
    for (rest, expected) in [
        ("requirements/common.txt\n", &["3 information"][..]),
        ("requirements/build/rust.txt\n", &[]),
        ("requirements/common.txt\ninstall_rocm_torch\n", &[]),
    ] {
        expect("torch-not-held", NONE, &[("a.sh", &format!("{clone}{rest}"), expected)]);
    }
}

#[test]
fn requirements_of_one_installation_contradict_each_other() {
    let rule = "pins-contradict";
    let cases = [
        ("a.sh", "pip install numpy==1.26.4 'numpy>=2'\n", &["1 error"][..]),
        ("a.sh", "uv pip install 'numpy<2' \\\n  numpy==2.1.0\n", &["2 error"]),
        // The second one replaces the first.
        ("a.sh", "pip install numpy==1.26.4\npip install numpy==2.1.0\n", &[]),
        ("a.sh", "pip install --no-deps numpy==1.26.4 numpy==2.1.0\n", &[]),
        ("requirements.txt", "a==1; python_version < '3.9'\na==2; python_version >= '3.9'\n", &[]),
        ("requirements.txt", "a>=1\na==2\n", &[]),
    ];
    expect(rule, NONE, &cases);
    let folder = Folder("flask==3.0.0\nnumpy==1.26.4");
    let context = Context { exists: Some(&folder), ..Context::default() };
    let head = "FROM docker.io/library/python:3.12\nCOPY requirements.txt ./\n";
    for (file, text, expected) in [
        ("Dockerfile", format!("{head}RUN pip install -r requirements.txt 'numpy>=2'\n"), 1),
        ("Dockerfile", format!("{head}RUN pip install -r requirements.txt 'numpy<2'\n"), 0),
        ("requirements-dev.txt", "-r requirements.txt\nflask<3\n".to_owned(), 1),
        ("requirements-dev.txt", "-c requirements.txt\nflask>=3\n".to_owned(), 0),
    ] {
        let found = findings_in(file, &text, context);
        assert_eq!(found.iter().filter(|one| one.rule.id == rule).count(), expected, "{text}");
    }
}
