//! Files with one mistake each: layers of images, the form of instructions, and shells.

use super::Wrong;

pub(super) const WRONG: &[Wrong] = &[
    (
        "removed-later",
        "Dockerfile",
        3,
        "FROM docker.io/rocm/dev-ubuntu-24.04:7.2.1-complete@sha256:1\n# This saves 11 GB.\nRUN rm -rf /opt/rocm*/lib/hipblaslt/library/* && find /opt/rocm/lib -name '*gfx9*' -delete\n",
    ),
    (
        "volume-content",
        "Dockerfile",
        4,
        "FROM docker.io/a/b@sha256:1\nVOLUME /workspaces\nWORKDIR /workspaces/a\nCOPY . .\n",
    ),
    (
        "instruction-unknown",
        "Dockerfile",
        3,
        "FROM docker.io/a/b@sha256:1\nRUN apt-get update\npip3 install torch==2.9.1\n",
    ),
    ("list-not-json", "Dockerfile", 2, "FROM docker.io/a/b@sha256:1\nCMD ['python', 'a.py']\n"),
    (
        "list-not-json",
        "Dockerfile",
        3,
        "FROM docker.io/a/b@sha256:1\nARG APP=/app\nVOLUME [ ${APP} ]\n",
    ),
    (
        "command-not-run",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nCMD mkdir /root/a\nWORKDIR /root/a\nRUN make\n",
    ),
    (
        "rocm-twice",
        "Dockerfile",
        4,
        "FROM docker.io/rocm/pytorch:rocm7.2.1@sha256:1 AS build\nRUN a\nFROM docker.io/rocm/pytorch:rocm7.2.1@sha256:1\nCOPY --from=build /opt/venv /opt/venv\n",
    ),
    (
        "rocm-twice",
        "Dockerfile",
        2,
        "FROM docker.io/rocm/dev-ubuntu-22.04:7.2.1@sha256:1\nRUN pip install --no-cache-dir torch==2.12.0 --index-url https://download.pytorch.org/whl/rocm7.2\n",
    ),
    (
        "math-libraries-missing",
        "Dockerfile",
        4,
        "FROM docker.io/rocm/dev-ubuntu-22.04:7.2.1@sha256:1 AS build\nRUN apt-get update && apt-get install -y hipblas-dev rocblas-dev\nRUN make\nFROM docker.io/rocm/dev-ubuntu-22.04:7.2.1@sha256:1\nCOPY --from=build /bundle /usr/local/lib/a\n",
    ),
    (
        "echo-escape",
        "Dockerfile",
        3,
        "FROM docker.io/a/b@sha256:1\nSHELL [\"/bin/bash\", \"-c\"]\nRUN echo \"Package: *\\nPin: release o=repo.radeon.com\\nPin-Priority: 600\" > /etc/apt/preferences.d/rocm\n",
    ),
    ("echo-escape", "a.sh", 2, "#!/bin/bash\necho \"a=1\\nb=2\" | sudo tee /etc/a.conf\n"),
    ("jobs-unlimited", "Dockerfile", 2, "FROM docker.io/a/b@sha256:1\nRUN make -j ${nproc}\n"),
    (
        "pip-refused",
        "Dockerfile",
        3,
        "FROM docker.io/library/ubuntu:24.04@sha256:1\nRUN apt-get update && apt-get install -y python3-pip\nRUN pip3 install --no-cache-dir numpy==2.0.0\n",
    ),
    (
        "hsa-override-other",
        "Dockerfile",
        3,
        "FROM docker.io/a/b@sha256:1\n# Tested on MI250X and MI300X.\nENV HSA_OVERRIDE_GFX_VERSION=11.0.0\n",
    ),
    (
        "torch-replaced",
        "setup.sh",
        3,
        "#!/bin/sh\npip install torch --index-url https://download.pytorch.org/whl/rocm7.2\npip install 'sglang[all]>=0.4.0'\n",
    ),
    (
        "operator-missing",
        "Dockerfile",
        3,
        "FROM docker.io/a/b@sha256:1\nRUN apt-get install -y python3 \\\n    apt-get clean\n",
    ),
    (
        "operator-missing",
        "Dockerfile",
        3,
        "FROM docker.io/a/b@sha256:1\nRUN apt-get install -y python3 \\\n    rm -rf /var/lib/apt/lists/*\n",
    ),
    (
        "extra-index-url",
        "Dockerfile",
        2,
        "FROM docker.io/a/b@sha256:1\nRUN conda run -n a pip3 install --upgrade torch --extra-index-url https://download.pytorch.org/whl/rocm7.2\n",
    ),
    (
        "script-missing",
        "Dockerfile",
        5,
        "FROM docker.io/a/b@sha256:1\nWORKDIR /app\nCOPY a.txt .\nCOPY /src /src\nCMD [\"/opt/venv/bin/python\", \"src/main.py\"]\n",
    ),
];
