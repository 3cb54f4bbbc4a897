//! The memory that a language model needs on a GPU: its weights, and the cache of keys and values.
//!
//! [`read`] reads the head of a GGUF file (ggml, `docs/gguf.md`, versions 2 and 3), or a folder as
//! Hugging Face publishes it: `config.json` and safetensors files. It reads no weights.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

/// A model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// The name of its file or folder.
    pub name: String,
    /// The size of its files with weights, in bytes.
    pub weights: u64,
    /// Its cache, if the model says enough about it.
    pub cache: Option<Cache>,
    /// The longest context that it was made for, in tokens.
    pub context: Option<u64>,
}

/// The cache of keys and values, with numbers of 16 bits, which is the default of llama.cpp and
/// vLLM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cache {
    /// The bytes for each token of the context.
    pub per_token: u64,
    /// Whether the cache is always that large. Layers with a sliding window, or with a state instead
    /// of a cache, make it smaller for long contexts.
    pub is_exact: bool,
}

/// A file or folder is not a model that can be read.
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
    /// It is something else, or damaged.
    #[error("`{}` is not a model that can be read: {why}", path.display())]
    NotAModel {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// Reads what a model says about its size.
///
/// # Errors
/// `path` is neither a GGUF file nor a folder with `config.json` and safetensors files, or a file
/// is missing or damaged.
pub fn read(path: &Path) -> Result<Model, ModelError> {
    if path.is_dir() { hugging_face(path) } else { gguf(path) }
}

/// Bytes of one number in the cache.
const NUMBER: u64 = 2;
/// The largest file of JSON that is read, in bytes.
const LARGEST_JSON: u64 = 64 << 20;
/// The most keys and array elements of a GGUF file that are read. Vocabularies have fewer than a
/// million.
const MOST_VALUES: u64 = 1 << 22;
/// The longest text that is kept, in bytes.
const LONGEST_TEXT: u64 = 1 << 16;
/// The longest list that is kept. It has a number for each layer.
const LONGEST_LIST: u64 = 1 << 12;
/// How deep arrays may be inside each other.
const DEEPEST: u32 = 4;

fn wrong(path: &Path, why: impl Into<String>) -> ModelError {
    ModelError::NotAModel { path: path.to_owned(), why: why.into() }
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> ModelError {
    move |source| ModelError::Read { path: path.to_owned(), source }
}

fn name_of(path: &Path) -> String {
    let name = path.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_owned()));
    name.unwrap_or_else(|| path.as_os_str().to_owned()).to_string_lossy().into_owned()
}

fn size_of(path: &Path) -> Result<u64, ModelError> {
    path.metadata().map(|found| found.len()).map_err(unreadable(path))
}

// --- GGUF ---

/// A value in the head of a GGUF file. Long texts and lists are not kept.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Number(u64),
    Text(String),
    List(Vec<u64>),
    NotKept,
}

fn gguf(path: &Path) -> Result<Model, ModelError> {
    let parts = parts(path)?;
    let first = parts.first().map_or(path, PathBuf::as_path);
    if !first.metadata().map_err(unreadable(first))?.is_file() {
        return Err(wrong(first, "it is not a file"));
    }
    let weights = parts.iter().map(|part| size_of(part)).sum::<Result<u64, _>>()?;
    let file = File::open(first).map_err(unreadable(first))?;
    let values = Head { reader: BufReader::new(file), left: MOST_VALUES }.read();
    let values = values.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => wrong(first, error.to_string()),
        io::ErrorKind::UnexpectedEof => wrong(first, "it ends within its head"),
        _ => unreadable(first)(error),
    })?;
    let Some(Value::Text(architecture)) = values.get("general.architecture") else {
        return Err(wrong(first, "it has no key `general.architecture`"));
    };
    let get = |key: &str| values.get(&format!("{architecture}.{key}"));
    let number = |key: &str| match get(key) {
        Some(Value::Number(number)) => Some(*number),
        _ => None,
    };
    // A number for all layers, or one for each.
    let of_layer = |key: &str, layer: u64| match get(key)? {
        Value::Number(number) => Some(*number),
        Value::List(list) => list.get(usize::try_from(layer).ok()?).copied(),
        _ => None,
    };
    let cache_of_layer = |layer: u64| {
        let heads = of_layer("attention.head_count", layer)?;
        let of_cache = of_layer("attention.head_count_kv", layer).unwrap_or(heads);
        let usual = || number("embedding_length")?.checked_div(heads);
        let key = number("attention.key_length").or_else(usual)?;
        let value = number("attention.value_length").or_else(usual)?;
        of_cache.checked_mul(key.checked_add(value)?)?.checked_mul(NUMBER)
    };
    let layers = number("block_count").filter(|layers| *layers <= LONGEST_LIST);
    let per_token = layers.and_then(|layers| {
        (0..layers).try_fold(0_u64, |sum, layer| sum.checked_add(cache_of_layer(layer)?))
    });
    let saves = |key: &String| {
        ["attention.sliding_window", "kv_lora_rank", ".ssm.", "full_attention_interval", ".wkv."]
            .iter()
            .any(|part| key.contains(part))
    };
    let is_exact = !values.keys().any(saves);
    let cache = per_token.map(|per_token| Cache { per_token, is_exact });
    Ok(Model { name: name_of(first), weights, cache, context: number("context_length") })
}

