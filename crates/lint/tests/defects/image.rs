//! What an image contains while it is built: paths, owners, users.

use super::{NONE, expect};

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
