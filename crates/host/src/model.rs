//! The memory that a language model needs on a GPU: its weights, and the KV cache.
//!
//! [`read`] reads the header of a GGUF file (ggml, `docs/gguf.md`, versions 2 and 3), or a folder
//! in Hugging Face's layout: `config.json` and safetensors files. It reads no weights.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

/// A model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// The name of its file or folder.
    pub name: String,
    /// The size of its files with weights, in bytes.
    pub weights: u64,
    /// Its cache, if the model's metadata describes it.
    pub cache: Option<Cache>,
    /// The longest context that it supports, in tokens.
    pub context: Option<u64>,
}

/// The KV cache with 16-bit numbers, the default of llama.cpp and vLLM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cache {
    /// The maximum number of bytes for each token of the context.
    pub per_token: u64,
    /// The longest context, in tokens, for which the cache has exactly this size. Beyond it, layers
    /// with a sliding window, or with a state instead of a cache, need less. 0 if nothing is known
    /// about how the architecture uses its cache.
    pub exact_until: u64,
}

/// Architectures in which all layers have the same kind of cache, as GGUF files and `config.json`
/// name them. A sliding window has its own key.
const PLAIN: [&str; 20] = [
    "glm4",
    "glm4_moe",
    "glm4moe",
    "granite",
    "internlm2",
    "llama",
    "mistral",
    "mistral3",
    "mixtral",
    "phi3",
    "qwen2",
    "qwen2_5_vl",
    "qwen2_5_vl_text",
    "qwen2_moe",
    "qwen2_vl",
    "qwen2moe",
    "qwen3",
    "qwen3_moe",
    "qwen3moe",
    "starcoder2",
];

/// Returns the longest context for which all layers keep all tokens.
fn exact_until(architecture: &str, window: Option<u64>) -> u64 {
    match window {
        _ if !PLAIN.contains(&architecture) => 0,
        // No sliding window.
        None | Some(0) => u64::MAX,
        Some(window) => window,
    }
}

