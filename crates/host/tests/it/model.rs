//! Tests how much memory models need, as read from their files.

use std::fs;
use std::path::Path;

use host::model::{self, Cache, Model};

/// The header of a GGUF file.
#[derive(Clone)]
struct Gguf {
    version: u32,
    keys: u64,
    bytes: Vec<u8>,
}

impl Gguf {
    fn new(architecture: &str) -> Self {
        let empty = Self { version: 3, keys: 0, bytes: Vec::new() };
        empty.text("general.architecture", architecture)
    }

    fn value(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.keys += 1;
        self.bytes.extend(text(key));
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend(value);
        self
    }

    fn text(self, key: &str, value: &str) -> Self {
        self.value(key, 8, &text(value))
    }

    fn number(self, key: &str, value: u32) -> Self {
        self.value(key, 4, &value.to_le_bytes())
    }

    /// Adds a list of signed 32-bit numbers.
    fn list(self, key: &str, values: &[i32]) -> Self {
        let head = [&5_u32.to_le_bytes()[..], &(values.len() as u64).to_le_bytes()].concat();
        let values = values.iter().flat_map(|value| value.to_le_bytes());
        self.value(key, 9, &head.into_iter().chain(values).collect::<Vec<_>>())
    }

    /// Returns the file, with two tensors of 64 bytes.
    fn whole(&self) -> Vec<u8> {
        let (version, keys) = (self.version.to_le_bytes(), self.keys.to_le_bytes());
        let tensor = |name: &str, begin: u64| {
            let (dimensions, length, kind) = (1_u32, 16_u64, 0_u32);
            let numbers =
                [&dimensions.to_le_bytes()[..], &length.to_le_bytes(), &kind.to_le_bytes()];
            [text(name), numbers.concat(), begin.to_le_bytes().to_vec()].concat()
        };
        let tensors = [tensor("a.weight", 0), tensor("b.weight", 64)].concat();
        let head = [&b"GGUF"[..], &version, &2_u64.to_le_bytes(), &keys, &self.bytes, &tensors];
        [head.concat(), vec![0; 128]].concat()
    }
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// Llama 3.1 8B, with some of the other keys of such a file.
fn llama() -> Gguf {
    let tokens: Vec<u8> = (0..5_000).flat_map(|number| text(&format!("token {number}"))).collect();
    let head = [&8_u32.to_le_bytes()[..], &5_000_u64.to_le_bytes()].concat();
    Gguf::new("llama")
        .text("general.name", "Llama")
        .value("llama.rope.freq_base", 6, &500_000_f32.to_le_bytes())
        .value("tokenizer.ggml.add_bos_token", 7, &[1])
        .value("tokenizer.ggml.tokens", 9, &[head, tokens].concat())
        .text("tokenizer.chat_template", &"x".repeat(100_000))
        .number("llama.block_count", 32)
        .number("llama.context_length", 131_072)
        .number("llama.embedding_length", 4096)
        .number("llama.attention.head_count", 32)
        .number("llama.attention.head_count_kv", 8)
}

fn read(path: &Path) -> Model {
    model::read(path).unwrap()
}

fn refused(path: &Path) -> String {
    model::read(path).unwrap_err().to_string()
}

#[test]
fn a_gguf_file_tells_the_size_of_its_cache() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gguf");
    let cache = |gguf: &Gguf| {
        fs::write(&path, gguf.whole()).unwrap();
        let found = read(&path);
        assert_eq!((found.name.as_str(), found.weights), ("a.gguf", gguf.whole().len() as u64));
        found.cache.map(|Cache { per_token, exact_until }| (per_token, exact_until))
    };
    // 32 layers, 8 heads, 128 numbers for a key and a value, 2 bytes each: 16 GiB for 131,072 tokens.
    assert_eq!(cache(&llama()), Some((131_072, u64::MAX)));
    assert_eq!(read(&path).context, Some(131_072));
    // A key length that does not follow from the other numbers, as in Gemma 3.
    let lengths = llama()
        .number("llama.attention.key_length", 256)
        .number("llama.attention.value_length", 64);
    assert_eq!(cache(&lengths), Some((32 * 8 * 320 * 2, u64::MAX)));
    // Without `head_count_kv`, each head has keys of its own.
    let many = Gguf::new("gpt2")
        .number("gpt2.block_count", 2)
        .number("gpt2.embedding_length", 64)
        .number("gpt2.attention.head_count", 4);
    assert_eq!(cache(&many), Some((2 * 4 * 32 * 2, 0)));
    // A different number for each layer; layers with 0 have no cache.
    let layers = Gguf::new("h")
        .number("h.block_count", 3)
        .number("h.embedding_length", 64)
        .number("h.attention.head_count", 4)
        .list("h.attention.head_count_kv", &[2, 0, 1]);
    assert_eq!(cache(&layers), Some((3 * 32 * 2, 0)));
    let window = llama().number("llama.attention.sliding_window", 4096);
    assert_eq!(cache(&window), Some((131_072, 4096)));
    let no_window = llama().number("llama.attention.sliding_window", 0);
    assert_eq!(cache(&no_window), Some((131_072, u64::MAX)));
    // Multi-head latent attention, as in DeepSeek V3: values are a part of the keys.
    let latent = Gguf::new("deepseek2")
        .number("deepseek2.block_count", 61)
        .number("deepseek2.attention.head_count", 128)
        .number("deepseek2.attention.head_count_kv", 1)
        .number("deepseek2.attention.key_length", 576)
        .number("deepseek2.attention.value_length", 512)
        .number("deepseek2.attention.key_length_mla", 192);
    assert_eq!(cache(&latent), Some((61 * 576 * 2, 0)));
    // Nothing is guessed if a number is missing, wrong or 0.
    assert_eq!(cache(&Gguf::new("clip").number("clip.block_count", 3)), None);
    assert_eq!(cache(&llama().number("llama.attention.head_count", 0)), None);
    assert_eq!(cache(&llama().number("llama.block_count", u32::MAX)), None);
}

