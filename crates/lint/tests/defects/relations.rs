//! Settings and files that belong together, and look-alikes that are right.

use super::{NONE, expect, together};

/// Checks the findings of a rule for lines of a service.
fn service(rule: &str, lines: &str, expected: &[&str]) {
    let text = format!("services:\n  a:\n    image: localhost/a\n{lines}");
    expect(rule, NONE, &[("compose.yml", &text, expected)]);
}

/// Checks the findings of a rule for lines of a service with an image.
fn of_image(rule: &str, image: &str, lines: &str, expected: usize) {
    let text = format!("services:\n  a:\n    image: docker.io/{image}\n{lines}");
    let found = super::of(rule, "compose.yml", &text, NONE);
    assert_eq!(found.len(), expected, "{rule} in\n{text}{found:?}");
}

#[test]
fn values_of_compose_files_have_a_form() {
    for line in [
        "stop_grace_period: 30",
        "stop_grace_period: \"30\"",
        "stop_grace_period: 5min",
        "stop_grace_period: 1 m",
        "shm_size: 8 gigs",
        "mem_limit: 16GB,",
        "cpus: all",
        "privileged: maybe",
        "restart: alway",
        "restart: false",
        "user: 1000",
        "hostname: 7",
        "cgroup: hosts",
        "expose: [\"8080:80\"]",
        "expose: [http]",
        "ports: [\"8080:80000\"]",
        "ports: [\"a:80\"]",
        "ports: [\"80:80/tdp\"]",
        "ports: [\"1:2:3:4\"]",
        "ports: [\"localhost:80:80\"]",
        "privileged: \"1\"",
        "extra_hosts: [host.docker.internal]",
        "environment: [A: b]",
        "volumes: [./a: /b]",
        "healthcheck: { test: [curl, -f, a] }",
        "depends_on: { b: { condition: service_health } }",
        "deploy: { resources: { limits: { memory: 8x } } }",
        "deploy: { replicas: one }",
    ] {
        service("compose-value", &format!("    {line}\n"), &["4 error"]);
    }
    for line in [
        "stop_grace_period: 1m30s",
        "stop_grace_period: 1.5h",
        "stop_grace_period: ${GRACE}",
        "stop_grace_period: ${GRACE:-30s}",
        "shm_size: 16 gb",
        "shm_size: \"8589934592\"",
        "shm_size: 8GiB",
        "mem_limit: ${MEM:-16g}",
        "cpus: \"0.5\"",
        "privileged: yes",
        "restart: on-failure:5",
        "restart: \"no\"",
        "restart: no",
        "user: \"1000\"",
        "user: 1000:1000",
        "user: ${UID}",
        "expose: [8080, 9000-9010, \"53/udp\", \"${PORT}\"]",
        "ports: [8080, \"127.0.0.1:80:80\", \"[::1]:80:80\", \"80-90:80-90\", \":80\", \"${P}:80\"]",
        "extra_hosts: [\"a:host-gateway\", \"b=127.0.0.1\"]",
        "environment: [A=b, C]",
        "environment: { A: 1, B: true, C: }",
        "volumes: [\"./a:/b\", { type: bind, source: ./a, target: /b }]",
        "healthcheck: { test: curl -f a, interval: 30s, retries: 3 }",
        "healthcheck: { test: [CMD-SHELL, curl -f a] }",
        "depends_on: [b]",
        "depends_on: { b: { condition: service_healthy } }",
        "gpus: all",
        "ports: [\"53:53/UDP\", \"0.0.0.0:80:80\"]",
        "deploy: { restart_policy: { condition: always } }",
        "logging: { driver: json-file, options: { max-size: 10m } }",
    ] {
        service("compose-value", &format!("    {line}\n"), &[]);
        service("compose-type", &format!("    {line}\n"), &[]);
        service("compose-key", &format!("    {line}\n"), &[]);
    }
}

