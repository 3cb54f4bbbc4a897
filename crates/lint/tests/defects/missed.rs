//! Mistakes that reviewers named, and `lint` did not.

use super::together::{Texts, expect as in_folder};
use super::{NONE, expect};

const LOCKED: Texts = &[("requirements.in", "flask\n")];
const PACKAGE: Texts = &[("setup.py", "open('requirements.txt')\n")];

#[test]
fn a_list_is_checked_on_its_own() {
    let open = "-i https://h.example/simple\n# a\nflask\nPillow==9.5.0\nrich>=13\ntqdm\n";
    let message = "3 3 of 4 packages have no version, or only the oldest one";
    let rule = "index-unpinned";
    in_folder(rule, &[], "requirements.txt", open, &[message]);
    in_folder(rule, &[], "requirements-rocm.txt", open, &[message]);
    in_folder(rule, &[], "requirements-dev.txt", open, &[]);
    in_folder(rule, &[], "docs/requirements.txt", open, &[]);
    in_folder(rule, LOCKED, "requirements.txt", open, &[]);
    in_folder(rule, PACKAGE, "requirements.txt", open, &[]);
    in_folder(rule, &[], "requirements.txt", &format!("-c constraints.txt\n{open}"), &[]);
    in_folder(rule, &[], "requirements.txt", "flask==3.1\nrich==13.9\ntqdm\n", &[]);
    in_folder(rule, &[], "requirements.txt", "flask<4\nrich~=13.9\ntqdm\n", &[]);
    in_folder(rule, &[], "requirements.txt", "flask\ntqdm\n", &[]);
}

const PROJECT: Texts = &[(
    "pyproject.toml",
    "[project]\nname = \"a\"\ndependencies = [\"flask\", \"rich>=13\", \"tqdm\", \"numpy<3\"]\n",
)];

#[test]
fn a_project_can_leave_its_packages_open() {
    let base = "FROM docker.io/a/b@sha256:1\nWORKDIR /app\nCOPY . .\n";
    let message =
        "4 `pyproject.toml` gives no version, or only the oldest one, for 3 of 4 packages";
    for (lines, expected) in [
        ("RUN pip install -e .\n", &[message][..]),
        ("RUN pip install --no-deps .\n", &[]),
        ("RUN pip install . -c constraints.txt\n", &[]),
        ("RUN git clone https://h.example/a\nRUN pip install .\n", &[]),
    ] {
        in_folder("index-unpinned", PROJECT, "Dockerfile", &format!("{base}{lines}"), expected);
    }
}

const LISTS: Texts = &[("constraints.txt", "torch==2.9.1\njupyter==1.1.1\n")];

#[test]
fn constraints_fix_only_the_packages_that_they_name() {
    let base = "FROM docker.io/a/b@sha256:1\n";
    let some = "RUN pip freeze | grep -E '^(torch|torchvision)==' > /tmp/c.txt && \\\n    pip install -c /tmp/c.txt \\\n      torch jupyter\n";
    let message = "4 `jupyter` has no version, and the constraints file does not name it";
    for (lines, expected) in [
        (some.to_owned(), &[message][..]),
        (some.replace("torch|torchvision", "torch|jupyter"), &[]),
        (some.replace("jupyter", "jupyter==1.1.1"), &[]),
        ("RUN pip freeze > /tmp/c.txt && pip install -c /tmp/c.txt jupyter\n".to_owned(), &[]),
        ("RUN pip install -c https://h.example/c.txt jupyter\n".to_owned(), &[]),
        ("RUN pip install -c /opt/c.txt jupyter\n".to_owned(), &[]),
        ("COPY constraints.txt .\nRUN pip install -c constraints.txt jupyter\n".to_owned(), &[]),
        (
            "COPY constraints.txt .\nRUN pip install -c constraints.txt einops\n".to_owned(),
            &["3 `einops` has no version, and the constraints file does not name it"],
        ),
    ] {
        in_folder("index-unpinned", LISTS, "Dockerfile", &format!("{base}{lines}"), expected);
    }
}

