//! What an image contains while it is built: paths, owners, users.

use super::{NONE, expect, together};

const CLEAN: &[&str] = &[];
const PYTHON: &str = "FROM docker.io/library/python:3.12@sha256:1\n";

fn check(rule: &str, cases: &[(&str, &[&str])]) {
    for (lines, expected) in cases {
        let text = format!("{PYTHON}{lines}");
        expect(rule, NONE, &[("Dockerfile", &text, expected)]);
    }
}

#[test]
fn a_path_that_nothing_makes_does_not_exist() {
    check(
        "path-absent",
        &[
            ("WORKDIR /app\nRUN pip install -r a.txt\n", &["3 error"]),
            ("WORKDIR /app\nCOPY a.txt .\nRUN cd /app/b && ls\n", &["4 error"]),
            ("RUN mkdir /a && cd /a && sh ./run.sh; ls\n", &["2 warning"]),
            ("RUN ./run.sh\nCOPY run.sh /app/\n", &["2 error"]),
            ("WORKDIR /app\nRUN ./run.sh\nCOPY run.sh /app/\n", &["3 error"]),
            ("RUN curl -o /models/a.gguf https://h.example/a.gguf\n", &["2 error"]),
            ("RUN echo a > /etc2/a\n", &["2 error"]),
            ("RUN mkdir /a/b\n", &["2 error"]),
            ("RUN mkdir /a && rm -rf /a && chmod 755 /a\n", &["2 error"]),
            ("FROM 0\nFROM python:3.12 AS b\nCOPY --from=0 /opt2/x /x\n", &["4 error"]),
            // Something may have made it.
            ("WORKDIR /app\nCOPY . .\nRUN pip install -r a.txt\n", CLEAN),
            ("WORKDIR /app\nCOPY a ./\nRUN pip install -r a.txt\n", CLEAN),
            ("WORKDIR /app\nRUN ./make.sh || pip install -r a.txt\n", CLEAN),
            ("WORKDIR /app\nRUN if [ -f a ]; then pip install -r a.txt; fi\n", CLEAN),
            ("WORKDIR /app\nRUN curl https://h.example/a | bash && pip install -r a.txt\n", CLEAN),
            ("WORKDIR /app\nRUN python -c 'x()' && pip install -r a.txt\n", CLEAN),
            ("WORKDIR /app\nRUN git clone https://h.example/a . && pip install -r a.txt\n", CLEAN),
            ("RUN git clone https://h.example/a && cd a && pip install -r b/a.txt\n", CLEAN),
            ("RUN (mkdir /a && cd /a && touch b) && cat /a/b\n", CLEAN),
            ("RUN mkdir -p /a/{b,c} && cd /a/c && true\n", CLEAN),
            ("RUN mkdir /a && cd /a && wget https://h.example/a.sh && sh ./a.sh\n", CLEAN),
            ("RUN --mount=type=bind,target=/src sh /src/a.sh\n", CLEAN),
            ("RUN <<EOF\nmkdir /a\nEOF\nRUN cd /a && touch b\n", CLEAN),
            ("ARG D\nRUN mkdir ${D} && cd /a && touch b\n", CLEAN),
            ("ARG D=/a\nRUN mkdir ${D} && cd /a && touch b\n", CLEAN),
            ("RUN pip install --target /a x && cp -r /a/b /c\n", CLEAN),
            ("RUN cmake -B build && make -C build && cp build/a /usr/bin/a\n", CLEAN),
            ("VOLUME /a\nRUN cd /a && touch b\n", CLEAN),
            ("RUN cat /proc/a /etc/b /usr/share/c\n", CLEAN),
        ],
    );
    let unknown = "FROM docker.io/a/b@sha256:1\nWORKDIR /app\nRUN cd /x && pip install -r a.txt\n";
    expect("path-absent", NONE, &[("Dockerfile", unknown, CLEAN)]);
    let alias = "ARG A=0\nFROM python:3.12 AS b-0\nRUN mkdir /x\nFROM b-${A} AS b\nFROM python:3.12\nCOPY --from=b /x /x\n";
    expect("path-absent", NONE, &[("Dockerfile", alias, CLEAN)]);
    let chosen = "ARG B=python:3.12\nFROM ${B}\nRUN cd /x && pip install -r a.txt\n";
    expect("path-absent", NONE, &[("Dockerfile", chosen, CLEAN)]);
}