/// The reason why a file or folder cannot be used as a model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// It is not a model, or it is damaged.
    #[error("cannot use `{}` as a model: {why}", path.display())]
    NotAModel {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// Determines the size of a model's weights and of its cache.
///
/// # Errors
/// `path` is neither a GGUF file nor a folder with `config.json` and safetensors files, or a file
/// is missing or damaged.
pub fn read(path: &Path) -> Result<Model, ModelError> {
    if path.is_dir() { hugging_face(path) } else { gguf(path) }
}

/// The size of one number in the cache, in bytes.
const NUMBER: u64 = 2;
/// The largest JSON file that is read, in bytes.
const LARGEST_JSON: u64 = 64 << 20;
/// The maximum number of keys and array elements that are read from a GGUF file. Vocabularies have
/// fewer than a million.
const MOST_VALUES: u64 = 1 << 22;
/// The longest text that is kept, in bytes.
const LONGEST_TEXT: u64 = 1 << 16;
/// The longest list that is kept. It has a number for each layer.
const LONGEST_LIST: u64 = 1 << 12;
/// The maximum number of dimensions of a tensor; ggml has 4.
const MOST_DIMENSIONS: u32 = 8;
/// The maximum nesting depth of arrays.
const DEEPEST: u32 = 4;

fn wrong(path: &Path, why: impl Into<String>) -> ModelError {
    ModelError::NotAModel { path: path.to_owned(), why: why.into() }
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> ModelError {
    move |source| ModelError::Read { path: path.to_owned(), source }
}

/// Returns the name for display, without control characters.
fn name_of(path: &Path) -> String {
    let own = path.file_name().map(ToOwned::to_owned);
    let real = || Some(path.canonicalize().ok()?.file_name()?.to_owned());
    let name = own.or_else(real).unwrap_or_else(|| path.as_os_str().to_owned());
    name.to_string_lossy().replace(char::is_control, "\u{fffd}")
}

fn size_of(path: &Path) -> Result<u64, ModelError> {
    let found = path.metadata().map_err(unreadable(path))?;
    if found.is_file() { Ok(found.len()) } else { Err(wrong(path, "it is not a file")) }
}

// --- GGUF ---

/// A value in the header of a GGUF file. Long texts and lists are not kept.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Number(u64),
    Text(String),
    List(Vec<u64>),
    NotKept,
}

fn gguf(path: &Path) -> Result<Model, ModelError> {
    let parts = parts(path)?;
    let mut headers = parts.iter().map(|part| head(part));
    let (values, first) = headers.next().unwrap_or_else(|| head(path))?;
    let weights = headers.try_fold(first, |sum, head| Ok(sum + head?.1))?;
    let path = parts.first().map_or(path, PathBuf::as_path);
    let Some(Value::Text(architecture)) = values.get("general.architecture") else {
        return Err(wrong(path, "it has no key `general.architecture`"));
    };
    let get = |key: &str| values.get(&format!("{architecture}.{key}"));
    let number = |key: &str| match get(key) {
        Some(Value::Number(number)) => Some(*number),
        _ => None,
    };
    // One number for all layers, or a number for each.
    let of_layer = |key: &str, layer: u64| match get(key)? {
        Value::Number(common) => Some(*common),
        Value::List(list) => list.get(usize::try_from(layer).ok()?).copied(),
        _ => None,
    };
    // With multi-head latent attention, the values are a part of the keys.
    let has_latent = get("attention.key_length_mla").is_some();
    let cache_of_layer = |layer: u64| {
        let heads = of_layer("attention.head_count", layer)?;
        let of_cache = match get("attention.head_count_kv") {
            Some(_) => of_layer("attention.head_count_kv", layer)?,
            None => heads,
        };
        let usual = || number("embedding_length")?.checked_div(heads);
        let key = number("attention.key_length").or_else(usual)?;
        let value = number("attention.value_length").or_else(usual)?;
        let both = if has_latent { key } else { key.checked_add(value)? };
        of_cache.checked_mul(both)?.checked_mul(NUMBER)
    };
    let layers = number("block_count").filter(|layers| (1..=LONGEST_LIST).contains(layers));
    let per_token = layers.and_then(|layers| {
        (0..layers).try_fold(0_u64, |sum, layer| sum.checked_add(cache_of_layer(layer)?))
    });
    let exact_until = exact_until(architecture, number("attention.sliding_window"));
    let cache = per_token.map(|per_token| Cache { per_token, exact_until });
    let context = number("context_length").filter(|tokens| *tokens > 0);
    Ok(Model { name: name_of(path), weights, cache, context })
}

/// Reads the header of a file. Returns its values, and the size of the file.
fn head(path: &Path) -> Result<(BTreeMap<String, Value>, u64), ModelError> {
    let size = size_of(path)?;
    let file = File::open(path).map_err(unreadable(path))?;
    let head = Head { reader: BufReader::new(file), size, left: MOST_VALUES }.read();
    let values = head.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => wrong(path, error.to_string()),
        io::ErrorKind::UnexpectedEof => wrong(path, "it is incomplete"),
        _ => unreadable(path)(error),
    })?;
    Ok((values, size))
}

/// Returns all files of a model that `gguf-split` has split: `NAME-00001-of-00003.gguf`.
fn parts(path: &Path) -> Result<Vec<PathBuf>, ModelError> {
    let split = || {
        let stem = path.file_name()?.to_str()?.strip_suffix(".gguf")?;
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (name, number) = rest.rsplit_once('-')?;
        let is_number = |text: &str| text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
        let count = count.parse::<u32>().ok().filter(|_| is_number(count) && is_number(number))?;
        Some((name, count))
    };
    let Some((name, count)) = split() else { return Ok(vec![path.to_owned()]) };
    let part = |number| path.with_file_name(format!("{name}-{number:05}-of-{count:05}.gguf"));
    let parts: Vec<PathBuf> = (1..=count).map(part).collect();
    match parts.iter().find(|file| !file.exists()) {
        Some(missing) => Err(wrong(path, format!("its part `{}` is missing", missing.display()))),
        None => Ok(parts),
    }
}

/// Reads the header of a GGUF file.
struct Head {
    reader: BufReader<File>,
    /// The size of the file.
    size: u64,
    /// The number of values that may still follow.
    left: u64,
}

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

