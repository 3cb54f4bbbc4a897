//! Options that a program does not have, and values that an option does not accept.

use super::{NONE, expect};

#[test]
fn an_option_that_was_removed_stops_the_program() {
    let clone = "git clone https://github.com/ggml-org/llama.cpp\n";
    let image = "services:\n  a:\n    image: ghcr.io/ggml-org/llama.cpp:server-vulkan\n    command:\n      - ";
    let cases: &[(&str, String, &[&str])] = &[
        ("a.sh", format!("{clone}build/bin/llama-server -m a.gguf --no-mmap\n"), &["2 warning"]),
        ("a.sh", "llama-server -m a.gguf \\\n  --mlock \\\n  --no-mmap\n".to_owned(), &["2 information"]),
        ("a.sh", "ARGS=\"--no-mmap -c 1\"\nllama-server $ARGS\n".to_owned(), &["2 information"]),
        ("a.env", "LLAMA_PORT=1\nEXTRA=\"--jinja --no-mmap\"\n".to_owned(), &["2 information"]),
        ("a.env", "EXTRA=\"--jinja --no-mmap\"\n".to_owned(), &[]),
        ("a.sh", "vllm serve a/b --swap-space 4\n".to_owned(), &["1 information"]),
        ("compose.yaml", format!("{image}--no-mmap\n"), &["5 warning"]),
        (
            "Dockerfile",
            "FROM ghcr.io/ggml-org/llama.cpp:full\nENTRYPOINT [\"llama-server\"]\nCMD [\"--mlock\"]\n"
                .to_owned(),
            &["3 warning"],
        ),
        ("a.sh", "llama-server -m a.gguf --load-mode none\n".to_owned(), &[]),
        ("a.sh", "other-server --no-mmap\n".to_owned(), &[]),
        // Such a release still has the option.
        (
            "a.sh",
            format!("{clone}cd llama.cpp && git checkout b6000\nllama-server -m a.gguf --no-mmap\n"),
            &[],
        ),
        ("compose.yaml", format!("{}--no-mmap\n", image.replace(":server-vulkan", ":server-b6000")), &[]),
        ("a.sh", "# ik_llama.cpp\nllama-server -m a.gguf --no-mmap\n".to_owned(), &[]),
        (
            "a.sh",
            "git clone https://github.com/a/llama.cpp-b\nllama-server -m a.gguf --no-mmap\n".to_owned(),
            &[],
        ),
        ("llama.cpp/examples/a.sh", "./llama-server -m a.gguf --no-mmap\n".to_owned(), &[]),
        ("bench.sh", "./llama-bench -m a.gguf -mmp 0\n".to_owned(), &[]),
        ("a.sh", format!("{clone}llama-bench -m a.gguf -mmp 0\n"), &["2 warning"]),
    ];
    for (file, text, lines) in cases {
        expect("option-gone", NONE, &[(file, text, lines)]);
    }
}

#[test]
fn a_program_rejects_an_option_that_it_never_had() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", "llama-server -m a.gguf --ctx-sise 4096\n", &["1 information"]),
        ("a.sh", "vllm serve a/b --max-modell-len 4096\n", &["1 information"]),
        ("a.sh", "python3 -m sglang.launch_server --modle-path a/b\n", &["1 information"]),
        (
            "compose.yaml",
            "services:\n  a:\n    image: vllm/vllm-openai:latest\n    command: --modell a/b\n",
            &["4 warning"],
        ),
        // These are right.
        ("a.sh", "llama-server -m a.gguf --ctx_size 4096 -ngl 99 \"$@\" > a.log 2>&1\n", &[]),
        ("a.sh", "vllm serve a/b --tensor-parallel 2 --no-enable-prefix-caching -tp=2\n", &[]),
        ("a.sh", "vllm serve a/b --hf-overrides.a 1 --max_model_len 4096\n", &[]),
        ("a.sh", "python3 -m sglang.launch_server --model-path a/b --tp 2\n", &[]),
        ("a.sh", "llama-server -m a.gguf $EXTRA --chat-template-kwargs '{\"a\": 1}'\n", &[]),
        ("a.sh", "vllm bench serve --request-rate 1\n", &[]),
    ];
    expect("option-unknown", NONE, cases);
}

#[test]
fn a_value_must_be_one_that_the_option_accepts() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.sh", "llama-server -m a.gguf --top-k 0.20\n", &["1 information"]),
        ("a.sh", "llama-server -m a.gguf --split-mode rows\n", &["1 information"]),
        ("a.sh", "llama-server -m a.gguf --ctx-size=4096\n", &["1 information"]),
        ("a.sh", "llama-server -m a.gguf --ctx-size --port 1\n", &["1 information"]),
        ("a.sh", "llama-server -m a.gguf --seed -1 --split-mode row --top-k 40\n", &[]),
        ("a.sh", "llama-server -m a.gguf --split-mode \"$MODE\" -c ${CTX:-4096}\n", &[]),
        ("a.sh", "cmake --install --prefix $HOME/a .\n", &["1 warning"]),
        ("a.sh", "cmake --build -j8 build\n", &["1 warning"]),
        ("a.sh", "cmake --install build --prefix /opt\ncmake --build . -j8\n", &[]),
        ("a.sh", "cmake --build --preset default -j8\n", &[]),
        // Another rule says this.
        ("a.sh", "llama-server -m a.gguf --flash-attn --port 1\n", &[]),
    ];
    expect("option-value", NONE, cases);
}

#[test]
fn the_name_of_the_release_is_part_of_the_message() {
    let found = crate::findings_in(
        "a.sh",
        "llama-server -m a.gguf --mlock --no-mmap --top-k 0.2\n",
        lint::Context::default(),
    );
    let of = |rule: &str| -> Vec<String> {
        let own = found.iter().filter(|one| one.rule.id == rule);
        own.map(|one| format!("{}: {}", one.message, one.help)).collect()
    };
    assert_eq!(
        of("option-gone"),
        [
            "llama.cpp's `llama-server` no longer has `--mlock` and `--no-mmap`, as of November 2026: \
          write `--load-mode mlock` or `--load-mode none`, or pin a release that has the old name"
        ]
    );
    assert_eq!(
        of("option-value"),
        ["`--top-k` of llama.cpp's `llama-server` reads `0.2` as `0`: write a whole number"]
    );
}
