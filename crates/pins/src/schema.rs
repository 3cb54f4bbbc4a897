//! The JSON schemas of data files, generated from the forms that their parsers use.

use schemars::Schema;
use serde_json::{Map, Value, json};

use crate::form::{Absent, Form, Key, Kind};

/// Returns the schema of a file with the given name and form.
pub fn schema(file: &str, form: &Form) -> Schema {
    let mut schema = Map::new();
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("title".to_owned(), json!(file));
    schema.extend(table(form));
    schema.into()
}

/// Returns the schema of a table.
fn table(form: &Form) -> Map<String, Value> {
    let mut schema = Map::new();
    schema.insert("description".to_owned(), json!(form.about));
    schema.insert("type".to_owned(), json!("object"));
    let properties: Map<String, Value> =
        form.all_keys().map(|key| (key.name.to_owned(), property(key))).collect();
    schema.insert("properties".to_owned(), Value::Object(properties));
    let required: Vec<&str> =
        form.all_keys().filter(|key| key.absent == Absent::Error).map(|key| key.name).collect();
    schema.insert("required".to_owned(), json!(required));
    let others = match form.named {
        None => Value::Bool(false),
        Some((name, form)) => {
            let mut others = table(form);
            others.insert("x-name".to_owned(), json!(name));
            Value::Object(others)
        }
    };
    schema.insert("additionalProperties".to_owned(), others);
    schema
}

/// Returns the schema of a key's value. `x-default` describes what an absent key means.
fn property(key: &Key) -> Value {
    let mut schema = Map::new();
    schema.insert("description".to_owned(), json!(key.meaning));
    schema.extend(match value(&key.kind) {
        Value::Object(kind) => kind,
        _ => Map::new(),
    });
    if key.name == "schema" {
        schema.insert("const".to_owned(), json!(1));
    }
    if let Absent::Means(default) = key.absent {
        schema.insert("x-default".to_owned(), json!(default));
    }
    if !key.example.is_empty() {
        schema.insert("x-example".to_owned(), json!(key.example));
    }
    Value::Object(schema)
}

/// Returns the schema of a kind of value.
fn value(kind: &Kind) -> Value {
    let nested = |form: &Form| {
        let mut schema = table(form);
        // The key has its own description, so this one goes under a different keyword.
        if let Some(about) = schema.remove("description") {
            schema.insert("x-about".to_owned(), about);
        }
        Value::Object(schema)
    };
    match kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::OneOf(all) => json!({ "type": "string", "enum": all }),
        Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::SomeOf(all) => {
            json!({ "type": "array", "items": { "type": "string", "enum": all } })
        }
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Number => json!({ "type": "integer" }),
        Kind::Numbers => {
            json!({ "type": ["integer", "object"], "additionalProperties": { "type": "integer" } })
        }
        Kind::Date => json!({ "type": "string", "format": "date" }),
        Kind::TextByName => {
            json!({ "type": "object", "additionalProperties": { "type": "string" } })
        }
        Kind::TextsByName => {
            let texts = value(&Kind::Texts);
            json!({ "type": "object", "additionalProperties": texts })
        }
        Kind::Table(form) => nested(form),
        Kind::Tables(form) => json!({ "type": "array", "items": nested(form) }),
        Kind::TableByName(form) => {
            json!({ "type": "object", "additionalProperties": nested(form) })
        }
    }
}
