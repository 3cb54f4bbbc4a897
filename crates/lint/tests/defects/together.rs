//! Problems that only several files of a project show: a Dockerfile and what it installs, and an
//! environment file and the compose files beside it.

use lint::{Context, Exists};

use crate::findings_in;

/// The names and texts of files.
pub(super) type Texts = &'static [(&'static str, &'static str)];

/// A folder in a repository.
#[derive(Debug)]
struct Folder(Texts);

impl Exists for Folder {
    fn exists(&self, file: &str, path: &str) -> Option<bool> {
        Some(self.text(file, path).is_some())
    }

    fn compose_files(&self, _: &str) -> Vec<String> {
        let is_compose = |name: &str| name.contains("compose");
        self.0
            .iter()
            .filter(|(name, _)| is_compose(name))
            .map(|(_, text)| (*text).to_owned())
            .collect()
    }

    fn beside(&self, _: &str) -> Vec<(String, String)> {
        self.0.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    fn text(&self, _: &str, path: &str) -> Option<String> {
        let path = path.trim_start_matches("./");
        self.0.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned())
    }
}

/// Checks that a rule has these findings, as `LINE MESSAGE`, in a file of a folder.
pub(super) fn expect(rule: &str, files: Texts, file: &str, text: &str, expected: &[&str]) {
    let folder = Folder(files);
    let context = Context { exists: Some(&folder), ..Context::default() };
    let found = findings_in(file, text, context);
    let found: Vec<String> = found
        .iter()
        .filter(|one| one.rule.id == rule)
        .map(|one| format!("{} {}", one.line, one.message))
        .collect();
    assert_eq!(found, expected, "{rule} in {file}:\n{text}");
}

const OPEN: Texts = &[
    ("requirements.txt", "# a\nfastapi\nnumpy\nuvicorn[standard]\n"),
    ("bounds.txt", "fastapi>=0.1\nnumpy\nrich==1.0\n"),
    ("pinned.txt", "fastapi==0.1\nnumpy<3\nrich\n"),
    ("hashes.txt", "fastapi==0.1 \\\n    --hash=sha256:1\nnumpy\nrich\ntqdm\n"),
    ("docker/other.txt", "fastapi\nnumpy\nrich\n"),
];

#[test]
fn lists_without_versions_are_reported_once() {
    let base = "FROM docker.io/library/python:3.12@sha256:1\nWORKDIR /app\n";
    let all = "`requirements.txt` gives no version for any package";
    for (lines, expected) in [
        (
            "COPY requirements.txt .\nRUN pip install -r requirements.txt\n",
            &[format!("4 {all}")][..],
        ),
        ("COPY . .\nRUN pip install \\\n    -r requirements.txt\n", &[format!("5 {all}")]),
        (
            "COPY bounds.txt /tmp/\nRUN pip install -r /tmp/bounds.txt\n",
            &["4 `bounds.txt` gives no version, or only the oldest one, for 2 of 3 packages"
                .to_owned()],
        ),
        (
            "COPY docker/other.txt ./requirements.txt\nRUN sed -i /a/d requirements.txt && pip install -r requirements.txt\n",
            &["4 `requirements.txt` gives no version for most packages".to_owned()],
        ),
        ("COPY pinned.txt .\nRUN pip install -r pinned.txt\n", &[]),
        ("COPY hashes.txt .\nRUN pip install -r hashes.txt\n", &[]),
        ("COPY . .\nRUN pip install -r requirements.txt -c constraints.txt\n", &[]),
        // The list is that of another project.
        ("COPY . .\nRUN git clone a && cd a && pip install -r requirements.txt\n", &[]),
        ("RUN pip install -r requirements.txt\n", &[]),
    ] {
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        expect("index-unpinned", OPEN, "Dockerfile", &format!("{base}{lines}"), &expected);
    }
}

const LISTS: Texts = &[
    ("requirements.txt", "torch>=2.2.0+rocm5.7\n"),
    ("old.txt", "torch==2.5.1\n"),
    ("any.txt", "torch>=2.1\n"),
    ("voice.txt", "sounddevice==0.5\n"),
];