impl Head {
    /// Returns the keys with their values. The last tensor must begin within the file.
    fn read(&mut self) -> io::Result<BTreeMap<String, Value>> {
        if self.bytes()? != *b"GGUF" {
            return Err(invalid("it does not begin with `GGUF`"));
        }
        match u32::from_le_bytes(self.bytes()?) {
            2 | 3 => {}
            // A small number in big-endian byte order.
            version if version > 0xffff => return Err(invalid("its numbers are big-endian")),
            version => return Err(invalid(format!("GGUF version {version} is not supported"))),
        }
        let (tensors, keys) = (self.number()?, self.number()?);
        let mut values = BTreeMap::new();
        for _ in 0..keys {
            let key = self.text()?.ok_or_else(|| invalid("a key is too long"))?;
            let kind = u32::from_le_bytes(self.bytes()?);
            let value = self.value(kind, 0)?;
            values.insert(key, value);
        }
        let last =
            (0..tensors).try_fold(0, |last, _| Ok::<_, io::Error>(self.tensor()?.max(last)))?;
        let is_within = |end: u64| end.checked_add(last).is_some_and(|begin| begin < self.size);
        if tensors > 0 && !is_within(self.reader.stream_position()?) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(values)
    }

    /// Reads the description of a tensor. Returns the offset of its data after the header.
    fn tensor(&mut self) -> io::Result<u64> {
        self.count()?;
        self.text()?;
        let dimensions = u32::from_le_bytes(self.bytes()?);
        if dimensions > MOST_DIMENSIONS {
            return Err(invalid("a tensor has too many dimensions"));
        }
        for _ in 0..dimensions {
            self.number()?;
        }
        let _kind: [u8; 4] = self.bytes()?;
        self.number()
    }

    /// Counts a value or tensor.
    fn count(&mut self) -> io::Result<()> {
        self.left = self.left.checked_sub(1).ok_or_else(|| invalid("it has too many values"))?;
        Ok(())
    }

    /// Reads a value of a type (`gguf_metadata_value_type`).
    fn value(&mut self, kind: u32, depth: u32) -> io::Result<Value> {
        self.count()?;
        let at_least_zero =
            |number: i64| u64::try_from(number).map_or(Value::NotKept, Value::Number);
        Ok(match kind {
            0 | 7 => Value::Number(u8::from_le_bytes(self.bytes()?).into()),
            1 => at_least_zero(i8::from_le_bytes(self.bytes()?).into()),
            2 => Value::Number(u16::from_le_bytes(self.bytes()?).into()),
            3 => at_least_zero(i16::from_le_bytes(self.bytes()?).into()),
            4 => Value::Number(u32::from_le_bytes(self.bytes()?).into()),
            5 => at_least_zero(i32::from_le_bytes(self.bytes()?).into()),
            6 => self.bytes::<4>().map(|_| Value::NotKept)?,
            8 => self.text()?.map_or(Value::NotKept, Value::Text),
            9 => self.array(depth)?,
            10 => Value::Number(self.number()?),
            11 => at_least_zero(i64::from_le_bytes(self.bytes()?)),
            12 => self.bytes::<8>().map(|_| Value::NotKept)?,
            other => return Err(invalid(format!("it has a value of the unknown type {other}"))),
        })
    }

    fn array(&mut self, depth: u32) -> io::Result<Value> {
        if depth == DEEPEST {
            return Err(invalid("its arrays are nested too deeply"));
        }
        let kind = u32::from_le_bytes(self.bytes()?);
        let length = self.number()?;
        let mut list = Vec::new();
        for _ in 0..length {
            if let Value::Number(number) = self.value(kind, depth + 1)?
                && length <= LONGEST_LIST
            {
                list.push(number);
            }
        }
        let is_whole = u64::try_from(list.len()) == Ok(length);
        Ok(if is_whole { Value::List(list) } else { Value::NotKept })
    }