#[test]
fn keys_of_all_parts_are_known() {
    for line in [
        "volumes: [{ type: bind, src: ./a, target: /b }]",
        "volumes: [{ type: bind, source: ./a, target: /b, bind: { create: true } }]",
        "ports: [{ target: 80, host_port: 80 }]",
        "depends_on: { b: { conditions: service_healthy } }",
        "networks: { n: { ip: 10.0.0.2 } }",
        "deploy: { update_config: { paralelism: 1 } }",
        "healthcheck: { test: a, start-period: 5s }",
    ] {
        service("compose-key", &format!("    {line}\n"), &["4 warning"]);
    }
    let top = "services:\n  a:\n    image: localhost/a\nvolumes:\n  b:\n    drivers: local\n";
    expect("compose-key", NONE, &[("compose.yml", top, &["6 warning"])]);
    let merged = "x-net: &net\n  aliases: [b]\nservices:\n  a:\n    image: localhost/a\n    networks:\n      n: { <<: *net }\nnetworks:\n  n:\n    x-owner: me\n    ipam: { config: [{ subnet: 10.0.0.0/8 }] }\n";
    expect("compose-key", NONE, &[("compose.yml", merged, &[])]);
}

#[test]
fn settings_of_a_service_can_exclude_each_other() {
    for lines in [
        "    network_mode: host\n    networks: { n: }\n",
        "    scale: 2\n    container_name: a\n",
        "    mem_limit: 8g\n    deploy: { resources: { limits: { memory: 16g } } }\n",
        "    deploy: { resources: { reservations: { devices: [{ count: 1, device_ids: [a], capabilities: [gpu] }] } } }\n",
        "    depends_on: [a]\n",
        "    depends_on: [b]\n  b:\n    image: c\n    depends_on: { a: { condition: service_started } }\n",
        "    container_name: x\n  b:\n    image: c\n    container_name: x\n",
    ] {
        let text = format!("services:\n  a:\n    image: localhost/a\n{lines}");
        let found = super::of("compose-conflict", "compose.yml", &text, NONE);
        assert_eq!(found.len(), 1, "{text}");
    }
    for lines in [
        "    network_mode: host\n    networks: []\n",
        "    scale: 1\n    container_name: a\n",
        "    mem_limit: 8g\n    deploy: { resources: { limits: { memory: 8G } } }\n",
        "    depends_on: [b, c]\n  b:\n    image: c\n    depends_on: [c]\n  c:\n    image: c\n",
        "    container_name: x\n    profiles: [p]\n  b:\n    image: c\n    container_name: x\n    profiles: [q]\n",
        "    container_name: x-$A\n  b:\n    image: c\n    container_name: x-$A\n",
    ] {
        service("compose-conflict", lines, &[]);
    }
}

