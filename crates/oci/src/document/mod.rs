//! Reads OCI's JSON documents, and refuses those that parsers interpret differently.
//!
//! Go's `encoding/json`, which podman, docker and skopeo use, ignores the case of struct keys, lets
//! the last of duplicate keys win, and does not reject the same values as serde_json. If the two
//! would read a document differently, this module refuses it and names the path of the key. Unknown
//! keys are kept unchanged.

mod shape;

use std::fmt;
use std::fmt::Write as _;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use self::shape::Shape::{self, Any, Boolean, Integer, List, Map as MapOf, Struct, Text, Time};
use self::shape::{CONFIG, is_time};
pub(crate) use self::shape::{DOCKER, MANIFEST};

/// The maximum number of decimal digits that every parser's floating-point numbers preserve.
const DIGITS: usize = 15;
/// The maximum length of a path in a message, in characters.
const SHOWN: usize = 120;

/// Why a document is refused.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The bytes are not JSON.
    #[error("it is not JSON")]
    Json(#[source] serde_json::Error),
    /// A key occurs twice.
    #[error("key `{0}` occurs twice, and parsers disagree on which one counts")]
    Twice(String),
    /// Two keys differ only in letter case.
    #[error("key `{path}` differs from `{like}` only in case, which Go programs ignore")]
    Spelling {
        /// The path of the key.
        path: String,
        /// The key that it is confused with.
        like: String,
    },
    /// A value has the wrong type.
    #[error("key `{path}` is {found}, not {wanted}")]
    Type {
        /// The path of the key.
        path: String,
        /// The actual type.
        found: &'static str,
        /// The expected type.
        wanted: &'static str,
    },
    /// A number cannot be preserved.
    #[error("key `{0}` is a number with more digits than some parsers preserve")]
    Digits(String),
}

/// Reads the config of an image.
///
/// # Errors
/// Fails if it is not JSON, or if Go programs would read it differently.
pub fn read_config(bytes: &[u8]) -> Result<Map<String, Value>, DocumentError> {
    read(bytes, CONFIG)
}

/// Reads a document that must have the given shape.
pub(crate) fn read(bytes: &[u8], shape: Shape) -> Result<Map<String, Value>, DocumentError> {
    match serde_json::from_slice(bytes).map_err(DocumentError::Json)? {
        Json::Object(entries) => object(entries, shape, &Path(None)),
        // Go accepts `null` as a document without keys.
        other => Err(wrong(&Path(None), &other, "an object")),
    }
}

/// Reads a list of documents that must have the given shape.
pub(crate) fn read_list(
    bytes: &[u8],
    shape: Shape,
) -> Result<Vec<Map<String, Value>>, DocumentError> {
    let path = Path(None);
    let items = match serde_json::from_slice(bytes).map_err(DocumentError::Json)? {
        Json::List(items) => items,
        other => return Err(wrong(&path, &other, "an array")),
    };
    let item = |(number, item)| {
        let item_path = Path(Some((&path, Part::Item(number))));
        match item {
            Json::Object(entries) => object(entries, shape, &item_path),
            other => Err(wrong(&item_path, &other, "an object")),
        }
    };
    items.into_iter().enumerate().map(item).collect()
}