/// Returns all files of a model that is split as `gguf-split` does it: `NAME-00001-of-00003.gguf`.
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
    match parts.iter().find(|part| !part.exists()) {
        Some(missing) => Err(wrong(path, format!("its part `{}` is missing", missing.display()))),
        None => Ok(parts),
    }
}

/// Reads the head of a GGUF file.
struct Head {
    reader: BufReader<File>,
    /// How many more values may follow.
    left: u64,
}

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

impl Head {
    fn read(&mut self) -> io::Result<BTreeMap<String, Value>> {
        if self.bytes()? != *b"GGUF" {
            return Err(invalid("it does not begin with `GGUF`"));
        }
        match u32::from_le_bytes(self.bytes()?) {
            2 | 3 => {}
            // The bytes of a small number in the other order.
            version if version > 0xffff => return Err(invalid("its numbers are big-endian")),
            version => return Err(invalid(format!("GGUF version {version} is not known"))),
        }
        let _tensors = self.number()?;
        let mut values = BTreeMap::new();
        for _ in 0..self.number()? {
            let key = self.text()?.ok_or_else(|| invalid("a key is too long"))?;
            let kind = u32::from_le_bytes(self.bytes()?);
            let value = self.value(kind, 0)?;
            values.insert(key, value);
        }
        Ok(values)
    }

    /// Reads a value of a type (`gguf_metadata_value_type`).
    fn value(&mut self, kind: u32, depth: u32) -> io::Result<Value> {
        self.left = self.left.checked_sub(1).ok_or_else(|| invalid("it has too many values"))?;
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
            return Err(invalid("its arrays are too deep"));
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

    /// Reads a text; `None` if it is long, or not UTF-8.
    fn text(&mut self) -> io::Result<Option<String>> {
        let length = self.number()?;
        if length > LONGEST_TEXT {
            let skipped = io::copy(&mut self.reader.by_ref().take(length), &mut io::sink())?;
            return if skipped == length {
                Ok(None)
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            };
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
        return Err(wrong(folder, "it has no `config.json`; name a .gguf file or such a folder"));
    }
    let whole = json(&config)?;
    // Models that also read images have a part for text.
    let text = whole.get("text_config").filter(|part| part.is_object()).unwrap_or(&whole);
    let number = |key: &str| text.get(key).and_then(Json::as_u64);
    let per_token = || {
        let (layers, heads) = (number("num_hidden_layers")?, number("num_attention_heads")?);
        let head = number("head_dim").or_else(|| number("hidden_size")?.checked_div(heads))?;
        let of_cache = number("num_key_value_heads").unwrap_or(heads);
        layers.checked_mul(of_cache)?.checked_mul(head)?.checked_mul(2 * NUMBER)
    };
    let cache = per_token().map(|per_token| Cache { per_token, is_exact: !saves_cache(text) });
    let context = number("max_position_embeddings");
    Ok(Model { name: name_of(folder), weights: safetensors(folder)?, cache, context })
}

/// Returns whether some layers have a smaller cache, or none.
fn saves_cache(config: &Json) -> bool {
    let has_window = config.get("sliding_window").is_some_and(Json::is_number)
        && config.get("use_sliding_window") != Some(&Json::Bool(false));
    let other_layers = config
        .get("layer_types")
        .and_then(Json::as_array)
        .is_some_and(|layers| layers.iter().any(|layer| layer != "full_attention"));
    let saves = |key: &String| {
        ["kv_lora_rank", "full_attention_interval", "attn_layer", "mamba", "ssm", "linear_"]
            .iter()
            .any(|part| key.contains(part))
    };
    has_window || other_layers || config.as_object().is_some_and(|keys| keys.keys().any(saves))
}

/// Returns the size of the files with weights. A folder may contain the same weights twice, so an
/// index or `model.safetensors` decides.
fn safetensors(folder: &Path) -> Result<u64, ModelError> {
    let index = folder.join("model.safetensors.index.json");
    let single = folder.join("model.safetensors");
    let files: BTreeSet<PathBuf> = if index.is_file() {
        let index = json(&index)?;
        let map = index.get("weight_map").and_then(Json::as_object);
        let names = map.into_iter().flat_map(|map| map.values()).filter_map(Json::as_str);
        // A name with a folder leads out of the model's.
        names.filter(|name| !name.contains('/')).map(|name| folder.join(name)).collect()
    } else if single.is_file() {
        [single].into()
    } else {
        let entries = folder.read_dir().map_err(unreadable(folder))?;
        let paths = entries.flatten().map(|entry| entry.path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "safetensors")).collect()
    };
    if files.is_empty() {
        return Err(wrong(folder, "it has no .safetensors files"));
    }
    files.iter().map(|file| size_of(file)).sum()
}

fn json(path: &Path) -> Result<Json, ModelError> {
    let mut text = Vec::new();
    let file = File::open(path).map_err(unreadable(path))?;
    file.take(LARGEST_JSON).read_to_end(&mut text).map_err(unreadable(path))?;
    serde_json::from_slice(&text).map_err(|error| wrong(path, error.to_string()))
}