#[test]
fn images_document_what_they_need() {
    let env = |text: &str| format!("    environment: [{text}]\n");
    for (image, lines, expected) in [
        ("library/postgres:16", String::new(), 1),
        ("library/postgres:16", env("POSTGRES_USER=a"), 1),
        ("library/postgres:16", env("POSTGRES_PASSWORD"), 0),
        ("library/postgres:16", env("POSTGRES_PASSWORD_FILE=/run/secrets/a"), 0),
        ("library/postgres:16", "    env_file: .env\n".to_owned(), 0),
        ("library/postgres:16", "    environment: { POSTGRES_PASSWORD: }\n".to_owned(), 0),
        ("library/mysql:8", env("MYSQL_DATABASE=a"), 1),
        ("library/mariadb:11", env("MARIADB_ROOT_PASSWORD=a"), 0),
        ("library/mongo:7", env("MONGO_INITDB_ROOT_USERNAME=a"), 1),
        ("library/mongo:7", String::new(), 0),
        ("library/neo4j:5", env("NEO4J_AUTH=neo4juser/secret-enough"), 1),
        ("library/neo4j:5", env("NEO4J_AUTH=neo4j/secret-enough"), 0),
        ("library/neo4j:5", env("NEO4J_AUTH=neo4j/${NEO4J_PASSWORD}"), 0),
        ("library/neo4j:5", env("NEO4J_AUTH=${NEO4J_AUTH}"), 0),
        ("library/neo4j:5", env("NEO4J_AUTH=neo4j/short"), 1),
        ("library/neo4j:5", env("NEO4J_AUTH=none"), 0),
        ("minio/minio:latest", env("MINIO_ROOT_PASSWORD=short"), 1),
        ("minio/minio:latest", env("MINIO_ROOT_PASSWORD=${P}"), 0),
        ("ollama/ollama:0.20.0", "    command: ollama serve\n".to_owned(), 1),
        ("ollama/ollama:0.20.0", "    command: serve\n".to_owned(), 0),
        (
            "ollama/ollama:0.20.0",
            "    command: ollama serve\n    entrypoint: [\"\"]\n".to_owned(),
            0,
        ),
        ("vllm/vllm-openai:v0.11.0", "    command: [vllm, serve, a/b]\n".to_owned(), 1),
        ("vllm/vllm-openai:v0.11.0", "    command: [--model, a/b]\n".to_owned(), 0),
        ("rocm/vllm:rocm7.0", "    command: vllm serve a/b\n".to_owned(), 0),
    ] {
        of_image("image-contract", image, &lines, expected);
    }
    let volume =
        |path: &str| format!("    environment: [POSTGRES_PASSWORD]\n    volumes: [\"a:{path}\"]\n");
    for (image, path, expected) in [
        ("library/postgres:18", "/var/lib/postgresql/data", 1),
        ("library/postgres:latest", "/var/lib/postgresql/data", 1),
        ("library/postgres:18", "/var/lib/postgresql", 0),
        ("library/postgres:17-alpine", "/var/lib/postgresql/data", 0),
        ("pgvector/pgvector:pg18", "/var/lib/postgresql/data:rw", 1),
        ("pgvector/pgvector:pg17", "/var/lib/postgresql/data", 0),
    ] {
        of_image("image-contract", image, &volume(path), expected);
    }
    let socket = "    volumes: [\"/var/run/docker.sock:/var/run/docker.sock:ro\"]\n";
    for (image, expected) in [
        ("library/traefik:v2.10.4", 1),
        ("library/traefik:v3.5", 1),
        ("library/traefik:v3.6", 0),
        ("library/traefik:v2.11", 0),
        ("library/traefik:v3", 0),
        ("containrrr/watchtower:latest", 1),
    ] {
        of_image("image-contract", image, socket, expected);
        of_image("image-contract", image, "", 0);
    }
    let open = "    command: [\"--api.insecure=true\"]\n    ports: [\"8444:8080\"]\n";
    let closed = "    command: [\"--api.insecure=true\"]\n    ports: [\"127.0.0.1:8444:8080\"]\n";
    of_image("service-open", "library/traefik:v3.6", open, 1);
    of_image("service-open", "library/traefik:v3.6", closed, 0);
    of_image("variable-without-effect", "library/redis:7", &env("REDIS_PASSWORD=a"), 1);
    let required =
        "    command: redis-server --requirepass a\n    environment: [REDIS_PASSWORD=a]\n";
    of_image("variable-without-effect", "library/redis:7", required, 0);
}

#[test]
fn only_programs_that_go_on_are_restarted() {
    for (command, expected) in [
        ("python train.py", 1),
        ("./benchmark.sh", 1),
        ("uv run pytest", 1),
        ("python -m app.server", 0),
        ("bash -c \"python migrate.py && python app.py\"", 0),
        ("python trainer_ui.py", 0),
        ("python test_server.py", 0),
        ("celery -A app worker", 0),
    ] {
        let lines = format!("    command: {command}\n    restart: unless-stopped\n");
        let expected: &[&str] = if expected == 1 { &["5 warning"] } else { &[] };
        service("restart-of-job", &lines, expected);
    }
    service("restart-of-job", "    command: ./test.sh\n    restart: on-failure\n", &[]);
    service(
        "restart-of-job",
        "    command: ./train.sh\n    restart: always\n    ports: [\"80:80\"]\n",
        &[],
    );
}

#[test]
fn sockets_of_the_system_exist_already() {
    for (mount, expected) in [
        ("./run/a.sock:/run/a.sock", 1),
        ("/tmp/app.sock:/tmp/app.sock", 1),
        ("/var/run/docker.sock:/var/run/docker.sock", 0),
        ("/run/user/1000/pulse/native:/run/pulse.sock", 0),
        ("/run/app:/run/app", 0),
        ("sockets:/run/sockets", 0),
    ] {
        let lines = format!("    volumes: [\"{mount}\"]\n");
        let expected: &[&str] = if expected == 1 { &["4 information"] } else { &[] };
        service("socket-mount", &lines, expected);
    }
}

