//! The reference pages of file formats, `docs/reference/*.md`, generated from the JSON schemas.

use std::collections::VecDeque;
use std::fmt::Write as _;

use serde_json::Value;

/// The pages: the name of the schema, and the title. Reports of commands have only a schema.
pub(crate) const PAGES: [(&str, &str); 12] = [
    ("versions", "versions/versions.toml"),
    ("tracks", "versions/tracks.toml"),
    ("gpus", "versions/gpus.toml"),
    ("run", "versions/run.toml"),
    ("python", "versions/python.toml"),
    ("package-lock", "versions/locks/NAME.toml"),
    ("compat", "versions/compat.toml"),
    ("failures", "versions/failures.toml"),
    ("lint-rules", "versions/lint.toml"),
    ("patch-file", "patches/COMPONENT/ID.toml"),
    ("config", "config.toml"),
    ("record", "Records: `records RECORD --format json`"),
];

/// Returns the page of a schema.
pub(crate) fn page(name: &str, title: &str, schema: &Value) -> String {
    let mut page = Page { text: String::new(), schema, open: VecDeque::new(), done: Vec::new() };
    let _ = writeln!(
        page.text,
        "# {title}\n\n<!-- Written by `cargo xtask schema`; do not edit. -->\n\n\
         `build-pipeline schema {name}` prints the JSON schema."
    );
    page.table(schema, "");
    while let Some((node, place)) = page.open.pop_front() {
        page.table(node, &place);
    }
    page.text
}

/// A page that is being written.
struct Page<'a> {
    text: String,
    schema: &'a Value,
    /// The tables that are not yet described, with their paths.
    open: VecDeque<(&'a Value, String)>,
    /// The tables that are described or in `open`.
    done: Vec<&'a Value>,
}

impl<'a> Page<'a> {
    /// Describes a table.
    fn table(&mut self, node: &'a Value, place: &str) {
        let node = self.resolved(node);
        if !place.is_empty() {
            let _ = writeln!(self.text, "\n## `{place}`");
        }
        let about = text(node, "x-about").or_else(|| text(node, "description"));
        if let Some(about) = about {
            let _ = writeln!(self.text, "\n{}", escaped(about));
        }
        let required: Vec<&str> = strings(node.get("required"));
        let properties = node.get("properties").and_then(Value::as_object);
        let properties: Vec<(&String, &Value)> = properties.into_iter().flatten().collect();
        if !properties.is_empty() {
            let has_examples =
                properties.iter().any(|(_, value)| text(value, "x-example").is_some());
            let head = if has_examples {
                "| key | value | if absent | meaning | example |\n|---|---|---|---|---|"
            } else {
                "| key | value | if absent | meaning |\n|---|---|---|---|"
            };
            let _ = writeln!(self.text, "\n{head}");
            for (key, value) in properties {
                self.row(key, value, required.contains(&key.as_str()), has_examples);
                self.descend(value, &joined(place, key));
            }
        }
        if let Some(others @ Value::Object(_)) = node.get("additionalProperties") {
            let name = text(others, "x-name").unwrap_or("a name");
            let _ = writeln!(self.text, "\nAny other key is {name}, and its value is a table.");
            self.descend_to(others, &joined(place, "NAME"));
        }
    }

    fn row(&mut self, key: &str, value: &'a Value, is_required: bool, has_examples: bool) {
        let meaning = self.meaning(value);
        let absent = match (is_required, text(value, "x-default"), value.get("default")) {
            (true, ..) => "required".to_owned(),
            (false, Some(default), _) => escaped(default),
            (false, None, Some(default)) if !default.is_null() => format!("`{default}`"),
            (false, None, _) => "none".to_owned(),
        };
        let kind = self.kind(value);
        let _ = write!(self.text, "| `{key}` | {kind} | {absent} | {} |", escaped(&meaning));
        if has_examples {
            let example = text(value, "x-example").map(code).unwrap_or_default();
            let _ = write!(self.text, " {example} |");
        }
        self.text.push('\n');
    }

    /// Returns the description of a key, or else of its type.
    fn meaning(&self, value: &'a Value) -> String {
        let own = text(value, "description");
        own.or_else(|| text(self.resolved(value), "description")).unwrap_or_default().to_owned()
    }