#[test]
fn the_list_of_a_clone_is_not_a_lock() {
    let base = "FROM docker.io/a/b@sha256:1\nRUN git clone https://h.example/a /a\nWORKDIR /a\n";
    let message = "4 nothing fixes the versions that `requirements.txt` of the clone leaves open";
    for (lines, expected) in [
        (
            "RUN venv/bin/pip3 install -r requirements.txt -r manager_requirements.txt\n",
            &[message][..],
        ),
        ("RUN pip install -r requirements.txt -c /c.txt\n", &[]),
        ("RUN pip install --no-deps -r requirements.txt\n", &[]),
        ("RUN pip install -r requirements_versions.txt\n", &[]),
        ("RUN pip install -r requirements.lock.txt\n", &[]),
        (
            "RUN pip install -e . --pre\n",
            &["4 with `--pre`, `-e .` also installs pre-releases of all packages that it needs"],
        ),
        ("RUN pip install -e .\n", &[]),
    ] {
        in_folder("index-unpinned", &[], "Dockerfile", &format!("{base}{lines}"), expected);
    }
    let beside = format!("{base}WORKDIR /app\nRUN pip install -r requirements.txt\n");
    in_folder("index-unpinned", &[], "Dockerfile", &beside, &[]);
    let own = "FROM docker.io/a/b@sha256:1\nRUN pip install -r requirements.txt\n";
    in_folder("index-unpinned", &[], "Dockerfile", own, &[]);
}

const STARTS: Texts = &[
    ("scripts/start.sh", "pip install -r requirements.txt\nexec python main.py\n"),
    ("beside.sh", "pip install a\n"),
];

const STARTED: Texts = &[("../Dockerfile", "FROM a\nCMD [\"bash\", \"/run.sh\"]\n")];

#[test]
fn what_an_image_starts_installs_nothing() {
    let base = "FROM docker.io/a/b@sha256:1\nCOPY scripts/start.sh beside.sh /app/\n";
    let message = "software is installed with `pip3` when the container starts";
    for (start, expected) in [
        (
            "ENTRYPOINT cd a && pip3 install -r requirements.txt && python3 main.py\n",
            vec![format!("3 {message}")],
        ),
        ("CMD [\"bash\", \"-c\", \"pip3 install a && b\"]\n", vec![format!("3 {message}")]),
        (
            "CMD [\"/app/start.sh\"]\n",
            vec![
                "3 software is installed with `pip` when the container starts (`start.sh`, line 1)"
                    .to_owned(),
            ],
        ),
        ("CMD [\"python3\", \"main.py\", \"install\"]\n", vec![]),
        ("CMD pip3 install a\nCMD python3 main.py\n", vec![]),
    ] {
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        let text = format!("{base}{start}");
        in_folder("install-at-start", STARTS, "Dockerfile.rocm", &text, &expected);
    }
    // The script has its own finding.
    let text = format!("{base}CMD [\"/app/start.sh\"]\n");
    in_folder("install-at-start", STARTS, "Dockerfile", &text, &[]);
    let script = "pip install a\nexec python main.py\n";
    let message = "1 software is installed with `pip` when the container starts";
    in_folder("install-at-start", STARTED, "run.sh", script, &[message]);
    in_folder("install-at-start", STARTED, "other.sh", script, &[]);
}

#[test]
fn a_filter_hides_the_status_of_a_build() {
    let script = |rest: &str| format!("#!/bin/bash\nset -e\n{rest}\n");
    for (text, expected) in [
        (script("cmake --build b 2>&1 | tee build.log\n./test"), &["3 information"][..]),
        (script("{\n./llama-bench -m a\n} | tee out.txt"), &["5 information"]),
        (script("./a\n{\n  echo a\n  date\n} | tee out.txt"), &[]),
        (script("./a | tee log || exit 1"), &[]),
        (script("./a | tee log; [ ${PIPESTATUS[0]} -eq 0 ]"), &[]),
        (script("if ./a | tee log; then b; fi"), &[]),
        (script("echo 'deb x' | tee /etc/apt/sources.list.d/a.list"), &[]),
        (script("cmake --build b").replace("set -e", "set -eo pipefail") + "./a | tee b\n", &[]),
        ("#!/bin/bash\n./a | tee b\n".to_owned(), &[]),
    ] {
        expect("build-status-lost", NONE, &[("run.sh", &text, expected)]);
    }
    let build = "FROM docker.io/a/b@sha256:1\nRUN make -j4 2>&1 | tee build.log\n";
    expect("build-status-lost", NONE, &[("Dockerfile", build, &["2 warning"])]);
    let safe = "FROM docker.io/a/b@sha256:1\nSHELL [\"/bin/bash\", \"-o\", \"pipefail\", \"-c\"]\nRUN make -j4 2>&1 | tee build.log\nCMD ./a | tee /log\n";
    expect("build-status-lost", NONE, &[("Dockerfile", safe, &[])]);
}

