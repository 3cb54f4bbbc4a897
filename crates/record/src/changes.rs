//! What is another than it was between two plans, step by step: why a build does something again.

use std::collections::{BTreeMap, BTreeSet};

use plan::{Plan, Step};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// How a step stands against an earlier plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Its key is the same: it makes the same thing.
    Same,
    /// What it does is another thing.
    Changed,
    /// It does the same, on what another step makes otherwise.
    Behind,
    /// The earlier plan did not have it.
    New,
}

/// A step of a plan, against the step of that name in an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StepChange {
    /// The step.
    pub step: String,
    /// How it stands.
    pub standing: Standing,
    /// What of it is another.
    pub inputs: Vec<InputChange>,
    /// The steps it needs that make something else.
    pub because: Vec<String>,
}

/// One value of a step that is another than it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InputChange {
    /// Where it stands in the step's action, its parts joined by dots.
    pub input: String,
    /// What it was; absent where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// What it is; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Compares the steps of a plan with those of an earlier one, in the order of the plan.
pub fn step_changes(before: &Plan, after: &Plan) -> Vec<StepChange> {
    let (old_keys, keys) = (before.step_keys(), after.step_keys());
    let is_other = |step: &str| old_keys.get(step) != keys.get(step);
    let change = |step: &Step| {
        let old = before.steps.iter().find(|old| old.id == step.id);
        let inputs = old
            .map(|old| inputs(&before.content_of(old), &after.content_of(step)))
            .unwrap_or_default();
        let because = match old {
            Some(_) => {
                let needs = step.action.needs().into_iter();
                needs.filter(|need| is_other(need)).map(str::to_owned).collect()
            }
            None => Vec::new(),
        };
        let standing = match old {
            None => Standing::New,
            Some(_) if !is_other(&step.id) => Standing::Same,
            Some(_) if inputs.is_empty() => Standing::Behind,
            Some(_) => Standing::Changed,
        };
        StepChange { step: step.id.clone(), standing, inputs, because }
    };
    after.steps.iter().map(change).collect()
}

fn inputs(before: &Value, after: &Value) -> Vec<InputChange> {
    let (before, after) = (flat(before), flat(after));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let pairs = names.into_iter().map(|name| (name, before.get(name), after.get(name)));
    pairs
        .filter(|(_, before, after)| before != after)
        .map(|(name, before, after)| InputChange {
            input: name.clone(),
            before: before.cloned(),
            after: after.cloned(),
        })
        .collect()
}

/// Returns all values of a step's content, by the path to each.
fn flat(content: &Value) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    collect(String::new(), content, &mut values);
    values
}

fn collect(place: String, value: &Value, values: &mut BTreeMap<String, String>) {
    let below = |part: &str| match place.as_str() {
        "" => part.to_owned(),
        place => format!("{place}.{part}"),
    };
    match value {
        Value::Object(entries) => {
            entries.iter().for_each(|(key, value)| collect(below(key), value, values));
        }
        // An entry of a list is known by itself or by its name, not by its place.
        Value::Array(items) => {
            for item in items {
                let name = item.get("id").or(Some(item)).and_then(Value::as_str);
                collect(below(name.unwrap_or("?")), item, values);
            }
        }
        Value::String(text) => drop(values.insert(place, text.clone())),
        other => drop(values.insert(place, other.to_string())),
    }
}