#[test]
fn a_user_writes_only_to_own_folders() {
    check(
        "folder-not-writable",
        &[
            ("WORKDIR /app\nUSER a\nRUN touch b\n", &["4 error"]),
            ("USER a\nRUN mkdir /app\n", &["3 error"]),
            ("USER a\nRUN git clone https://h.example/a /app/a\n", &["3 error"]),
            ("WORKDIR /app\nCOPY package.json .\nUSER a\nRUN npm install\n", &["5 error"]),
            ("ENV HF_HOME=/models\nRUN mkdir /models\nUSER a\n", &["2 warning"]),
            ("RUN mkdir -p /app/logs\nUSER a\n", &["2 warning"]),
            ("VOLUME /app/data\nUSER a\n", &["2 warning"]),
            // It belongs to the user, or to nobody that is known.
            ("USER a\nWORKDIR /app\nRUN touch b\n", CLEAN),
            ("WORKDIR /app\nRUN chown a /app\nUSER a\nRUN touch b\n", CLEAN),
            ("WORKDIR /app\nRUN chown -R a:a /app\nUSER a\nRUN touch b\n", CLEAN),
            ("WORKDIR /app\nRUN chmod 777 /app\nUSER a\nRUN touch b\n", CLEAN),
            (
                "WORKDIR /app\nRUN chgrp -R 0 /app && chmod -R g=u /app\nUSER 1001\nRUN touch b\n",
                CLEAN,
            ),
            ("RUN install -d -o a /app\nUSER a\nRUN touch /app/b\n", CLEAN),
            ("RUN useradd -m a -d /app\nUSER a\nRUN touch /app/b\n", CLEAN),
            ("COPY --chown=a . /app\nUSER a\nRUN touch /app/b\n", CLEAN),
            ("WORKDIR /app\nRUN chown -R 1000 /app\nUSER a\nRUN touch /app/b\n", CLEAN),
            ("WORKDIR /app\nCOPY a.sh .\nRUN ./a.sh\nUSER a\nRUN touch /app/b\n", CLEAN),
            ("USER a\nRUN touch /tmp/b ~/c /home/a/d\n", CLEAN),
            ("WORKDIR /app\nUSER a\nRUN sudo touch b\n", CLEAN),
            ("WORKDIR /app\nUSER a\nRUN touch b || true\n", CLEAN),
            ("WORKDIR /app\nUSER a\nUSER root\nRUN touch b\n", CLEAN),
            ("ENV HF_HOME=/models\nRUN mkdir /models && chown a /models\nUSER a\n", CLEAN),
            ("RUN mkdir -p /app/logs && touch /app/logs/a\nUSER a\n", CLEAN),
            ("RUN mkdir -p /app/models\nUSER a\n", CLEAN),
            ("USER a\nRUN pip install x\n", CLEAN),
        ],
    );
}

#[test]
fn a_user_must_exist() {
    check(
        "user-missing",
        &[
            ("USER app\n", &["2 error"]),
            ("COPY --chown=app a /a\nRUN useradd app\n", &["2 error"]),
            ("RUN useradd app\nCOPY --chown=app:app a /a\nUSER app\n", CLEAN),
            ("RUN adduser --disabled-password --gecos '' app\nUSER app\n", CLEAN),
            ("RUN apt-get install -y app-server\nUSER app\n", CLEAN),
            ("RUN echo 'app:x:1:1::/:/bin/sh' >> /etc/passwd\nUSER app\n", CLEAN),
            ("COPY a.sh /\nRUN /a.sh\nUSER app\n", CLEAN),
            ("ARG U=app\nRUN useradd $U\nUSER $U\n", CLEAN),
            ("ARG U\nRUN useradd $U\nUSER app\n", CLEAN),
            ("USER 1000:1000\n", CLEAN),
            ("USER nobody\n", CLEAN),
        ],
    );
}