#[test]
fn a_part_of_a_file_is_not_the_file() {
    let url = "https://h.example/resolve/0123456789abcdef0123456789abcdef01234567/a.gguf";
    for (text, expected) in [
        (
            format!("if [ ! -f \"$M\" ]; then\n  echo x\n  wget -q -O \"$M\" \\\n    {url}\nfi\n"),
            &["3 information"][..],
        ),
        (format!("[ -f a.gguf ] || curl -Lo a.gguf {url}\n"), &["1 information"]),
        (format!("[[ ! -e $M ]] && wget -O $M {url}\n"), &["1 information"]),
        (
            format!(
                "if [ ! -f \"$M\" ]; then\n  wget -O \"$M.part\" {url}\n  mv \"$M.part\" \"$M\"\nfi\n"
            ),
            &[],
        ),
        (format!("if [ ! -f \"$M\" ]; then\n  wget -O \"$M\" {url} || rm -f \"$M\"\nfi\n"), &[]),
        (
            format!("if [ ! -f \"$M\" ]; then\n  wget -O \"$M\" {url}\n  sha256sum -c a.sum\nfi\n"),
            &[],
        ),
        (format!("if [ -f \"$M\" ]; then\n  wget -O \"$M\" {url}\nfi\n"), &[]),
        (format!("if [ ! -f \"$OTHER\" ]; then\n  wget -O \"$M\" {url}\nfi\n"), &[]),
        (format!("if [ ! -f \"$M\" ]; then\n  curl --remove-on-error -o \"$M\" {url}\nfi\n"), &[]),
        ("[ -f key.asc ] || wget -O key.asc https://h.example/key.asc\n".to_owned(), &[]),
        (format!("wget -O a.gguf {url}\n[ -f a.gguf ] || exit 1\n"), &[]),
    ] {
        expect("download-partial", NONE, &[("fetch.sh", &text, expected)]);
    }
}

#[test]
fn a_pull_can_take_longer_than_a_start() {
    // podman asks systemd for more time while it pulls the image of a quadlet.
    let quadlet = "[Container]\nImage=docker.io/ollama/ollama:rocm\n[Service]\nRestart=always\n";
    expect("unit-start-timeout", NONE, &[("a.container", quadlet, &[])]);
    let after = format!("{quadlet}ExecStartPost=/usr/bin/podman exec a ollama pull b\n");
    expect("unit-start-timeout", NONE, &[("a.container", &after, &["5 information"])]);
    let other = format!("{quadlet}ExecStartPost=/usr/bin/podman exec a ollama list\n");
    expect("unit-start-timeout", NONE, &[("a.container", &other, &[])]);
    let service = "[Service]\nExecStartPre=-/usr/bin/docker pull docker.io/a/b\nExecStart=/usr/bin/docker run docker.io/a/b\n";
    expect("unit-start-timeout", NONE, &[("a.service", service, &["2 information"])]);
    let once = format!("{service}Type=oneshot\n");
    expect("unit-start-timeout", NONE, &[("a.service", &once, &[])]);
    let longer = service.replace("ExecStart=", "TimeoutStartSec=0\nExecStart=");
    expect("unit-start-timeout", NONE, &[("a.service", &longer, &[])]);
    let run = "[Service]\nExecStart=/usr/bin/docker run docker.io/ollama/ollama\n";
    expect("unit-start-timeout", NONE, &[("a.service", run, &[])]);
}

const SERVED: Texts =
    &[("Dockerfile", "FROM a\nCOPY run.sh /\nCMD [\"/run.sh\"]\n"), ("other.sh", "x\n")];