#[test]
fn lists_are_compared_with_the_base_image() {
    let base = "FROM docker.io/rocm/pytorch:rocm6.2_ubuntu22.04_py3.10_pytorch_release_2.3.0@sha256:1\nCOPY . .\n";
    for (rule, run, expected) in [
        (
            "version-form",
            "pip install -r requirements.txt",
            &["3 `requirements.txt`, line 1: a label after `+` is allowed only with `==` and `!=`"]
                [..],
        ),
        (
            "torch-replaced",
            "pip install -r old.txt",
            &[
                "3 `torch==2.5.1` in `old.txt` does not allow the torch 2.3.0 of the base image, so pip replaces it with the CUDA build",
            ],
        ),
        ("torch-replaced", "pip install -r any.txt", &[]),
        ("torch-replaced", "pip install -r old.txt --index-url https://h.example/rocm6.2", &[]),
        ("torch-replaced", "python -m venv /v && /v/bin/pip install -r old.txt", &[]),
        (
            "package-needs-program",
            "pip install -r voice.txt",
            &["3 `sounddevice` needs `libportaudio2`, which nothing installs"],
        ),
        (
            "package-needs-program",
            "apt-get install -y libportaudio2 && pip install -r voice.txt",
            &[],
        ),
    ] {
        expect(rule, LISTS, "Dockerfile", &format!("{base}RUN {run}\n"), expected);
    }
}

const PROJECT: Texts = &[
    (
        "pyproject.toml",
        "[build-system]\nbuild-backend = \"hatchling.build\"\n[project]\nreadme = \"README.md\"\nrequires-python = \">=3.11,<3.14\"\ndependencies = [\"torch>=2.4\"]\n[project.optional-dependencies]\ndev = []\n",
    ),
    (".dockerignore", "*.md\n"),
];

#[test]
fn a_project_is_compared_with_the_image() {
    let python = "FROM docker.io/library/python:3.10-slim@sha256:1\nWORKDIR /app\n";
    let rocm = "FROM docker.io/rocm/pytorch:rocm6.2_ubuntu22.04_py3.12_pytorch_release_2.3.0@sha256:1\nWORKDIR /app\n";
    let refused = "4 `pyproject.toml` needs Python >=3.11,<3.14, but `docker.io/library/python:3.10-slim@sha256:1` has Python 3.10";
    let torch = "4 `torch>=2.4` in `pyproject.toml` does not allow the torch 2.3.0 of the base image, so pip replaces it with the CUDA build";
    for (rule, base, lines, expected) in [
        ("python-other", python, "COPY . .\nRUN pip install .\n", &[refused][..]),
        ("python-other", rocm, "COPY . .\nRUN pip install .\n", &[]),
        (
            "python-other",
            python,
            "COPY . .\nRUN apt-get install -y python3.12 && pip install .\n",
            &[],
        ),
        ("python-other", python, "COPY . /other\nRUN pip install .\n", &[]),
        ("extra-removed", rocm, "COPY . .\nRUN pip install -e .[dev]\n", &[]),
        (
            "extra-removed",
            rocm,
            "COPY . .\nRUN pip install -e \".[dev,rocm]\"\n",
            &["4 `pyproject.toml` does not define the extra `rocm`"],
        ),
        ("torch-replaced", rocm, "COPY . .\nRUN pip install .\n", &[torch]),
        ("torch-replaced", rocm, "COPY . .\nRUN pip install --no-deps .\n", &[]),
        (
            "missing-file",
            rocm,
            "COPY pyproject.toml ./\nRUN pip install .\n",
            &["4 `README.md`, which `pyproject.toml` names, is not copied"],
        ),
        ("missing-file", rocm, "COPY pyproject.toml README.md ./\nRUN pip install .\n", &[]),
        ("missing-file", rocm, "COPY pyproject.toml *.md ./\nRUN pip install .\n", &[]),
        (
            "missing-file",
            rocm,
            "COPY . .\nRUN pip install .\n",
            &["4 `.dockerignore` excludes `README.md`, which `pyproject.toml` names"],
        ),
    ] {
        expect(rule, PROJECT, "Dockerfile", &format!("{base}{lines}"), expected);
    }
}