#[test]
fn an_override_gets_what_all_its_base_files_say() {
    const FILES: together::Texts = &[
        ("docker-compose.yml", "services:\n  api:\n    build: .\n"),
        (
            "docker-compose.ai.yml",
            "services:\n  ollama:\n    image: docker.io/ollama/ollama:0.20.0\n",
        ),
    ];
    let text = "# docker compose -f docker-compose.yml -f docker-compose.ai.yml -f docker-compose.vulkan.yml up\nservices:\n  ollama:\n    devices: [/dev/dri]\n    group_add: [video, render]\n";
    let message = "5 `docker.io/ollama/ollama:0.20.0` has no group `render`";
    together::expect("group-unknown", FILES, "docker-compose.vulkan.yml", text, &[message]);
    let other = text.replace("-f docker-compose.ai.yml ", "");
    together::expect("group-unknown", FILES, "docker-compose.vulkan.yml", &other, &[]);
}

#[test]
fn a_published_port_reaches_the_server_of_a_start_script() {
    const LOCAL: together::Texts =
        &[("start.sh", "#!/bin/sh\nexec llama-server --host 127.0.0.1 --port 8080 -m a.gguf\n")];
    const ALL: together::Texts =
        &[("start.sh", "#!/bin/sh\nexec llama-server --host 0.0.0.0 --port 8080 -m a.gguf\n")];
    const OTHER: together::Texts = &[(
        "start.sh",
        "#!/bin/sh\nllama-server --host 127.0.0.1 --port 9000 &\nexec python3 app.py --port 8080\n",
    )];
    let text = "FROM docker.io/library/debian:13\nCOPY start.sh /app/\nEXPOSE 8080\nCMD [\"/app/start.sh\"]\n";
    let message = "3 line 2 of `start.sh` makes the server listen only on the loopback address, so a published port does not reach it";
    together::expect("server-unreachable", LOCAL, "Dockerfile", text, &[message]);
    together::expect("server-unreachable", ALL, "Dockerfile", text, &[]);
    together::expect("server-unreachable", OTHER, "Dockerfile", text, &[]);
}

#[test]
fn the_user_of_an_image_needs_the_groups_that_compose_gives() {
    const WITHOUT: together::Texts = &[(
        "compose.yml",
        "services:\n  a:\n    build: { context: ., dockerfile: Dockerfile.vulkan }\n    devices: [/dev/dri]\n",
    )];
    const WITH: together::Texts = &[(
        "compose.yml",
        "services:\n  a:\n    build: { context: ., dockerfile: Dockerfile.vulkan }\n    devices: [/dev/dri]\n    group_add: [\"992\"]\n",
    )];
    let text = "FROM docker.io/library/debian:13\nRUN useradd app\nUSER app\n";
    let message = "3 the service `a` gets the GPU, but `app` is in no group that can open it";
    let rule = "render-group-missing";
    together::expect(rule, WITHOUT, "Dockerfile.vulkan", text, &[message]);
    together::expect(rule, WITH, "Dockerfile.vulkan", text, &[]);
    together::expect(rule, WITHOUT, "Dockerfile.cpu", text, &[]);
    let grouped = "FROM docker.io/library/debian:13\nRUN useradd -G render app\nUSER app\n";
    together::expect(rule, WITHOUT, "Dockerfile.vulkan", grouped, &[]);
}

#[test]
fn variables_of_an_environment_file_have_an_effect() {
    const FIXED: together::Texts = &[(
        "compose.yml",
        "services:\n  a:\n    image: localhost/a\n    ports: [\"3000:8080\"]\n    environment: [OLLAMA_KEEP_ALIVE=10m]\n",
    )];
    const USED: together::Texts = &[(
        "compose.yml",
        "services:\n  a:\n    image: localhost/a\n    ports: [\"${WEBUI_PORT:-3000}:8080\"]\n    environment: [\"OLLAMA_KEEP_ALIVE=${OLLAMA_KEEP_ALIVE}\"]\n",
    )];
    let text = "OLLAMA_KEEP_ALIVE=10m\nWEBUI_PORT=3000\n";
    let rule = "variable-without-effect";
    together::expect(
        rule,
        FIXED,
        ".env",
        text,
        &[
            "1 the compose file gives `OLLAMA_KEEP_ALIVE` a fixed value, `10m`, for the service `a`",
            "2 the compose file publishes `3000:8080` for the service `a`, whatever `WEBUI_PORT` says",
        ],
    );
    together::expect(rule, USED, ".env", text, &[]);
}

