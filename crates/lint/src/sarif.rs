//! Findings as SARIF 2.1.0 (OASIS, "Static Analysis Results Interchange Format"), for code
//! scanning.

use serde_json::{Value, json};

use crate::report::{known, source};
use crate::{Finding, Rule, Severity, rules};

/// Returns the SARIF level for a severity.
fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Information => "note",
    }
}

/// Returns the SARIF document.
pub fn document(found: &[Finding]) -> Value {
    let rules: Vec<Value> = rules().iter().map(rule).collect();
    let results: Vec<Value> = found.iter().map(result).collect();
    json!({
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "build-pipeline",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

/// Returns a rule as SARIF describes it.
fn rule(rule: &Rule) -> Value {
    json!({
        "id": rule.id,
        "shortDescription": { "text": rule.title },
        "fullDescription": { "text": rule.fact },
        "help": { "text": format!("{}. Source: {}", rule.advice, source(&rule.evidence)) },
        "defaultConfiguration": { "level": level(rule.severity) },
    })
}

/// Returns a finding as SARIF describes it.
fn result(finding: &Finding) -> Value {
    let index = rules().iter().position(|rule| rule.id == finding.rule.id);
    let mut value = json!({
        "ruleId": finding.rule.id,
        "ruleIndex": index,
        "level": level(finding.severity),
        "properties": {
            "source": finding.evidence.source,
            "known": known(finding.evidence.known),
            "checked": finding.evidence.checked,
        },
        "message": { "text": format!("{}; {}", finding.message, finding.help) },
        "locations": [location(&finding.file, finding.line)],
    });
    if !finding.also.is_empty() {
        let others = finding.also.iter().map(|line| location(&finding.file, *line));
        value["relatedLocations"] = others.collect();
    }
    value
}

/// Returns a line of a file as SARIF describes it.
fn location(file: &str, line: usize) -> Value {
    json!({ "physicalLocation": {
        "artifactLocation": { "uri": uri(file) },
        "region": { "startLine": line },
    }})
}

/// Returns a path as a URI reference (RFC 3986).
fn uri(path: &str) -> String {
    let path = path.strip_prefix("./").unwrap_or(path);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/.-_~".contains(&byte);
    path.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_uris() {
        assert_eq!(uri("./a b/ü:c.sh"), "a%20b/%C3%BC%3Ac.sh");
        assert_eq!(uri("/tmp/x.env"), "/tmp/x.env");
    }
}