#[test]
fn two_servers_in_one_shell_need_a_supervisor() {
    let two = "#!/bin/bash\nollama serve &\nsleep 5\nexec uvicorn app:app --host 0.0.0.0\n";
    let message = "several servers run in one shell: if this one ends, nobody notices, and signals do not reach them";
    let rule = "servers-unsupervised";
    in_folder(rule, SERVED, "run.sh", two, &[&format!("2 {message}")]);
    in_folder(rule, SERVED, "other.sh", two, &[]);
    for text in [
        "ollama serve &\nollama pull a\nwait\n",
        "ollama serve &\nuvicorn a:app &\nwait -n\nexit 1\n",
        "ollama serve &\npid=$!\nollama pull a\nkill $pid\nexec uvicorn a:app\n",
        "(sleep 5; curl localhost) &\nexec uvicorn a:app\n",
        "trap 'kill 0' EXIT\nollama serve &\nuvicorn a:app\n",
    ] {
        in_folder(rule, SERVED, "run.sh", text, &[]);
    }
    let base = "FROM docker.io/a/b@sha256:1\n";
    let written = format!(
        "{base}RUN echo \"ollama serve &\" > serve.sh\nRUN echo \"PORT='8000' bash start.sh\" >> serve.sh\nCMD [\"bash\", \"serve.sh\"]\n"
    );
    in_folder(rule, &[], "Dockerfile", &written, &[&format!("2 {message}")]);
    let document = format!(
        "{base}COPY <<EOF /start.sh\n#!/bin/bash\nollama serve &\nexec uvicorn a:app\nEOF\nCMD [\"bash\", \"/start.sh\"]\n"
    );
    in_folder(rule, &[], "Dockerfile", &document, &[&format!("4 {message}")]);
    let services = "services:\n  a:\n    image: a\n    command: sh -c 'ollama serve & sleep 5; ollama pull b; wait'\n  b:\n    image: b\n    command: uvicorn a:app\n";
    in_folder(rule, &[], "compose.yml", services, &[]);
    let one =
        "services:\n  a:\n    image: a\n    command: [sh, -c, 'ollama serve & uvicorn a:app']\n";
    in_folder(rule, &[], "compose.yml", one, &[&format!("4 {message}")]);
    let single = format!("{base}CMD [\"uvicorn\", \"a:app\"]\n");
    in_folder(rule, &[], "Dockerfile", &single, &[]);
}

#[test]
fn a_health_check_asks_its_own_container() {
    let service = |ports: &str, test: &str| {
        format!(
            "services:\n  a:\n    image: docker.io/a/b:1\n    ports: [\"{ports}\"]\n    healthcheck:\n      test: [\"CMD-SHELL\", \"curl -f {test} || exit 1\"]\n"
        )
    };
    for (text, expected) in [
        (service("8028:80", "http://${HOST_IP}:8028/health"), &["6 warning"][..]),
        (service("8028:80", "http://host.docker.internal:8028/health"), &["6 warning"]),
        (service("8028:80", "http://localhost:8028/health"), &["6 warning"]),
        (service("8028:80", "http://localhost:80/health"), &[]),
        (service("8028:8028", "http://localhost:8028/health"), &[]),
        (service("8028:80", "http://localhost:9000/health"), &[]),
        (service("8028:${PORT}", "http://localhost:8028/health"), &[]),
        (
            service("8028:80", "http://localhost:8028/health") + "    environment: [PORT=8028]\n",
            &[],
        ),
        (service("8028:80", "http://${HOST_IP}:80/") + "    network_mode: host\n", &[]),
    ] {
        expect("healthcheck-address", NONE, &[("compose.yml", &text, expected)]);
    }
}

const WAITING: Texts = &[
    ("waits/Dockerfile", "FROM a\nCOPY start.sh /\nENTRYPOINT [\"/start.sh\"]\n"),
    ("start.sh", "until pg_isready -h db; do sleep 1; done\n"),
    ("plain/Dockerfile", "FROM a\nCMD [\"gunicorn\", \"a\"]\n"),
];

#[test]
fn a_database_needs_time_before_it_answers() {
    let file = |build: &str, needed: &str, rest: &str| {
        format!(
            "services:\n  api:\n    {build}\n    depends_on: {needed}\n{rest}  db:\n    image: docker.io/library/postgres:17\n  cache:\n    image: docker.io/library/redis:7\n"
        )
    };
    let message = "4 the service starts before `db` accepts connections";
    for (text, expected) in [
        (file("build: plain", "[db, cache]", ""), &[message][..]),
        (file("image: a", "{db: {condition: service_started}}", ""), &[message]),
        (file("image: a", "{db: {condition: service_healthy}}", ""), &[]),
        (file("image: a", "[cache]", ""), &[]),
        (file("build: waits", "[db]", ""), &[]),
        (file("image: a", "[db]", "    command: sh -c 'sleep 9; a'\n"), &[]),
        (file("image: docker.io/dpage/pgadmin4:9", "[db]", ""), &[]),
    ] {
        in_folder("compose-start-order", WAITING, "compose.yml", &text, expected);
    }
    let pull = "services:\n  init:\n    image: docker.io/ollama/ollama:0.20.0\n    entrypoint: ollama pull a\n    depends_on:\n      - ollama\n  ollama:\n    image: docker.io/ollama/ollama:0.20.0\n";
    let message = "6 the service starts before `ollama` answers";
    in_folder("compose-start-order", &[], "compose.yml", pull, &[message]);
    let chat = pull.replace("entrypoint: ollama pull a", "command: serve");
    in_folder("compose-start-order", &[], "compose.yml", &chat, &[]);
}