#[test]
fn python_projects_have_lock_files() {
    let base = "FROM docker.io/library/python:3.12-slim@sha256:1\nWORKDIR /app\n";
    for (lines, expected) in [
        (
            "COPY pyproject.toml ./\nRUN poetry install --without dev\n",
            &["4 `poetry` installs without `poetry.lock`, which is not copied"][..],
        ),
        (
            "COPY pyproject.toml ./\nCOPY src src\nRUN uv sync --no-dev\n",
            &["5 `uv` installs without `uv.lock`, which is not copied"],
        ),
        ("COPY pyproject.toml poetry.lock* ./\nRUN poetry install\n", &[]),
        ("COPY . .\nRUN uv sync\n", &[]),
        (
            "COPY pyproject.toml ./\nRUN uv lock && uv sync\n",
            &["4 `uv` installs without `uv.lock`, which is not copied"],
        ),
        ("COPY pyproject.toml ./\nRUN uv pip install -e .\n", &[]),
        ("RUN --mount=type=bind,source=uv.lock,target=uv.lock uv sync\n", &[]),
    ] {
        expect("lock-file-missing", &[], "Dockerfile", &format!("{base}{lines}"), expected);
    }
}

const SECRETS: Texts = &[(".env.example", "API_KEY=\n"), (".dockerignore", "node_modules\n")];
const IGNORED: Texts = &[(".env.example", "API_KEY=\n"), (".dockerignore", ".git\n.env*\n")];

#[test]
fn secrets_are_not_copied() {
    let text = "FROM docker.io/library/python:3.12@sha256:1\nCOPY . .\n";
    let message = "2 a `.env` made from `.env.example` becomes part of the image";
    expect("password-in-file", SECRETS, "Dockerfile", text, &[message]);
    expect("password-in-file", IGNORED, "Dockerfile", text, &[]);
    expect("password-in-file", &[(".dockerignore", "a\n")], "Dockerfile", text, &[]);
}

const COMPOSE: Texts = &[(
    "docker-compose.yml",
    "services:\n  web:\n    image: a\n    env_file: .env\n    ports: [\"${WEB_PORT:-8000}:80\"]\n  redis:\n    image: b\n    ports: [\"${REDIS_PORT:-6379}:6379\"]\n    command: redis-server --requirepass ${REDIS_PASSWORD:-changeme}\n  meili:\n    image: c\n    environment:\n      - MEILI_MASTER_KEY=${MEILISEARCH_KEY:-changeme}\n",
)];

const MEILI: Texts = &[(
    "docker-compose.yml",
    "services:\n  meili:\n    image: c\n    environment:\n      - MEILI_MASTER_KEY=${MEILISEARCH_KEY:-changeme}\n",
)];

const FIXED: Texts = &[(
    "compose.yml",
    "services:\n  llm:\n    image: a\n    environment:\n      HIP_VISIBLE_DEVICES: ${HIP_VISIBLE_DEVICES:-0}\n      OLLAMA_NUM_PARALLEL: 2\n      OLLAMA_HOST: 0.0.0.0\n    volumes: [\"${OLLAMA_MODELS_FOLDER:-./models}:/models\"]\n",
)];

#[test]
fn an_environment_file_is_read_with_the_compose_files() {
    for (rule, files, text, expected) in [
        (
            "port-twice",
            COMPOSE,
            "WEB_PORT=6379\n",
            &["1 the services `web` and `redis` publish the same port, 6379"][..],
        ),
        ("port-twice", COMPOSE, "WEB_PORT=8080\n", &[]),
        (
            "default-replaces-empty",
            COMPOSE,
            "REDIS_PASSWORD=\n",
            &[
                "1 services with `env_file` get an empty `REDIS_PASSWORD`, and the others get the default, `changeme`",
            ],
        ),
        ("default-replaces-empty", COMPOSE, "REDIS_PASSWORD=a\n", &[]),
        (
            "variable-without-effect",
            MEILI,
            "MEILI_MASTER_KEY=a\n",
            &[
                "1 the service `meili` gets `MEILI_MASTER_KEY` from `${MEILISEARCH_KEY}`, which is not set here",
            ],
        ),
        ("variable-without-effect", MEILI, "MEILI_MASTER_KEY=a\nMEILISEARCH_KEY=a\n", &[]),
        // A service with `env_file` can read it.
        ("variable-without-effect", COMPOSE, "MEILI_MASTER_KEY=a\n", &[]),
        (
            "default-replaces-empty",
            FIXED,
            "# 0 = the first GPU, unset = all GPUs\nHIP_VISIBLE_DEVICES=0\n",
            &["1 without a value, the compose file gives `HIP_VISIBLE_DEVICES` the value `0`"],
        ),
        ("default-replaces-empty", FIXED, "# empty: the default\nHIP_VISIBLE_DEVICES=0\n", &[]),
        (
            "variable-without-effect",
            FIXED,
            "OLLAMA_NUM_PARALLEL=4\nOLLAMA_HOST=localhost\n",
            &[
                "1 the compose file gives `OLLAMA_NUM_PARALLEL` a fixed value, `2`, for the service `llm`",
            ],
        ),
        (
            "variable-without-effect",
            FIXED,
            "OLLAMA_NUM_PARALLEL=2\n",
            &[
                "1 the compose file gives `OLLAMA_NUM_PARALLEL` a fixed value, `2`, for the service `llm`",
            ],
        ),
        (
            "variable-unknown",
            FIXED,
            "OLLAMA_MODELS_FODLER=a\n",
            &["1 no compose file in this folder reads `OLLAMA_MODELS_FODLER`"],
        ),
        ("variable-unknown", FIXED, "OLLAMA_MODELS_FOLDER=a\nOLLAMA_MODELS_FODLER=a\n", &[]),
        (
            "value-not-replaced",
            COMPOSE,
            "RENDER_GID=$(getent group render)\n",
            &["1 `RENDER_GID` gets the text `$(getent group render)` unchanged"],
        ),
        ("value-not-replaced", &[], "RENDER_GID=$(getent group render)\n", &[]),
        ("value-not-replaced", COMPOSE, "export RENDER_GID=$(getent group render)\n", &[]),
    ] {
        expect(rule, files, ".env", text, expected);
    }
}