#[test]
fn a_cache_in_the_home_folder_needs_one() {
    let pip = "RUN pip install transformers==4.57.1\n";
    for (lines, expected) in [
        ("RUN useradd app\nUSER app\n", &["3 warning"][..]),
        ("RUN useradd -r app\nUSER app\n", &["3 warning"]),
        ("RUN useradd -m app\nUSER app\n", CLEAN),
        ("RUN useradd app && mkdir -p /home/app && chown app /home/app\nUSER app\n", CLEAN),
        ("ENV HF_HOME=/cache\nRUN useradd app\nUSER app\n", CLEAN),
        ("RUN adduser --system app\nUSER app\n", CLEAN),
        ("RUN useradd app\n", CLEAN),
    ] {
        let text = format!("{PYTHON}{pip}{lines}");
        expect("home-missing", NONE, &[("Dockerfile", &text, expected)]);
    }
    let fedora =
        format!("FROM docker.io/library/fedora:43@sha256:1\n{pip}RUN useradd app\nUSER app\n");
    expect("home-missing", NONE, &[("Dockerfile", &fedora, CLEAN)]);
}

#[test]
fn shells_read_files_only_in_home_folders() {
    check(
        "startup-file-unread",
        &[
            ("RUN echo a >> .bashrc\n", &["2 warning"]),
            ("WORKDIR /root\nRUN echo a >> .bashrc\n", CLEAN),
            (
                "RUN echo a >> ~/.bashrc && echo b >> /root/.zshrc && echo c > /etc/skel/.profile\n",
                CLEAN,
            ),
            ("ENV HOME=/app\nWORKDIR /app\nRUN echo a >> .bashrc\n", CLEAN),
            ("RUN useradd -d /app a\nWORKDIR /app\nRUN echo a >> .bashrc\n", CLEAN),
            ("RUN echo a >> .bashrc.txt\n", CLEAN),
        ],
    );
}

#[test]
fn an_argument_is_for_something() {
    for (text, expected) in [
        ("ARG BASE\nFROM a/b@sha256:1\n", &["1 warning"][..]),
        ("FROM a/b@sha256:1\nARG A_VERSION=1\nRUN pip install a==2\n", &["2 information"]),
        ("ARG BASE\nARG TAG\nARG B\nFROM a/b@sha256:1\n", &["1 warning"]),
        ("ARG BASE\nFROM $BASE\n", CLEAN),
        ("ARG A=1\nARG BASE=a/b:${A}\nFROM ${BASE}\n", CLEAN),
        ("ARG A=1\nFROM a/b@sha256:1\nARG A\nRUN ./a.sh\n", CLEAN),
        ("ARG TARGETARCH\nARG BUILDKIT_X=1\nFROM a/b@sha256:1\n", CLEAN),
        ("FROM a/b@sha256:1\nARG A_VERSION=1\nRUN ./a.sh\n", CLEAN),
        ("FROM a/b@sha256:1\nARG A_VERSION\nRUN pip install a==2\n", CLEAN),
        ("FROM a/b@sha256:1\nARG USE_A=1\nRUN pip install a==2\n", CLEAN),
        ("FROM a/b@sha256:1\nARG A_VERSION=1\nRUN pip install a==$A_VERSION\n", CLEAN),
    ] {
        expect("argument-unused", NONE, &[("Dockerfile", text, expected)]);
    }
}