#[test]
fn a_model_server_needs_minutes_before_it_is_healthy() {
    let file = |image: &str, check: &str, condition: &str| {
        format!(
            "services:\n  m:\n    image: {image}\n    healthcheck: {{test: a, {check}}}\n  b:\n    image: b\n    depends_on: {{m: {{condition: {condition}}}}}\n"
        )
    };
    let vllm = "docker.io/vllm/vllm-openai-rocm:v0.20.0";
    let message = |time| {
        format!(
            "4 `m` counts as unhealthy after {time} seconds, and what waits for it then does not start"
        )
    };
    for (text, expected) in [
        (file(vllm, "interval: 10s, retries: 3", "service_healthy"), vec![message(30)]),
        (file(vllm, "start_period: 20s", "service_healthy"), vec![message(110)]),
        (file(vllm, "start_period: 10m", "service_healthy"), vec![]),
        (file(vllm, "retries: 100", "service_healthy"), vec![]),
        (file(vllm, "interval: \"${I}\"", "service_healthy"), vec![]),
        (file(vllm, "retries: 1", "service_started"), vec![]),
        (file("docker.io/ollama/ollama:0.20.0", "retries: 1", "service_healthy"), vec![]),
    ] {
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        in_folder("healthcheck-early", &[], "compose.yml", &text, &expected);
    }
}

const TAGS: Texts = &[(".env.example", "# a\nTAG=latest\nFIXED=1.2.3\nREGISTRY=docker.io/a\n")];

#[test]
fn the_tag_of_an_image_can_be_in_the_environment_file() {
    let file = |image: &str| format!("services:\n  a:\n    image: {image}\n");
    let message =
        "3 `TAG` is `latest` in `.env.example`, so the image can be a different one every day";
    for (image, expected) in [
        ("docker.io/a/b:${TAG}", &[message][..]),
        ("${REGISTRY}/b:$TAG", &[message]),
        ("docker.io/a/b:${FIXED}", &[]),
        ("docker.io/a/b:${OTHER}", &[]),
        ("docker.io/a/b:${TAG}@sha256:1", &[]),
    ] {
        in_folder("image-latest", TAGS, "compose.yml", &file(image), expected);
    }
    let built = format!("{}    build: .\n", file("docker.io/a/b:${TAG}"));
    in_folder("image-latest", TAGS, "compose.yml", &built, &[]);
}

const OWNERS: Texts = &[
    ("Dockerfile.rocm", "FROM a\nRUN mkdir /s && chown app /s\nUSER app\n"),
    ("sudo/Dockerfile", "FROM a\nRUN apt-get install sudo\nUSER app\n"),
];

#[test]
fn docker_creates_folders_for_root() {
    let file =
        |image: &str| format!("services:\n  a:\n    {image}\n    volumes: [\"./out:/out\"]\n");
    let of = |user: &str| {
        format!(
            "4 if `./out` is missing, docker creates it as root, and the user `{user}` cannot write there"
        )
    };
    for (image, expected) in [
        ("build: {context: ., dockerfile: Dockerfile.rocm}", vec![of("app")]),
        ("image: docker.io/n8nio/n8n:1", vec![of("node")]),
        ("image: docker.io/bitnami/redis:7", vec![of("1001")]),
        ("image: docker.io/grafana/grafana-oss:12", vec![of("grafana")]),
        ("image: docker.io/library/redis:7", vec![]),
        ("build: sudo", vec![]),
        ("{image: docker.io/n8nio/n8n:1, user: root}", vec![]),
    ] {
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        let text = if image.starts_with('{') {
            file("image: docker.io/n8nio/n8n:1") + "    user: root\n"
        } else {
            file(image)
        };
        in_folder("mount-owner", OWNERS, "docker-compose.rocm.yml", &text, &expected);
    }
}
