//! The messages in the bodies of error responses.

use net::{is_html, quoted};

/// Returns a short form of an error body: the messages of an OCI errors document, or the text
/// itself, or a note that it is a web page. Returns `None` for an empty body.
pub(super) fn error_body(body: &str) -> Option<String> {
    let text = body.trim();
    if text.is_empty() {
        return None;
    }
    if is_html(text.as_bytes()) {
        return Some("a web page".to_owned());
    }
    let said = serde_json::from_str::<serde_json::Value>(text)
        .ok()
        .and_then(|json| oci_errors(&json))
        .unwrap_or_else(|| text.to_owned());
    Some(quoted(&said))
}

/// Returns `CODE: message` for every error of an OCI errors document, or a token server's message.
fn oci_errors(json: &serde_json::Value) -> Option<String> {
    let text = |value: &serde_json::Value, key: &str| {
        value.get(key).and_then(serde_json::Value::as_str).map(str::to_owned)
    };
    let one = |error: &serde_json::Value| match (text(error, "code"), text(error, "message")) {
        (Some(code), Some(message)) if !message.is_empty() => Some(format!("{code}: {message}")),
        (code, message) => code.or(message),
    };
    if let Some(errors) = json.get("errors").and_then(serde_json::Value::as_array) {
        let all: Vec<String> = errors.iter().filter_map(one).collect();
        return (!all.is_empty()).then(|| all.join("; "));
    }
    ["details", "error_description", "message", "error"].iter().find_map(|key| text(json, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_bodies_in_short() {
        for (body, wanted) in [
            ("", None),
            (" \n", None),
            ("<!DOCTYPE html><p>log in", Some("a web page")),
            (
                r#"{"errors":[{"code":"DENIED","message":"no"},{"code":"X"}]}"#,
                Some("`DENIED: no; X`"),
            ),
            (
                r#"{"details":"incorrect username or password"}"#,
                Some("`incorrect username or password`"),
            ),
            (r#"{"errors":[]}"#, Some(r#"`{"errors":[]}`"#)),
            ("upstream\u{1b}[2J gone", Some("`upstream [2J gone`")),
        ] {
            assert_eq!(error_body(body).as_deref(), wanted, "{body}");
        }
    }
}