#[test]
fn variants_with_one_port_need_profiles() {
    let text = |more: &str| {
        format!(
            "services:\n  app-cpu:\n    image: localhost/a\n    ports: [\"80:80\"]\n{more}  app-rocm:\n    image: localhost/b\n    ports: [\"80:80\"]\n"
        )
    };
    expect("port-twice", NONE, &[("compose.yml", &text(""), &["7 warning"])]);
    let profiles = text("    profiles: [cpu]\n");
    expect("port-twice", NONE, &[("compose.yml", &profiles, &[])]);
}

#[test]
fn an_example_has_the_variables_that_a_compose_file_needs() {
    const FILES: together::Texts = &[(".env.example", "A=1\nB=2\n#C=3\n")];
    let file = "docker-compose.yml";
    let rule = "example-incomplete";
    for (ports, expected) in [
        ("${D}:80", Some("4 `.env.example` does not have `D`, which is empty then")),
        ("${D:-80}:80", None),
        ("${D:?is missing}:80", None),
        ("${A}:80", None),
        ("${HOME}:80", None),
        ("$${D}:80", None),
    ] {
        let text = format!(
            "services:\n  a:\n    image: localhost/a:$A-${{B}}-$C\n    ports: [\"{ports}\"]\n    environment: [TOKEN=$TOKEN]\n"
        );
        let expected: Vec<&str> = expected.into_iter().collect();
        together::expect(rule, FILES, file, &text, &expected);
    }
}

#[test]
fn an_example_sets_no_override_for_everyone() {
    let several = "# RX 6600, RX 6700 and RX 6800\nHSA_OVERRIDE_GFX_VERSION=10.3.0\n";
    let one = "# Strix Halo\nHSA_OVERRIDE_GFX_VERSION=11.5.1\n";
    let rule = "hsa-override-any-gpu";
    expect(
        rule,
        NONE,
        &[
            (".env.example", several, &["2 information"]),
            (".env", several, &[]),
            (".env.example", one, &[]),
        ],
    );
    let small = "services:\n  a:\n    image: localhost/a\n    environment:\n      - HSA_OVERRIDE_GFX_VERSION=11.5.1 # Radeon 890M\n";
    expect(
        "hsa-override-other",
        NONE,
        &[
            ("compose.yml", small, &["5 warning"]),
            ("compose.yml", &small.replace("890M", "8060S"), &[]),
        ],
    );
}

#[test]
fn private_keys_are_files() {
    for (line, expected) in [
        ("- WALLET_PRIVATE_KEY", 1),
        ("- PRIVATE_KEY_FILE=/run/secrets/key", 0),
        ("- PRIVATE_KEY_PATH=${KEYS}/a.pem", 0),
        ("- MNEMONIC=${MNEMONIC:?}", 1),
        ("- PRIVATE_KEYS_ENABLED=true", 0),
    ] {
        let lines = format!("    environment:\n      {line}\n");
        let expected: &[&str] = if expected == 1 { &["5 information"] } else { &[] };
        service("secret-in-environment", &lines, expected);
    }
}

#[test]
fn a_proxy_publishes_a_server_without_a_login() {
    let labels = |more: &str| {
        format!(
            "    labels:\n      - traefik.enable=true\n      - traefik.http.routers.o.rule=Host(`o`)\n{more}"
        )
    };
    let rule = "service-open";
    of_image(rule, "ollama/ollama:0.20.0", &labels(""), 1);
    let guarded = labels("      - traefik.http.routers.o.middlewares=auth@file\n");
    of_image(rule, "ollama/ollama:0.20.0", &guarded, 0);
    of_image(rule, "vllm/vllm-openai:v0.11.0", &labels("    command: [--api-key, a]\n"), 0);
    of_image(rule, "library/nginx:1", &labels(""), 0);
}

#[test]
fn the_base_file_can_say_what_a_service_lacks() {
    const FILES: together::Texts = &[(
        "docker-compose.yml",
        "services:\n  db:\n    image: postgres:16\n    environment: [POSTGRES_PASSWORD]\n",
    )];
    let text = "services:\n  db:\n    image: docker.io/library/postgres:17\n";
    let rule = "image-contract";
    let message =
        "3 `docker.io/library/postgres:17` stops at its first start without `POSTGRES_PASSWORD`";
    together::expect(rule, FILES, "docker-compose.amd.yml", text, &[]);
    let other = text.replace("  db:", "  data:");
    together::expect(rule, FILES, "docker-compose.amd.yml", &other, &[message]);
}

