//! Services, units and pods that come close to a problem of `wrong/hosts.rs`, and do not have it.

use super::{NONE, expect};

/// Checks that a rule has no finding in any of these files.
fn innocent(rule: &str, cases: &[(&str, &str)]) {
    for (file, text) in cases {
        expect(rule, NONE, &[(file, text, &[])]);
    }
}

#[test]
fn keys_of_different_mappings_and_merges_may_be_the_same() {
    innocent(
        "yaml-invalid",
        &[
            (
                "compose.yml",
                "x-a: &a\n  A: 1\nservices:\n  a:\n    image: localhost/a\n    environment:\n      A: 1\n  b:\n    image: localhost/a\n    environment:\n      A: 1\n",
            ),
            (
                "compose.yml",
                "services:\n  a:\n    image: localhost/a\n    environment:\n      - A\n      - A\n    ports: [{a: b}, {a: b}]\n",
            ),
            (
                "compose.yml",
                "x-a: &a {b: c}\nx-d: &d {e: f}\nservices:\n  a:\n    <<: *a\n    <<: *d\n    image: localhost/a\n",
            ),
            ("a.yaml", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  a: 1\n  a: 2\n"),
        ],
    );
}

#[test]
fn keys_that_compose_has_are_known() {
    innocent(
        "compose-key",
        &[
            (
                "compose.yml",
                "name: a\nversion: \"3\"\nx-a: {}\nservices:\n  a:\n    image: localhost/a\nvolumes: {}\nnetworks: {}\nsecrets: {}\nconfigs: {}\nmodels: {}\ninclude: []\n",
            ),
            ("a.yml", "services:\n  a:\n    image: localhost/a\nother:\n  image: b\n"),
            (
                "compose.yml",
                "services:\n  a:\n    image: localhost/a\n    gpus: all\n  b:\n    image: localhost/a\n    gpus:\n      - driver: nvidia\n        count: 1\n        x-a: b\n  c:\n    build: .\n    healthcheck: {test: [CMD, a], start_period: 1s, start_interval: 1s}\n    logging: {driver: json-file, options: {max-size: 1m}}\n    deploy: {restart_policy: {condition: any}, resources: {limits: {cpus: \"1\", memory: 1g, pids: 1}, reservations: {devices: [{capabilities: [gpu], device_ids: [\"0\"]}]}}}\n",
            ),
        ],
    );
}

#[test]
fn a_path_that_is_complete_or_kept_is_right() {
    innocent(
        "path-replaced",
        &[
            (
                "compose.yml",
                "services:\n  a:\n    image: localhost/a\n    environment:\n      - PATH=/opt/bin:/usr/bin\n      - LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-/opt/rocm/lib}\n      - PYTHONPATH=/app:$$PYTHONPATH\n      - A=/a:$PATHS\n",
            ),
            (
                "compose.yml",
                "services:\n  a:\n    image: localhost/a\n    environment:\n      PATH: ${PATH}\n      B: $PATH:/c\n",
            ),
        ],
    );
}

#[test]
fn folders_that_only_this_machine_reaches_or_a_program_reads_are_right() {
    innocent(
        "host-folder",
        &[(
            "compose.yml",
            "services:\n  a:\n    image: localhost/a\n    ports: [\"127.0.0.1:80:80\"]\n    volumes: [\"~:/host\"]\n  b:\n    image: docker.io/prom/node-exporter:v1\n    ports: [\"9100:9100\"]\n    volumes: [\"/:/host:ro\"]\n  c:\n    image: localhost/a\n    ports: [\"80:80\"]\n    volumes: [\"~/models:/models\", \"${HOME}/a:/a\", \"/srv:/srv\"]\n  d:\n    image: localhost/a\n    volumes: [\"$HOME:/h\"]\n",
        )],
    );
}

#[test]
fn a_build_of_a_commit_or_tag_is_pinned() {
    innocent(
        "clone-unpinned",
        &[(
            "compose.yml",
            "services:\n  a:\n    build: https://github.com/a/b.git#01efc7ef781391e744ed08c3292817a773d654e6\n  b:\n    build: https://github.com/a/b.git#v1.0:docker\n  c:\n    build: ./b\n  d:\n    build: https://github.com/a/b/archive/x.tar.gz\n  e:\n    build: https://github.com/a/b.git#$REF\n",
        )],
    );
}

#[test]
fn a_dockerfile_that_may_be_elsewhere_is_not_missing() {
    innocent(
        "compose-build-missing",
        &[
            (
                "compose.yml",
                "services:\n  a:\n    build: .\n  b:\n    build:\n      context: .\n      dockerfile: Dockerfile.there\n  c:\n    build: {context: $A}\n  d:\n    build: ../other\n  e:\n    build: https://github.com/a/b.git#v1\n  f:\n    build: {context: ., dockerfile_inline: FROM scratch}\n",
            ),
            ("compose.override.yml", "services:\n  a:\n    build: ./missing\n"),
            ("compose.rocm.yml", "services:\n  a:\n    build: ./missing\n"),
        ],
    );
}

#[test]
fn root_and_mounts_that_are_only_read_are_right() {
    innocent(
        "mount-owner",
        &[(
            "compose.yml",
            "services:\n  a:\n    image: localhost/a\n    user: \"0:0\"\n    volumes: [\"./a:/a\"]\n  b:\n    image: localhost/a\n    user: \"1000\"\n    volumes: [\"./a:/a:ro\", \"b:/b\", \"./c.yml:/c.yml\", \"/d:/d\", \"../e:/e\", \".:/f\"]\n  c:\n    image: localhost/a\n    user: ${UID}\n    volumes: [\"./a:/a\"]\nvolumes: {b: }\n",
        )],
    );
}

#[test]
fn a_mount_that_keeps_what_the_image_has_is_right() {
    innocent(
        "mount-hides",
        &[(
            "compose.yml",
            "services:\n  a:\n    build: ./node\n    volumes: [\"./node:/app\", \"/app/node_modules\"]\n  b:\n    build: ./node\n    volumes: [\"./node/src:/app/src\", \"app:/app\"]\n  c:\n    build: ./node\n    command: sh -c \"npm install && npm start\"\n    volumes: [\"./node:/app\"]\nvolumes: {app: }\n",
        )],
    );
}

#[test]
fn lines_that_continue_or_are_templates_are_right() {
    innocent(
        "unit-line-ignored",
        &[
            (
                "a.service",
                "# a\n[Unit]\nDescription=a \\\n  b\n\n; c\n[Service]\nExecStart=/usr/bin/a \\\n# d\n  --port 8080 \\\n  -n\nExecStart=\n",
            ),
            (
                "a.service",
                "{{ header }}\n[Service]\nExecStart=/usr/bin/a\n{% if b %}\nUser=c\n{% endif %}\n@EXTRA@\n$MORE\n",
            ),
        ],
    );
}

#[test]
fn a_service_with_groups_or_without_a_gpu_is_right() {
    innocent(
        "render-group-missing",
        &[
            (
                "a.service",
                "[Service]\nUser=llama\nSupplementaryGroups=render\nExecStart=/usr/bin/llama-server -ngl 99\n",
            ),
            (
                "a.service",
                "[Service]\nUser=llama\nGroup=render\nExecStart=/usr/bin/llama-server -ngl 99\n",
            ),
            ("a.service", "[Service]\nUser=jo\nExecStart=/home/jo/llama-server -ngl 99\n"),
            ("a.service", "[Service]\nUser=web\nExecStart=/usr/bin/web --port 80\n"),
            ("a.service", "[Service]\nUser=llama\nExecStart=/usr/bin/llama-server -ngl 0\n"),
            ("a.service", "[Service]\nUser=root\nExecStart=/usr/bin/llama-server -ngl 99\n"),
            (
                "a.service",
                "[Service]\nUser=llama\nExecStart=/usr/bin/docker run --device /dev/kfd a/b\n",
            ),
        ],
    );
}

#[test]
fn limits_and_other_programs_are_right() {
    innocent(
        "kubernetes-resources",
        &[
            (
                "a.yaml",
                "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n      containers:\n        - name: a\n          image: docker.io/ollama/ollama:0.30.0@sha256:1\n          resources: {limits: {memory: 8Gi}}\n",
            ),
            (
                "a.yaml",
                "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n      containers:\n        - name: a\n          image: docker.io/library/nginx:0.30.0@sha256:1\n",
            ),
            (
                "a.yaml",
                "apiVersion: apps/v1\nkind: Job\nspec:\n  template:\n    spec:\n      containers:\n        - name: a\n          image: docker.io/ollama/ollama:0.30.0@sha256:1\n",
            ),
        ],
    );
}

#[test]
fn data_on_a_volume_is_kept() {
    innocent(
        "data-lost",
        &[
            (
                "a.yaml",
                "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n      containers:\n        - name: a\n          image: docker.io/ollama/ollama:0.30.0@sha256:1\n          volumeMounts:\n            - { name: m, mountPath: /tmp/cache }\n            - { name: n, mountPath: /root/.ollama }\n      volumes:\n        - name: m\n          emptyDir: {}\n        - name: n\n          persistentVolumeClaim: {claimName: n}\n",
            ),
            (
                "compose.yml",
                "services:\n  a:\n    image: docker.io/qdrant/qdrant:v1.15\n    ports: [\"6333:6333\"]\n    volumes: [\"q:/qdrant/storage\"]\n  b:\n    image: docker.io/qdrant/qdrant:v1.15\nvolumes: {q: }\n",
            ),
            ("a.sh", "docker run --rm -p 127.0.0.1:5432:5432 docker.io/postgres:17\n"),
        ],
    );
}

#[test]
fn a_key_of_another_service_or_without_a_default_is_right() {
    innocent(
        "password-in-file",
        &[
            (
                "compose.yml",
                "services:\n  a:\n    image: localhost/a\n    environment:\n      - TERMINAL_API_KEY=${TERMINAL_API_KEY:-changeme}\n  b:\n    image: localhost/a\n    ports: [\"127.0.0.1:80:80\"]\n    environment:\n      - TERMINAL_API_KEY=${TERMINAL_API_KEY:-changeme}\n  c:\n    image: localhost/a\n    ports: [\"80:80\"]\n    environment:\n      - TERMINAL_API_KEY=${TERMINAL_API_KEY:?}\n      - OPENAI_API_KEY=${OPENAI_API_KEY:-changeme}\n      - DB_PASSWORD=${DB_PASSWORD:-changeme}\n      - HF_TOKEN=your-token\n      - TAVILY_API_KEY=${T:-your-key}\n      - POSTGRES_PASSWORD=${P:-password}\n",
            ),
            (".env.example", "SESSION_SECRET=please-change-me\n"),
            (".env", "OPENAI_API_KEY=your-key\nA_API_KEY=your-key\nNAME=admin\nSESSION_SECRET=\n"),
        ],
    );
}

#[test]
fn images_of_other_registries_have_not_moved() {
    innocent(
        "image-moved",
        &[(
            "compose.yml",
            "services:\n  a:\n    image: quay.io/minio/minio:RELEASE.1\n  b:\n    image: quay.io/jupyter/scipy-notebook:2026-01-01\n  c:\n    image: docker.io/pgvector/pgvector:pg17\n  d:\n    image: docker.io/jupyterhub/jupyterhub:5\n  e:\n    image: docker.io/grafana/alloy:v1\n  f:\n    image: registry.example.org/minio/minio:1\n",
        )],
    );
}

#[test]
fn a_port_that_the_program_listens_on_is_used() {
    innocent(
        "port-unused",
        &[(
            "compose.yml",
            "services:\n  a:\n    image: docker.io/semitechnologies/weaviate:1.30\n    ports: [\"8081:8080\", \"50051:50051\"]\n  b:\n    image: docker.io/semitechnologies/weaviate:1.30\n    command: --host 0.0.0.0 --port 8081 --scheme http\n    ports: [\"8081:8081\"]\n  c:\n    image: docker.io/redis:7\n    command: redis-server --port 7000\n    ports: [\"7000:7000\"]\n  d:\n    image: docker.io/postgres:17\n    ports: [\"127.0.0.1:5433:5432/tcp\"]\n  e:\n    image: docker.io/postgres:17\n    ports: [\"5432\"]\n  f:\n    image: docker.io/qdrant/qdrant:v1.15\n    environment: {QDRANT__SERVICE__HTTP_PORT: 8080}\n    ports: [\"8080:8080\"]\n  g:\n    image: docker.io/n8nio/n8n:1\n    ports: [\"${P}:5678\"]\n",
        )],
    );
}

#[test]
fn a_password_or_a_local_port_closes_a_service() {
    innocent(
        "service-open",
        &[(
            "compose.yml",
            "services:\n  a:\n    image: docker.io/semitechnologies/weaviate:1.30\n    ports: [\"127.0.0.1:8080:8080\"]\n    environment: {AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED: \"true\"}\n  b:\n    image: docker.io/semitechnologies/weaviate:1.30\n    ports: [\"8080:8080\"]\n    environment: {AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED: \"false\"}\n  c:\n    image: lscr.io/linuxserver/code-server:4\n    ports: [\"8443:8443\"]\n    environment: [\"PASSWORD=${PASSWORD}\"]\n",
        )],
    );
}

#[test]
fn shared_memory_of_its_own_or_of_the_host_is_enough() {
    innocent(
        "shm-too-small",
        &[(
            "compose.yml",
            "services:\n  a:\n    image: docker.io/rocm/pytorch:rocm7\n    devices: [/dev/kfd, /dev/dri]\n    shm_size: 8g\n  b:\n    image: docker.io/rocm/pytorch:rocm7\n    devices: [/dev/kfd, /dev/dri]\n    ipc: host\n  c:\n    image: docker.io/rocm/pytorch:rocm7\n  d:\n    image: localhost/comfyui\n    devices: [/dev/kfd, /dev/dri]\n",
        )],
    );
}

#[test]
fn a_variable_that_compose_has_or_keeps_is_right() {
    innocent(
        "compose-variable",
        &[
            (
                "compose.yml",
                "services:\n  a:\n    image: localhost/a\n    environment:\n      MODEL: b\n      USER_NAME: ${USER_NAME}\n      C: d\n      E: f\n    command: sh -c 'serve $$MODEL $USER_NAME ${C:-g} $EE'\n",
            ),
            (
                "compose.yml",
                "services:\n  a:\n    image: localhost/a\n    environment:\n      MODEL: b\n    command: serve $MODEL\n  c:\n    image: localhost/a\n    environment:\n      MODEL: $MODEL\n",
            ),
        ],
    );
}

#[test]
fn a_number_or_root_needs_no_group_of_the_image() {
    innocent(
        "group-by-name",
        &[
            (
                "compose.yml",
                "services:\n  a:\n    build: ./app\n    devices: [/dev/kfd]\n    group_add: [render, \"${RENDER_GID:?}\"]\n",
            ),
            (
                "compose.yml",
                "services:\n  a:\n    build: ./root\n    devices: [/dev/kfd]\n    group_add: [render]\n",
            ),
            (
                "compose.yml",
                "services:\n  a:\n    build: ./app\n    user: root\n    devices: [/dev/kfd]\n    group_add: [render]\n",
            ),
        ],
    );
}

#[test]
fn a_folder_that_a_script_creates_is_right() {
    innocent(
        "mount-owner",
        &[(
            "compose.yml",
            "services:\n  a:\n    image: localhost/a\n    user: \"1000\"\n    volumes: [\"./prepared:/a\"]\n",
        )],
    );
}