#[test]
fn an_argument_that_a_command_needs_has_a_default() {
    for (lines, expected) in [
        ("ARG TAG\nRUN git clone -b ${TAG} https://h.example/a\n", &["2 warning"][..]),
        ("ARG V\nRUN pip install a==$V\n", &["2 warning"]),
        ("ARG V\nADD https://h.example/a-${V}.tar.gz /\n", &["2 warning"]),
        ("ARG TAG=1\nRUN git clone -b ${TAG} https://h.example/a\n", CLEAN),
        ("ARG TAG\nENV TAG=1\nRUN git clone -b ${TAG} https://h.example/a\n", CLEAN),
        (
            "ARG TAG\nRUN if [ -n \"$TAG\" ]; then git clone -b ${TAG} https://h.example/a; fi\n",
            CLEAN,
        ),
        ("ARG TAG\nRUN git clone ${TAG:+-b $TAG} https://h.example/a ${X:-}\n", CLEAN),
        ("ARG TAGS\nRUN git clone -b $TAG https://h.example/a\n", CLEAN),
        ("ARG MIRROR\nRUN pip install a --index-url=$MIRROR\n", CLEAN),
    ] {
        let text = format!("FROM docker.io/a/b@sha256:1\n{lines}");
        expect("argument-without-value", NONE, &[("Dockerfile", &text, expected)]);
    }
    let global =
        "ARG TAG=1\nFROM a/b@sha256:1\nARG TAG\nRUN git clone -b $TAG https://h.example/a\n";
    expect("argument-without-value", NONE, &[("Dockerfile", global, CLEAN)]);
    let scripted = "ARG B\nFROM $B\nARG TAG\nRUN git clone -b $TAG https://h.example/a\n";
    expect("argument-without-value", NONE, &[("Dockerfile", scripted, CLEAN)]);
}

#[test]
fn a_removal_finds_something() {
    check(
        "removal-useless",
        &[
            ("ENV HF_HOME=/m\nRUN a && rm -rf ~/.cache/huggingface\n", &["3 information"]),
            ("RUN rm -rf /var/lists/apt/*\n", &["2 information"]),
            ("ENV HF_HOME=/m\nRUN a && rm -rf /m ~/.cache/pip\n", CLEAN),
            ("ENV HF_HOME=/root/.cache/huggingface\nRUN rm -rf ~/.cache/huggingface\n", CLEAN),
            ("RUN rm -rf /var/lib/apt/lists/* /tmp/* /opt/a\n", CLEAN),
            ("RUN rm -rf /var/cache/yum\nRUN yum install -y a && rm -rf /var/cache/yum\n", CLEAN),
            ("RUN mkdir /a && rm -rf /a && rm -rf /a\n", CLEAN),
            ("RUN rm -f /a\n", CLEAN),
        ],
    );
}

#[test]
fn a_container_that_only_prepares_a_shell_ends() {
    check(
        "container-ends",
        &[
            ("CMD [\"bash\", \"-c\", \"source /v/bin/activate\"]\n", &["2 error"]),
            ("ENTRYPOINT . /v/bin/activate\n", &["2 error"]),
            ("CMD bash -c 'source /v/bin/activate && exec python a.py'\n", CLEAN),
            ("CMD . /v/bin/activate; bash\n", CLEAN),
            ("CMD [\"bash\"]\n", CLEAN),
            ("ENTRYPOINT [\"/a\"]\nCMD [\"source\"]\n", CLEAN),
        ],
    );
}

#[test]
fn a_folder_is_not_entered_twice() {
    let clone = "FROM docker.io/a/b@sha256:1\nRUN git clone https://h.example/a && cd a && ";
    for (rest, expected) in [
        ("pip install -r a/requirements.txt\n", &["2 error"][..]),
        ("pip install -r requirements.txt\n", CLEAN),
        ("pip install -r a/b/requirements.txt\n", CLEAN),
        ("pip install -r b/requirements.txt\n", CLEAN),
    ] {
        expect("path-absent", NONE, &[("Dockerfile", &format!("{clone}{rest}"), expected)]);
    }
}