/// JSON that keeps all keys of an object in order, including duplicates.
enum Json {
    Null,
    Boolean(bool),
    Number(Number),
    Text(String),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Boolean(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Json, E> {
        Number::from_f64(value).map(Json::Number).ok_or_else(|| E::custom("a number is too large"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut object = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            object.push(entry);
        }
        Ok(Json::Object(object))
    }
}

impl Json {
    /// Returns the value if it has the shape.
    fn into_value(self, shape: Shape, path: &Path<'_>) -> Result<Value, DocumentError> {
        if !self.fits(shape) {
            return Err(wrong(path, &self, shape.name()));
        }
        Ok(match self {
            Self::Null => Value::Null,
            Self::Boolean(value) => Value::Bool(value),
            Self::Number(value) => Value::Number(kept(value, path)?),
            Self::Text(value) => Value::String(value),
            Self::List(items) => {
                let item_shape = if let List(shape) = shape { *shape } else { Any };
                let item = |(number, item): (usize, Self)| {
                    let path = Path(Some((path, Part::Item(number))));
                    item.refuse_null(shape, &path)?;
                    item.into_value(item_shape, &path)
                };
                Value::Array(items.into_iter().enumerate().map(item).collect::<Result<_, _>>()?)
            }
            Self::Object(entries) => Value::Object(object(entries, shape, path)?),
        })
    }

    fn fits(&self, shape: Shape) -> bool {
        match (shape, self) {
            // Go leaves the field unchanged.
            (Any, _) | (_, Self::Null) => true,
            (Struct(_) | MapOf(_), found) => matches!(found, Self::Object(_)),
            (List(_), found) => matches!(found, Self::List(_)),
            (Text, found) => matches!(found, Self::Text(_)),
            (Boolean, found) => matches!(found, Self::Boolean(_)),
            (Integer, found) => matches!(found, Self::Number(number) if number.is_i64()),
            (Time, found) => matches!(found, Self::Text(text) if is_time(text)),
        }
    }

    /// Refuses `null` as an item, which Go reads as an empty value.
    fn refuse_null(&self, outer: Shape, path: &Path<'_>) -> Result<(), DocumentError> {
        match (outer, self) {
            (List(shape) | MapOf(shape), Self::Null) => Err(wrong(path, self, shape.name())),
            _ => Ok(()),
        }
    }
}

/// Returns the values of an object if no key occurs twice.
fn object(
    entries: Vec<(String, Json)>,
    shape: Shape,
    path: &Path<'_>,
) -> Result<Map<String, Value>, DocumentError> {
    let known = if let Struct(known) = shape { known } else { &[] };
    let mut spellings = std::collections::BTreeMap::new();
    let mut values = Map::new();
    for (key, value) in entries {
        let path = Path(Some((path, Part::Key(&key))));
        if values.contains_key(&key) {
            return Err(DocumentError::Twice(path.to_string()));
        }
        let mut value_shape = if let MapOf(shape) = shape { *shape } else { Any };
        if matches!(shape, Struct(_)) {
            let folded = folded(&key);
            let field = known.iter().find(|(name, _)| self::folded(name) == folded);
            let other = field.map(|(name, _)| (*name).to_owned()).filter(|name| *name != key);
            if let Some(like) = other.or_else(|| spellings.insert(folded, key.clone())) {
                return Err(DocumentError::Spelling { path: path.to_string(), like });
            }
            value_shape = field.map_or(Any, |(_, wanted)| *wanted);
        }
        value.refuse_null(shape, &path)?;
        let value = value.into_value(value_shape, &path)?;
        values.insert(key, value);
    }
    Ok(values)
}

/// Folds a key like Go's `encoding/json`. Field names are ASCII, and two letters outside ASCII fold
/// to ASCII: the Kelvin sign and the long s.
fn folded(key: &str) -> String {
    let letter = |letter| match letter {
        '\u{212a}' => 'k',
        '\u{17f}' => 's',
        other => other.to_ascii_lowercase(),
    };
    key.chars().map(letter).collect()
}

/// Returns a number if every parser reads its written form in the same way.
fn kept(number: Number, path: &Path<'_>) -> Result<Number, DocumentError> {
    let digits = |float: f64| {
        let text = format!("{float:e}");
        let significant = text.bytes().take_while(|byte| *byte != b'e');
        significant.filter(u8::is_ascii_digit).count()
    };
    match number.as_f64() {
        Some(float) if number.is_f64() && digits(float) > DIGITS => {
            Err(DocumentError::Digits(path.to_string()))
        }
        _ => Ok(number),
    }
}

fn wrong(path: &Path<'_>, found: &Json, wanted: &'static str) -> DocumentError {
    let found = match found {
        Json::Null => "null",
        Json::Boolean(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::Text(_) => "a string",
        Json::List(_) => "an array",
        Json::Object(_) => "an object",
    };
    let found = match (found, wanted) {
        ("a number", "a 64-bit integer") => "another kind of number",
        ("a string", wanted) if wanted.starts_with("a time") => "a string in another format",
        _ => found,
    };
    DocumentError::Type { path: path.to_string(), found, wanted }
}

/// The position of a value: the path of its parent, and its key or index.
struct Path<'a>(Option<(&'a Self, Part<'a>)>);

enum Part<'a> {
    Key(&'a str),
    Item(usize),
}

impl Path<'_> {
    fn write(&self, text: &mut String) {
        let Some((outer, part)) = &self.0 else { return };
        outer.write(text);
        match part {
            Part::Key(key) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(key);
            }
            // Writing to a string cannot fail.
            Part::Item(number) => {
                let _ = write!(text, "[{number}]");
            }
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        match text.char_indices().nth(SHOWN) {
            Some((end, _)) => write!(f, "{}…", text.get(..end).unwrap_or_default()),
            None if text.is_empty() => f.write_str("(the document)"),
            None => f.write_str(&text),
        }
    }
}