#[test]
fn variants_of_a_service_can_have_the_same_port() {
    let text = "services:\n  app-cpu:\n    image: a\n    ports: [\"80:80\"]\n  app-rocm:\n    image: b\n    ports: [\"80:80\"]\n";
    let both = "7 `docker compose up` starts `app-cpu` and `app-rocm`, and both publish port 80";
    expect("port-twice", &[], "compose.yml", text, &[both]);
    let text = "services:\n  a:\n    image: a\n    ports: [\"127.0.0.1:80:80\"]\n  b:\n    image: b\n    ports: [\"80:80/udp\", \"127.0.0.2:80:80\"]\n";
    expect("port-twice", &[], "compose.yml", text, &[]);
}

const IMAGES: Texts = &[
    ("Dockerfile", "FROM a AS build\nARG VERSION\nFROM b AS runtime\nARG A B=1\n"),
    ("docker-compose.yml", "services:\n  app:\n    build:\n      context: .\n"),
];

#[test]
fn a_build_uses_what_its_dockerfile_has() {
    let service = |build: &str| format!("services:\n  app:\n    build:\n      context: .\n{build}");
    for (rule, file, text, expected) in [
        (
            "compose-reference",
            "compose.rocm.yml",
            service("      target: final\n"),
            &["5 `Dockerfile` has no stage `final`"][..],
        ),
        ("compose-reference", "compose.rocm.yml", service("      target: Runtime\n"), &[]),
        (
            "variable-without-effect",
            "compose.rocm.yml",
            service("      args:\n        VERSION: 1\n        ROCM: 2\n"),
            &["7 `Dockerfile` has no `ARG ROCM`"],
        ),
        (
            "variable-without-effect",
            "docker-compose.rocm.yml",
            "services:\n  app:\n    build:\n      args: [B=2, ROCM=2]\n".to_owned(),
            &["4 `Dockerfile` has no `ARG ROCM`"],
        ),
        (
            "variable-without-effect",
            "compose.rocm.yml",
            service("      args: [HTTP_PROXY, B=2]\n"),
            &[],
        ),
    ] {
        expect(rule, IMAGES, file, &text, expected);
    }
}

/// The ways in which a script gets variables from a file near it, and a file with another name.
const CALLERS: [Texts; 3] = [
    &[("Dockerfile", "FROM docker.io/a/b@sha256:1\nARG A_REPO \\\n    A_BRANCH\nRUN /build.sh\n")],
    &[("compose.yml", "services:\n  a:\n    image: a/b\n    environment:\n      - A_BRANCH\n")],
    &[("Dockerfile", "FROM docker.io/a/b@sha256:1\nARG MY_A_BRANCH\n")],
];

#[test]
fn a_build_that_runs_a_script_passes_it_variables() {
    let script = "git clone --branch=\"$A_BRANCH\" https://h.example/a\n";
    let message = &["1 `A_BRANCH` is used, but not defined"];
    let [build, container, other] = CALLERS;
    expect("undefined-pin", build, "build.sh", script, &[]);
    expect("undefined-pin", container, "build.sh", script, &[]);
    expect("undefined-pin", other, "build.sh", script, message);
}