#[test]
fn a_service_needs_groups_and_folders_of_its_image() {
    const SLIM: together::Texts = &[("Dockerfile", "FROM python:3.12-slim\nRUN pip install a\n")];
    const GROUP: together::Texts =
        &[("Dockerfile", "FROM python:3.12-slim\nRUN groupadd -g 109 render\n")];
    const UDEV: together::Texts =
        &[("Dockerfile", "FROM ubuntu:24.04\nRUN apt-get install -y udev\n")];
    const ROCM: together::Texts = &[("Dockerfile", "FROM rocm/dev-ubuntu-24.04:7.2\nRUN a\n")];
    let text = "services:\n  a:\n    build: .\n    group_add: [video, render]\n";
    let message = "4 the image has no group `render`: `python:3.12-slim` has none";
    together::expect("group-unknown", SLIM, "compose.yml", text, &[message]);
    for files in [GROUP, UDEV, ROCM] {
        together::expect("group-unknown", files, "compose.yml", text, &[]);
    }
    const ABSENT: together::Texts = &[(
        "Dockerfile",
        "FROM python:3.12-slim\nWORKDIR /app\nRUN useradd app && chown app /app\nUSER app\n",
    )];
    const MADE: together::Texts = &[(
        "Dockerfile",
        "FROM python:3.12-slim\nRUN useradd app && mkdir -p /app/data && chown -R app /app\nUSER app\n",
    )];
    const AS_ROOT: together::Texts = &[("Dockerfile", "FROM python:3.12-slim\nWORKDIR /app\n")];
    const COPIED: together::Texts =
        &[("Dockerfile", "FROM python:3.12-slim\nCOPY . /app\nRUN useradd app\nUSER app\n")];
    let rule = "folder-not-writable";
    let volume = "services:\n  a:\n    build: .\n    volumes: [\"data:/app/data\"]\n";
    let message =
        "4 the image has no `/app/data` of its user `app`, so docker makes the volume for root";
    together::expect(rule, ABSENT, "compose.yml", volume, &[message]);
    for files in [MADE, AS_ROOT, COPIED] {
        together::expect(rule, files, "compose.yml", volume, &[]);
    }
    for other in ["./data:/app/data", "data:/app/data:ro"] {
        let text = volume.replace("data:/app/data", other);
        together::expect(rule, ABSENT, "compose.yml", &text, &[]);
    }
    let user = format!("{volume}    user: root\n");
    together::expect(rule, ABSENT, "compose.yml", &user, &[]);
}

#[test]
fn a_missing_program_is_reported_once() {
    let base = "FROM docker.io/library/debian:13\n";
    for (lines, expected) in [
        ("RUN ls\nCMD [\"python3\", \"a.py\"]\n", &["3 error"][..]),
        ("RUN python3 -V\nCMD [\"python3\", \"a.py\"]\n", &["2 error"]),
        ("RUN apt-get install -y python3\nENTRYPOINT exec python3 a.py\n", CLEAN),
        ("COPY bin /usr/local/bin/\nCMD [\"python3\"]\n", CLEAN),
        ("ENTRYPOINT [\"/a\"]\nCMD [\"python3\"]\n", CLEAN),
    ] {
        expect("program-missing", NONE, &[("Dockerfile", &format!("{base}{lines}"), expected)]);
    }
}

#[test]
fn a_health_check_needs_programs_of_the_image_that_is_built() {
    const WITHOUT: together::Texts =
        &[("Dockerfile", "FROM python:3.12-slim\nRUN pip install flask\n")];
    const WITH: together::Texts =
        &[("Dockerfile", "FROM python:3.12-slim\nRUN apt-get update && apt-get install -y curl\n")];
    const CHOSEN: together::Texts =
        &[("Dockerfile", "ARG BASE=python:3.12-slim\nFROM ${BASE}\nRUN pip install flask\n")];
    let text = "services:\n  a:\n    build: .\n    healthcheck:\n      test: [\"CMD\", \"curl\", \"-f\", \"http://localhost:80\"]\n";
    let rule = "healthcheck-fails";
    let message = "5 the health check calls curl, which the image does not contain";
    together::expect(rule, WITHOUT, "compose.yml", text, &[message]);
    for files in [WITH, CHOSEN] {
        together::expect(rule, files, "compose.yml", text, &[]);
    }
    let target = text.replace("build: .", "build: { context: ., target: b }");
    together::expect(rule, WITHOUT, "compose.yml", &target, &[]);
    let python = text.replace("\"curl\", \"-f\"", "\"python\", \"-c\"");
    together::expect(rule, WITHOUT, "compose.yml", &python, &[]);
}