    /// Reads a text; `None` if it is too long, or not UTF-8.
    fn text(&mut self) -> io::Result<Option<String>> {
        let length = self.number()?;
        if length > self.size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if length > LONGEST_TEXT {
            self.reader.seek_relative(length.try_into().map_err(io::Error::other)?)?;
            return Ok(None);
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        self.reader.read_exact(&mut bytes)?;
        Ok(String::from_utf8(bytes).ok())
    }

    fn number(&mut self) -> io::Result<u64> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

// --- Hugging Face ---

fn hugging_face(folder: &Path) -> Result<Model, ModelError> {
    let config = folder.join("config.json");
    if !config.is_file() {
        return Err(wrong(
            folder,
            "it has no `config.json`; pass a .gguf file, or a folder with a `config.json`",
        ));
    }
    let whole = json(&config)?;
    if !whole.is_object() {
        return Err(wrong(&config, "it is not a JSON object"));
    }
    // For models that also read images, `text_config` contains the settings of the language model.
    let text = whole.get("text_config").filter(|part| part.is_object()).unwrap_or(&whole);
    let is_given = |key: &str| text.get(key).is_some_and(|value| !value.is_null());
    let number = |key: &str| text.get(key)?.as_u64().filter(|number| *number > 0);
    // If a key is present but its value is not a number, the result is unknown.
    let or = |key: &str, usual: Option<u64>| if is_given(key) { number(key) } else { usual };
    let per_token = || {
        let layers = number("num_hidden_layers")?;
        if is_given("kv_lora_rank") {
            // Multi-head latent attention keeps one vector for all heads.
            let latent = number("kv_lora_rank")?.checked_add(number("qk_rope_head_dim")?)?;
            return layers.checked_mul(latent)?.checked_mul(NUMBER);
        }
        let heads = number("num_attention_heads")?;
        let usual = || number("hidden_size")?.checked_div(heads);
        let head = if is_given("head_dim") { number("head_dim")? } else { usual()? };
        let of_cache = or("num_key_value_heads", Some(heads))?;
        layers.checked_mul(of_cache)?.checked_mul(head)?.checked_mul(2 * NUMBER)
    };
    let architecture = text.get("model_type").or_else(|| whole.get("model_type"));
    let architecture = architecture.and_then(Json::as_str).unwrap_or_default();
    let has_window = text.get("use_sliding_window") != Some(&Json::Bool(false));
    let window = number("sliding_window").filter(|_| has_window);
    let cache = per_token()
        .map(|per_token| Cache { per_token, exact_until: exact_until(architecture, window) });
    let context = number("max_position_embeddings");
    Ok(Model { name: name_of(folder), weights: safetensors(folder)?, cache, context })
}

/// Returns the size of the files with weights. A folder may contain the same weights twice, so only
/// the files in the index count; without an index, `model.safetensors`; without either, all files
/// that [`is_weights`] accepts.
fn safetensors(folder: &Path) -> Result<u64, ModelError> {
    let index = folder.join("model.safetensors.index.json");
    let single = folder.join("model.safetensors");
    let files: BTreeSet<PathBuf> = if index.is_file() {
        let (path, index) = (index.clone(), json(&index)?);
        let map = index.get("weight_map").and_then(Json::as_object);
        let names = map.into_iter().flat_map(|map| map.values()).filter_map(Json::as_str);
        // A name with a `/` could point outside the model's folder.
        let names: BTreeSet<PathBuf> =
            names.filter(|name| !name.contains('/')).map(|name| folder.join(name)).collect();
        if names.is_empty() {
            return Err(wrong(&path, "it names no files"));
        }
        names
    } else if single.is_file() {
        [single].into()
    } else {
        let entries = folder.read_dir().map_err(unreadable(folder))?;
        let paths = entries.flatten().map(|entry| entry.path());
        paths.filter(|path| is_weights(path)).collect()
    };
    if files.is_empty() {
        return Err(wrong(folder, "it has no .safetensors files"));
    }
    files.iter().map(|file| size_of(file)).sum()
}

/// Returns whether a file contains weights to count. Some folders contain all weights a second
/// time, in the format of the model's authors.
fn is_weights(path: &Path) -> bool {
    let is_second = path
        .file_name()
        .is_some_and(|name| name.to_str().is_some_and(|name| name.starts_with("consolidated")));
    path.extension().is_some_and(|end| end == "safetensors") && !is_second
}

fn json(path: &Path) -> Result<Json, ModelError> {
    let mut text = Vec::new();
    let file = File::open(path).map_err(unreadable(path))?;
    file.take(LARGEST_JSON).read_to_end(&mut text).map_err(unreadable(path))?;
    serde_json::from_slice(&text).map_err(|error| wrong(path, error.to_string()))
}