#[test]
fn a_service_gets_what_it_extends() {
    const FILES: together::Texts = &[(
        "base.yml",
        "services:\n  ollama:\n    image: docker.io/ollama/ollama:0.20.0\n  more:\n    extends: ollama\n",
    )];
    let text = |extends: &str| {
        format!(
            "services:\n  ai:\n    extends: {extends}\n    group_add: [render]\n    devices: [/dev/dri]\n"
        )
    };
    let message = "4 `docker.io/ollama/ollama:0.20.0` has no group `render`";
    let rule = "group-unknown";
    let file = "docker-compose.gpu.yml";
    let known = text("{ file: base.yml, service: ollama }");
    together::expect(rule, FILES, file, &known, &[message]);
    for other in ["{ file: base.yml, service: web }", "{ file: none.yml, service: ollama }", "web"]
    {
        together::expect(rule, FILES, file, &text(other), &[]);
    }
    let same = format!("{}  web:\n    image: docker.io/ollama/ollama:0.20.0\n", text("web"));
    together::expect(rule, FILES, file, &same, &[message]);
}

#[test]
fn another_service_has_a_name() {
    for (variable, more, expected) in [
        ("OLLAMA_URL=http://localhost:11434/v1", "", 1),
        ("OLLAMA_URL=http://127.0.0.1:8434", "", 1),
        ("OLLAMA_URL=${OLLAMA_URL:-http://localhost:11434}", "", 1),
        ("DATABASE_URL=postgres://a:b@localhost:11434/a", "", 1),
        ("OLLAMA_URL=http://ollama:11434", "", 0),
        ("OLLAMA_URL=http://localhost:9999", "", 0),
        ("OWN_URL=http://localhost:3000", "", 0),
        ("NEXT_PUBLIC_OLLAMA_URL=http://localhost:11434", "", 0),
        ("CORS_ORIGINS=http://localhost:11434", "", 0),
        ("OLLAMA_URL=http://localhost:11434", "    network_mode: host\n", 0),
        ("OLLAMA_URL=http://host.docker.internal:11434", "", 0),
    ] {
        let text = format!(
            "services:\n  web:\n    image: localhost/web\n    ports: [\"3000:8080\"]\n    environment:\n      - \"{variable}\"\n{more}  ollama:\n    image: localhost/o\n    ports: [\"8434:11434\"]\n"
        );
        assert_eq!(
            super::of("service-address", "compose.yml", &text, NONE).len(),
            expected,
            "{text}"
        );
    }
}

#[test]
fn lists_of_packages_matter_while_the_image_is_built() {
    let text = |more: &str, mount: &str| {
        format!("services:\n  a:\n    build: .\n    volumes:\n      - {mount}\n{more}")
    };
    let list = "./requirements-gpu.txt:/app/requirements.txt";
    let rule = "mount-too-late";
    expect(
        rule,
        NONE,
        &[
            ("compose.yml", &text("", list), &["5 information"]),
            ("compose.yml", &text("", "./app:/app"), &[]),
            ("compose.yml", &text("", "./config.txt:/app/config.txt"), &[]),
            ("compose.yml", &text("    command: sh -c 'pip install -r a && exec b'\n", list), &[]),
        ],
    );
}

#[test]
fn a_file_that_the_command_reads_replaces_variables() {
    const FILES: together::Texts =
        &[("sd.env", "# a\nexport COMMANDLINE_ARGS=\"--cpu\"\nOTHER=1\n")];
    let text = |name: &str, command: &str| {
        format!(
            "services:\n  a:\n    image: localhost/a\n    environment:\n      {name}: \"--listen\"\n    command: {command}\n    volumes: [\"./sd.env:/sd.env\"]\n"
        )
    };
    let rule = "variable-without-effect";
    let message = "5 the command reads `./sd.env`, which replaces `COMMANDLINE_ARGS`";
    let reads = "sh -c \". /sd.env; exec python launch.py\"";
    together::expect(rule, FILES, "compose.yml", &text("COMMANDLINE_ARGS", reads), &[message]);
    together::expect(rule, FILES, "compose.yml", &text("PORTS", reads), &[]);
    let other = "sh -c \"exec python launch.py\"";
    together::expect(rule, FILES, "compose.yml", &text("COMMANDLINE_ARGS", other), &[]);
}
