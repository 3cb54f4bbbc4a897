//! The history of an image: an entry for each of its layers, and for changes without a layer.

use serde_json::{Map, Value, json};

use crate::derive::DeriveError;

/// Returns the history in a config, with an entry for each layer.
///
/// The history is optional (image specification, "Image configuration"), and some tools write none.
/// But podman refuses to build on an image whose history has fewer layers than the image. So
/// entries for layers that the history lacks come first.
///
/// # Errors
/// `history` is not a list.
pub fn history(config: &Map<String, Value>) -> Result<Vec<Value>, DeriveError> {
    let known = match config.get("history") {
        None | Some(Value::Null) => &[][..],
        Some(Value::Array(entries)) => entries,
        Some(_) => return Err(DeriveError::Field("history")),
    };
    let layers = config.get("rootfs").and_then(|rootfs| rootfs.get("diff_ids")?.as_array());
    let layers = layers.map_or(0, Vec::len);
    let has_layer = |entry: &&Value| entry.get("empty_layer") != Some(&Value::Bool(true));
    let missing = layers.saturating_sub(known.iter().filter(has_layer).count());
    let unknown = std::iter::repeat_n(json!({ "comment": "not recorded" }), missing);
    Ok(unknown.chain(known.iter().cloned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layer_has_an_entry() {
        let (unknown, own) = (json!({ "comment": "not recorded" }), json!({ "created_by": "a" }));
        let empty = json!({ "created_by": "b", "empty_layer": true });
        for (layers, given, all) in [
            (0, Value::Null, vec![]),
            (2, Value::Null, vec![&unknown, &unknown]),
            (1, json!([own]), vec![&own]),
            (1, json!([own, empty]), vec![&own, &empty]),
            (2, json!([own, empty]), vec![&unknown, &own, &empty]),
            (1, json!([own, own]), vec![&own, &own]),
        ] {
            let config = json!({ "rootfs": { "diff_ids": vec!["x"; layers] }, "history": given });
            let found = history(config.as_object().unwrap()).unwrap();
            assert_eq!(found.iter().collect::<Vec<_>>(), all, "{config}");
        }
        assert_eq!(history(&Map::new()).unwrap(), Vec::<Value>::new());
        let wrong = json!({ "history": "long" });
        assert!(history(wrong.as_object().unwrap()).is_err());
    }
}
