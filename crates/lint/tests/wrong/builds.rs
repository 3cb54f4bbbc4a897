//! Images that are built and pulled, values of the wrong type, and servers without a key.

use super::Wrong;

pub(crate) const WRONG: &[Wrong] = &[
    (
        "build-isolated",
        "Dockerfile",
        2,
        "FROM docker.io/rocm/pytorch:rocm7.2@sha256:1\nRUN pip install git+https://github.com/vllm-project/vllm.git@a\n",
    ),
    (
        "image-shared-name",
        "compose.yml",
        7,
        "services:\n  a:\n    image: app:dev\n    build: .\n  b:\n    build: { context: ., dockerfile: Dockerfile.rocm }\n    image: app:dev\n",
    ),
    (
        "image-shared-name",
        "compose.yml",
        9,
        "x-base: &base\n  image: app:dev\nservices:\n  a:\n    <<: *base\n    build:\n      context: .\n      args: [GPU=cpu]\n  b:\n    <<: *base\n    build:\n      context: .\n      args: [GPU=rocm]\n",
    ),
    (
        "compose-type",
        "compose.yml",
        4,
        "services:\n  a:\n    image: localhost/a\n    ipc:\n      - host\n",
    ),
    (
        "compose-type",
        "compose.yml",
        4,
        "services:\n  a:\n    image: localhost/a\n    devices: /dev/kfd\n",
    ),
    (
        "compose-type",
        "compose.yml",
        4,
        "services:\n  a:\n    image: localhost/a\n    ports: { a: 80 }\n",
    ),
    (
        "render-group-missing",
        "Dockerfile",
        4,
        "FROM rocm/rocm-terminal\nARG NAME=runner\nRUN useradd -m $NAME\nUSER $NAME\n",
    ),
    (
        "service-open",
        "compose.yml",
        5,
        "services:\n  a:\n    build: .\n    privileged: true\n    ports: [\"11434:11434\"]\n    environment: [HIP_VISIBLE_DEVICES=0]\n",
    ),
    (
        "ipc-shared",
        "compose.yml",
        6,
        "services:\n  a:\n    build: .\n    privileged: true\n    environment: [HIP_VISIBLE_DEVICES=0]\n    ipc: host\n    read_only: true\n",
    ),
    (
        "service-open",
        "a.sh",
        3,
        "#!/bin/bash\nE=()\nsystemd-inhibit --what=sleep podman run \"${E[@]}\" -p \"${PORT}:8080\" \"$IMAGE\" -m a.gguf -ngl 99 --host 0.0.0.0\n",
    ),
    (
        "service-open",
        "a.yaml",
        20,
        "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    metadata: { labels: { app: a } }\n    spec:\n      containers:\n        - name: a\n          image: docker.io/a/b@sha256:1\n          command: [llama-server]\n          args: [--host, 0.0.0.0, --port, \"8080\"]\n---\napiVersion: v1\nkind: Service\nspec:\n  ports:\n    - port: 80\n      targetPort: 8080\n  selector: { app: a }\n  type: LoadBalancer\n",
    ),
    (
        "shebang",
        "install.sh",
        1,
        "# Installs it.\nif [[ -z $A ]]; then\n  exit 1\nfi\napt-get install -y a\n",
    ),
    (
        "uv-sync-torch",
        "a.sh",
        3,
        "#!/bin/bash\nuv pip install torch --index-url https://download.pytorch.org/whl/rocm6.4\nuv sync\n",
    ),
    (
        "variable-without-effect",
        "a.sh",
        3,
        "#!/bin/bash\ngit clone https://github.com/Dao-AILab/flash-attention\nexport PYTORCH_ROCM_ARCH=gfx942\ncd flash-attention\npython setup.py install\n",
    ),
    (
        "image-latest",
        "a.sh",
        6,
        "#!/bin/bash\nA=(\n  --device /dev/kfd\n  -v /tmp:/tmp\n)\ndocker run \"${A[@]}\" \"rocm/pytorch:latest\" a\n",
    ),
    (
        "host-folder",
        "a.sh",
        4,
        "#!/bin/bash\nA=(\n  --device /dev/kfd\n  -v /tmp:/tmp\n)\ndocker run \"${A[@]}\" rocm/pytorch:latest a\n",
    ),
    (
        "ipc-shared",
        "a.yml",
        7,
        "on: push\njobs:\n  a:\n    runs-on: x\n    container:\n      image: ${{ matrix.image }}\n      options: --device=/dev/kfd --ipc=host --cap-drop=ALL\n",
    ),
    (
        "rocm-too-old",
        "a.sh",
        2,
        "#!/bin/bash\n\"$VENV_PIP\" install torch --index-url https://download.pytorch.org/whl/rocm5.2\n",
    ),
    (
        "password-in-file",
        "compose.yml",
        4,
        "services:\n  a:\n    image: docker.elastic.co/elasticsearch/elasticsearch:8.13.0\n    environment: [ELASTIC_PASSWORD=changeme]\n    ports: [\"9200:9200\"]\n",
    ),
    (
        "password-in-file",
        "compose.yml",
        4,
        "services:\n  a:\n    build: .\n    environment: [\"WEB_PASSWORD=${WEB_PASSWORD:-password}\"]\n    ports: [\"1111:1111\"]\n",
    ),
    (
        "download-unchecked",
        "a.sh",
        2,
        "#!/bin/bash\ncurl -L https://h.example/bazel-amd64 -o $D/venv/bin/bazel && chmod +x $D/venv/bin/bazel\n",
    ),
    (
        "cache-mount-unused",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nRUN --mount=type=cache,target=/root/.cache/pip \\\n    pip install --no-cache-dir a==1\n",
    ),
];
