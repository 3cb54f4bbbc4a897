//! Malformed requests for Python locks.

/// Cases of `python.toml`, without the `schema` line.
pub(crate) const PYTHON: &[(&str, &str)] = &[
    ("a lock that is not a table", "vllm = \"numpy\"\n"),
    (
        "the name of a lock",
        "[vLLM]\npython = \"3.13\"\nplatform = \"x86_64-manylinux_2_40\"\nrequirements = [\"numpy\"]\n",
    ),
    (
        "a key mistyped",
        "[vllm]\npython = \"3.13\"\nplatform = \"x86_64-manylinux_2_40\"\nrequirement = [\"numpy\"]\n",
    ),
    ("nothing said", "[vllm]\n"),
    (
        "a whole version of Python",
        "[vllm]\npython = \"3.13.1\"\nplatform = \"x86_64-manylinux_2_40\"\nrequirements = [\"numpy\"]\n",
    ),
    (
        "Python as a number",
        "[vllm]\npython = 3.13\nplatform = \"x86_64-manylinux_2_40\"\nrequirements = [\"numpy\"]\n",
    ),
    (
        "the platform of a wheel",
        "[vllm]\npython = \"3.13\"\nplatform = \"manylinux_2_28_x86_64\"\nrequirements = [\"numpy\"]\n",
    ),
    (
        "another system",
        "[vllm]\npython = \"3.13\"\nplatform = \"x86_64-apple-darwin\"\nrequirements = [\"numpy\"]\n",
    ),
    (
        "files without a source",
        "[vllm]\npython = \"3.13\"\nplatform = \"x86_64-manylinux_2_40\"\nfiles = [\"pyproject.toml\"]\n",
    ),
    (
        "a source without files",
        "[vllm]\npython = \"3.13\"\nplatform = \"x86_64-manylinux_2_40\"\nsource = \"vllm\"\n",
    ),
    (
        "a source that is not a pin",
        "[vllm]\npython = \"3.13\"\nplatform = \"x86_64-manylinux_2_40\"\nsource = \"vlm\"\nfiles = [\"pyproject.toml\"]\n",
    ),
    (
        "an image as the source",
        "[vllm]\npython = \"3.13\"\nplatform = \"x86_64-manylinux_2_40\"\nsource = \"ollama\"\nfiles = [\"pyproject.toml\"]\n",
    ),
    (
        "a file outside",
        "[vllm]\npython = \"3.13\"\nplatform = \"x86_64-manylinux_2_40\"\nsource = \"vllm\"\nfiles = [\"../setup.py\"]\n",
    ),
    (
        "an option",
        "[vllm]\npython = \"3.13\"\nplatform = \"x86_64-manylinux_2_40\"\nrequirements = [\"--extra-index-url https://h.example/cu129\"]\n",
    ),
    (
        "a repository",
        "[vllm]\npython = \"3.13\"\nplatform = \"x86_64-manylinux_2_40\"\nrequirements = [\"git+https://h.example/x\"]\n",
    ),
    (
        "a url",
        "[vllm]\npython = \"3.13\"\nplatform = \"x86_64-manylinux_2_40\"\nrequirements = [\"x @ https://h.example/x.whl\"]\n",
    ),
    (
        "a version of a provided package",
        "[vllm]\npython = \"3.13\"\nplatform = \"x86_64-manylinux_2_40\"\nrequirements = [\"numpy\"]\nprovided = [\"torch==2.8\"]\n",
    ),
];
