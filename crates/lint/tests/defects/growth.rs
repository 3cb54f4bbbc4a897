//! The time that `lint` needs for long files.

use std::time::Duration;

use lint::{Context, check};
use testkit::processor_time;

/// A service, a stage and a part of a script, each with what the slow rules look at. `NAME` makes
/// each copy different.
const SERVICE: &str = "  a-NAME:
    image: docker.io/vllm/vllm-openai-rocm:v0.27.1
    # The group of the device on this machine.
    group_add: [video, \"992\"]
    devices: [/dev/kfd, /dev/dri]
    ports: [\"127.0.0.1:8000:8000\"]
    environment:
      - HF_HOME=/models
      - SERVICE_LOG_LEVELS=${LOG_NAME:-info}
      - MODEL_NAME=/models/NAME
    volumes:
      - ./models-NAME:/models:ro
    command: >-
      sh -c 'echo NAME && exec vllm serve /models/NAME
      --max-model-len 4096'
";
const STAGE: &str = "FROM docker.io/library/debian:trixie-20260101-slim@sha256:1 AS NAME
ARG VERSION_NAME=1
ENV PATH_NAME=/opt/rocm-NAME/bin ROCM_LOG_LEVELS=3
COPY requirements-NAME.txt /tmp/
RUN apt-get update && \\
    apt-get install -y --no-install-recommends curl python3-pip && \\
    rm -rf /var/lib/apt/lists/*
RUN set -e; pip install -r /tmp/requirements-NAME.txt; echo \"$VERSION_NAME\"
";
const SCRIPT: &str = "# NAME
export MODEL_NAME=/models/NAME HSA_LOG_LEVELS=1
if [ -n \"$MODEL_NAME\" ]; then
    podman run --rm --device=/dev/kfd --group-add=992 -e HF_HOME=/models \\
        --volume ./NAME:/models:ro docker.io/vllm/vllm-openai-rocm:v0.27.1 --model /models
fi
";

/// Returns a file with so many copies of a part, after its first lines.
fn copies(first: &str, part: &str, count: usize) -> String {
    let copy = |index| part.replace("NAME", &format!("N{index}"));
    first.to_owned() + &(0..count).map(copy).collect::<String>()
}

/// Returns the least processor time of some checks of a file.
fn time(file: &str, text: &str) -> Duration {
    let one = |_| {
        let start = processor_time();
        check(file, text, Context::default());
        processor_time() - start
    };
    (0..3).map(one).min().unwrap_or_default()
}

#[test]
fn the_time_does_not_grow_with_the_square_of_the_length() {
    for (file, first, part) in [
        ("compose.yml", "services:\n", SERVICE),
        ("Dockerfile", "", STAGE),
        ("run.sh", "#!/bin/bash\n", SCRIPT),
    ] {
        // The first check reads the data.
        time(file, &copies(first, part, 1));
        let short = time(file, &copies(first, part, 60));
        let long = time(file, &copies(first, part, 480));
        assert!(long < short * 24, "{file}: eight times the length takes {long:?} after {short:?}");
    }
}