#[test]
fn all_parts_of_a_split_model_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = |number| folder.path().join(format!("big-0000{number}-of-00003.gguf"));
    let part = Gguf { version: 3, keys: 0, bytes: Vec::new() }.whole();
    fs::write(path(1), llama().whole()).unwrap();
    fs::write(path(2), &part).unwrap();
    assert!(refused(&path(2)).contains("big-00003-of-00003.gguf` is missing"));
    fs::write(path(3), &part).unwrap();
    for number in 1..=3 {
        let found = read(&path(number));
        assert_eq!(found.weights, (llama().whole().len() + 2 * part.len()) as u64);
        assert_eq!(found.context, Some(131_072));
    }
    fs::write(path(3), &part[..part.len() - 100]).unwrap();
    assert!(refused(&path(1)).contains("big-00003-of-00003.gguf` as a model: it is incomplete"));
}

#[test]
fn a_folder_of_hugging_face_is_read_by_its_config_and_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    assert!(refused(folder.path()).contains("it has no `config.json`"));
    let config = r#"{"model_type": "qwen2", "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
        "hidden_size": 3584, "max_position_embeddings": 32768, "sliding_window": 131072,
        "use_sliding_window": false}"#;
    fs::write(path("config.json"), config).unwrap();
    assert!(refused(folder.path()).contains("it has no .safetensors files"));
    for (name, size) in [
        ("model-1.safetensors", 1000),
        ("model-2.safetensors", 500),
        ("consolidated.safetensors", 1500),
    ] {
        fs::write(path(name), vec![0; size]).unwrap();
    }
    // The same weights in a different form do not count.
    assert_eq!(read(folder.path()).weights, 1500);
    fs::write(path("model.safetensors.index.json"), r#"{"weight_map": {}}"#).unwrap();
    assert!(refused(folder.path()).contains("it names no files"));
    let index = r#"{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors", "c": "model-2.safetensors"}}"#;
    fs::write(path("model.safetensors.index.json"), index).unwrap();
    let found = read(folder.path());
    assert_eq!((found.weights, found.context), (1500, Some(32768)));
    // Qwen2.5 7B: 56 KiB for each token.
    assert_eq!(found.cache, Some(Cache { per_token: 28 * 4 * 128 * 2 * 2, exact_until: u64::MAX }));
    let inside = format!(r#"{{"model_type": "vl", "text_config": {config}}}"#);
    fs::write(path("config.json"), inside).unwrap();
    assert_eq!(read(folder.path()), found);
    let exact_until = |from: &str, to: &str| {
        fs::write(path("config.json"), config.replace(from, to)).unwrap();
        read(folder.path()).cache.map(|cache| cache.exact_until)
    };
    assert_eq!(exact_until("_window\": false", "_window\": true"), Some(131_072));
    assert_eq!(exact_until("\"qwen2\"", "\"qwen3_next\""), Some(0));
    // A value that is not a number is not guessed.
    assert_eq!(exact_until("_heads\": 4", "_heads\": \"4\""), None);
    assert_eq!(exact_until("_heads\": 4", "_heads\": -4"), None);
    assert_eq!(exact_until("\"hidden_size\": 3584", "\"head_dim\": 0"), None);
    // DeepSeek V3.
    let latent = r#"{"model_type": "deepseek_v3", "num_hidden_layers": 61, "num_attention_heads": 128,
        "hidden_size": 7168, "kv_lora_rank": 512, "qk_rope_head_dim": 64}"#;
    fs::write(path("config.json"), latent).unwrap();
    let cache = Cache { per_token: 61 * 576 * 2, exact_until: 0 };
    assert_eq!(read(folder.path()).cache, Some(cache));
    fs::write(path("config.json"), "{").unwrap();
    assert!(refused(folder.path()).contains("EOF"));
    fs::write(path("config.json"), "[]").unwrap();
    assert!(refused(folder.path()).contains("it is not a JSON object"));
    fs::write(path("config.json"), "{}").unwrap();
    assert_eq!(read(folder.path()).cache, None);
    fs::remove_file(path("model-2.safetensors")).unwrap();
    fs::create_dir(path("model-2.safetensors")).unwrap();
    fs::write(path("model.safetensors.index.json"), index).unwrap();
    assert!(refused(folder.path()).contains("it is not a file"));
}

