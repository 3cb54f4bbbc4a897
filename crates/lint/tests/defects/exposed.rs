//! Servers that other machines can use, and signs that they cannot.

use super::together::{Texts, expect as in_folder};
use super::{NONE, expect};

/// Returns a compose file with one service of a GPU.
fn service(image: &str, lines: &str) -> String {
    format!("services:\n  a:\n    {image}\n{lines}    devices: [/dev/kfd, /dev/dri]\n")
}

#[test]
fn a_server_with_a_gpu_is_open_unless_something_sets_a_login() {
    let ports = "    ports: [\"8004:8004\"]\n";
    for (image, lines, expected) in [
        ("image: docker.io/a/speech:1", ports, &["4 information"][..]),
        // A program that is built here need not be a server.
        ("build: .", ports, &[]),
        ("image: docker.io/a/speech:1", "    ports: [\"127.0.0.1:8004:8004\"]\n", &[]),
        ("image: docker.io/a/speech:1", "    ports: [\"${BIND}:8004:8004\"]\n", &[]),
        ("image: docker.io/a/speech:1", "    ports: [\"192.168.1.2:8004:8004\"]\n", &[]),
        ("image: docker.io/a/speech:1", "    ports: [\"2222:22\"]\n", &[]),
        ("image: docker.io/jellyfin/jellyfin:10", "    ports: [\"8096:8096\"]\n", &[]),
        ("image: docker.io/a/speech:1", &format!("{ports}    command: bash\n"), &[]),
        ("image: docker.io/a/speech:1", &format!("{ports}    command: sleep infinity\n"), &[]),
        (
            "image: docker.io/a/speech:1",
            &format!("{ports}    environment: [\"API_KEY=${{API_KEY:?}}\"]\n"),
            &[],
        ),
        ("image: docker.io/a/speech:1", &format!("{ports}    command: serve --api-key x\n"), &[]),
    ] {
        expect("service-open", NONE, &[("compose.yml", &service(image, lines), expected)]);
    }
    let own = service("build: .", &format!("{ports}    depends_on: [postgres]\n"));
    expect("service-open", NONE, &[("compose.yml", &own, &[])]);
    let driver = "services:\n  a:\n    image: docker.io/a/b:1\n    ports: [\"7880:7860\"]\n    deploy: {resources: {reservations: {devices: [{driver: rocm}]}}}\n";
    expect("service-open", NONE, &[("compose.yml", driver, &["4 information"])]);
    let without = "services:\n  a:\n    image: docker.io/a/b:1\n    ports: [\"8004:8004\"]\n";
    expect("service-open", NONE, &[("compose.yml", without, &[])]);
}

#[test]
fn dashboards_databases_and_debuggers_are_services_too() {
    let one = |image: &str, port: &str, rest: &str| {
        format!("services:\n  a:\n    {image}\n    ports: [\"{port}\"]\n{rest}")
    };
    let trust = "    environment: [POSTGRES_HOST_AUTH_METHOD=trust]\n";
    let plain = "    environment: [xpack.security.enabled=false]\n";
    for (text, expected) in [
        (one("image: docker.io/prom/prometheus:v3.1.0", "9090:9090", ""), &["4 information"][..]),
        (one("image: docker.io/prom/prometheus:v3.1.0", "127.0.0.1:9090:9090", ""), &[]),
        (one("image: docker.io/rayproject/ray:2.40.0", "8265:8265", ""), &["4 information"]),
        (one("image: docker.io/milvusdb/milvus:v2.5.0", "19530:19530", ""), &["4 information"]),
        (one("image: docker.io/michaelf34/infinity:0.0.76", "7997:7997", ""), &["4 information"]),
        (
            one(
                "image: ghcr.io/berriai/litellm:main-v1.60.0",
                "4000:4000",
                "    environment: [LITELLM_MASTER_KEY]\n    env_file: .env\n",
            ),
            &[],
        ),
        (one("image: docker.io/library/postgres:17", "5432:5432", trust), &["5 information"]),
        (one("image: docker.io/library/postgres:17", "127.0.0.1:5432:5432", trust), &[]),
        (one("image: docker.io/library/postgres:17", "5432:5432", ""), &[]),
        (
            one("image: docker.io/library/elasticsearch:8.17.0", "9200:9200", plain),
            &["5 information"],
        ),
        (one("build: .", "5678:5678", ""), &["4 information"]),
        (one("build: .", "127.0.0.1:5678:5678", ""), &[]),
        (one("image: docker.io/n8nio/n8n:1", "5678:5678", ""), &[]),
        (one("build: .", "5678:5678", "    environment: [N8N_HOST=a]\n"), &[]),
    ] {
        expect("service-open", NONE, &[("compose.yml", &text, expected)]);
    }
}

const IMAGES: Texts = &[
    ("Dockerfile", "FROM a\nCMD [\"streamlit\", \"run\", \"app.py\"]\n"),
    (
        "keyed/Dockerfile",
        "FROM a\nCMD [\"llama-server\", \"--host\", \"0.0.0.0\", \"--api-key\", \"$K\"]\n",
    ),
    ("api/Dockerfile", "FROM a\nCMD [\"uvicorn\", \"a:app\"]\n"),
    (
        "docker-compose.yml",
        "services:\n  l:\n    command: ${LLAMA_ARGS}\n    ports: [\"8000:8000\"]\n",
    ),
];

#[test]
fn the_dockerfile_shows_which_server_is_published() {
    let built = |build: &str, rest: &str| {
        format!("services:\n  a:\n    build: {build}\n    ports: [\"80:8501\"]\n{rest}")
    };
    let message =
        "4 `80:8501` opens the server that the Dockerfile starts, and nothing sets a login";
    for (text, expected) in [
        (built(".", ""), &[message][..]),
        (built(".", "    environment: [APP_PASSWORD]\n"), &[]),
        (built(".", "    command: python job.py\n"), &[]),
        (built(".", "").replace("80:8501", "127.0.0.1:80:8501"), &[]),
        (built("keyed", ""), &[]),
        (built("api", ""), &[]),
    ] {
        in_folder("service-open", IMAGES, "compose.yml", &text, expected);
    }
}

#[test]
fn an_environment_file_opens_the_server_of_its_compose_file() {
    let message = "1 with `LLAMA_ARGS`, a server listens on all addresses, and the compose file publishes its port";
    for (text, expected) in [
        ("LLAMA_ARGS=\"--port 8000 --host 0.0.0.0\"\n", &[message][..]),
        ("LLAMA_ARGS=\"--host 0.0.0.0 --api-key $KEY\"\n", &[]),
        ("LLAMA_ARGS=\"--host 127.0.0.1\"\n", &[]),
        ("OTHER_ARGS=\"--host 0.0.0.0\"\n", &[]),
    ] {
        in_folder("service-open", IMAGES, ".env.example", text, expected);
    }
}