    /// Returns the kind of a value, in words.
    fn kind(&self, value: &'a Value) -> String {
        let node = self.resolved(value);
        let choices = strings(node.get("enum"));
        if !choices.is_empty() {
            return choices.iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(", ");
        }
        if let Some(only) = node.get("const") {
            let text = only.as_str().map_or_else(|| only.to_string(), str::to_owned);
            return format!("`{text}`");
        }
        let some = ["anyOf", "oneOf"].iter().find_map(|key| node.get(*key)?.as_array());
        if let Some(some) = some {
            let mut kinds: Vec<String> = some.iter().map(|one| self.kind(one)).collect();
            // The kind of `null` is empty.
            kinds.retain(|kind| !kind.is_empty());
            kinds.dedup();
            return kinds.join(" or ");
        }
        let types = match node.get("type") {
            Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(one)) => vec![one.as_str()],
            _ => Vec::new(),
        };
        let words = types.into_iter().filter(|one| *one != "null").map(|one| match one {
            "string" if text(node, "format") == Some("date") => "a date".to_owned(),
            "string" => "text".to_owned(),
            "integer" => "a number".to_owned(),
            "boolean" => "`true` or `false`".to_owned(),
            "array" => match node.get("items") {
                Some(items) => format!("an array: {}", self.kind(items)),
                None => "an array".to_owned(),
            },
            "object" => match node.get("additionalProperties") {
                Some(items @ Value::Object(_)) if node.get("properties").is_none() => {
                    format!("by name: {}", self.kind(items))
                }
                _ => "a table".to_owned(),
            },
            other => other.to_owned(),
        });
        words.collect::<Vec<_>>().join(" or ")
    }

    /// Adds the tables in a value to `open`.
    fn descend(&mut self, value: &'a Value, place: &str) {
        let node = self.resolved(value);
        if node.get("properties").is_some() {
            self.descend_to(node, place);
        }
        if let Some(items) = node.get("items") {
            self.descend(items, &format!("{place}[]"));
        }
        if let Some(others @ Value::Object(_)) = node.get("additionalProperties")
            && node.get("properties").is_none()
        {
            self.descend(others, &joined(place, "NAME"));
        }
        for key in ["anyOf", "oneOf"] {
            for one in node.get(key).and_then(Value::as_array).into_iter().flatten() {
                self.descend(one, place);
            }
        }
    }

    fn descend_to(&mut self, node: &'a Value, place: &str) {
        let node = self.resolved(node);
        // A table that occurs in several places is described once.
        if !self.done.contains(&node) {
            self.done.push(node);
            self.open.push_back((node, place.to_owned()));
        }
    }

    /// Returns the schema that a reference points to.
    fn resolved(&self, node: &'a Value) -> &'a Value {
        let target =
            text(node, "$ref").and_then(|path| self.schema.pointer(path.strip_prefix('#')?));
        target.unwrap_or(node)
    }
}

fn text<'a>(node: &'a Value, key: &str) -> Option<&'a str> {
    node.get(key).and_then(Value::as_str)
}

fn strings(node: Option<&Value>) -> Vec<&str> {
    let all = node.and_then(Value::as_array).into_iter().flatten();
    all.filter_map(Value::as_str).collect()
}

fn joined(place: &str, key: &str) -> String {
    if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") }
}

/// Returns a description on one line, escaped for a table and without the brackets of intra-doc
/// links.
fn escaped(text: &str) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line.replace("[`", "`").replace("`]", "`").replace('|', "\\|")
}

/// Returns code in backticks, for a table.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cargo xtask schema` regenerates the pages.
    #[test]
    fn every_page_is_that_of_its_schema() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let index = std::fs::read_to_string(root.join("docs/reference/README.md")).unwrap();
        for (name, title) in PAGES {
            let schema = root.join(format!("schemas/{name}.schema.json"));
            let schema = serde_json::from_str(&std::fs::read_to_string(schema).unwrap()).unwrap();
            let written = root.join(format!("docs/reference/{name}.md"));
            let written = std::fs::read_to_string(written).unwrap();
            assert!(
                written == page(name, title, &schema),
                "docs/reference/{name}.md is out of date; run `cargo xtask schema`"
            );
            assert!(
                index.contains(&format!("({name}.md)")),
                "docs/reference/README.md lacks {name}.md"
            );
        }
    }
}