#[test]
fn a_file_that_is_something_else_or_damaged_is_refused_and_never_read_for_long() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gguf");
    let refused_bytes = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        refused(&path)
    };
    assert!(refused_bytes(b"PK\x03\x04 not a model").contains("does not begin with `GGUF`"));
    let with_version = |version| Gguf { version, ..llama() }.whole();
    assert!(refused_bytes(&with_version(1)).contains("GGUF version 1 is not supported"));
    assert!(refused_bytes(&with_version(3_u32.swap_bytes())).contains("big-endian"));
    let other_kind = llama().value("x", 99, &[]).whole();
    assert!(refused_bytes(&other_kind).contains("the unknown type 99"));
    let none = Gguf { version: 3, keys: 0, bytes: Vec::new() };
    assert!(refused_bytes(&none.whole()).contains("no key `general.architecture`"));
    // Lengths and counts that exceed what the file contains.
    let endless = Gguf { keys: u64::MAX, ..llama() };
    assert!(refused_bytes(&endless.whole()).contains("it is incomplete"));
    let huge = [&10_u32.to_le_bytes()[..], &u64::MAX.to_le_bytes()].concat();
    assert!(refused_bytes(&llama().value("x", 9, &huge).whole()).contains("it is incomplete"));
    assert!(
        refused_bytes(&llama().value("x", 8, &u64::MAX.to_le_bytes()).whole())
            .contains("it is incomplete")
    );
    let nested = [&9_u32.to_le_bytes()[..], &1_u64.to_le_bytes()].concat().repeat(9);
    assert!(refused_bytes(&llama().value("x", 9, &nested).whole()).contains("too deep"));
    let zeros = [&0_u32.to_le_bytes()[..], &u64::MAX.to_le_bytes(), &vec![0; 5 << 20]].concat();
    assert!(refused_bytes(&llama().value("x", 9, &zeros).whole()).contains("too many values"));
    // The file cut at every length before its last tensor, whose size is not known.
    let whole = llama().whole();
    for length in (0..whole.len() - 64).step_by(997).chain([0, 3, 4, 8]) {
        assert!(refused_bytes(&whole[..length]).contains("a.gguf"), "{length}");
    }
    // With any byte changed, the file is read or refused, without an overflow.
    let whole = Gguf::new("h")
        .number("h.block_count", 3)
        .number("h.embedding_length", 64)
        .number("h.attention.head_count", 4)
        .list("h.attention.head_count_kv", &[2, 0, 1])
        .whole();
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] = value;
            fs::write(&path, damaged).unwrap();
            drop(model::read(&path));
        }
    }
    assert!(refused(&folder.path().join("absent.gguf")).starts_with("cannot read `"));
    let fifo = folder.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    assert!(refused(&fifo).contains("it is not a file"));
}
