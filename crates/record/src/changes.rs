//! Compares two plans step by step, to explain why a build runs a step again.

use std::collections::{BTreeMap, BTreeSet};

use plan::{Plan, Step};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use text::Page;

use crate::BuildRecord;

/// The version of the JSON format.
const SCHEMA: u32 = 1;

/// The differences between a track's current plan and its last build.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExplainReport {
    /// The version of this JSON format.
    schema: u32,
    /// The name of the image.
    name: String,
    /// The record of the last successful build; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<String>,
    /// The steps of the current plan, in order.
    steps: Vec<StepChange>,
}

impl ExplainReport {
    /// Compares a plan with that of the last successful build, if there is one.
    pub fn new(plan: &Plan, last: Option<&BuildRecord>) -> Self {
        Self {
            schema: SCHEMA,
            name: plan.name.clone(),
            record: last.map(|record| record.id.clone()),
            steps: last.map(|last| step_changes(&last.plan, plan)).unwrap_or_default(),
        }
    }

    /// Returns the differences as text, step by step.
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        let Some(record) = &self.record else {
            page.line(format_args!("{}: there is no record of a successful build", self.name));
            return page;
        };
        page.line(format_args!("{} compared with record {record}", self.name));
        for change in &self.steps {
            let because = change.because.join(", ");
            match change.standing {
                Standing::Same => page.line(format_args!("  = {}", change.step)),
                Standing::New => page.line(format_args!("  + {}: new", change.step)),
                Standing::Behind => {
                    page.line(format_args!("  ~ {}: depends on {because}", change.step));
                }
                Standing::Changed if because.is_empty() => {
                    page.line(format_args!("  ~ {}", change.step));
                }
                Standing::Changed => {
                    page.line(format_args!(
                        "  ~ {}: depends on {because}, and its own inputs changed:",
                        change.step
                    ));
                }
            }
            for InputChange { input, before, after } in &change.inputs {
                match (before, after) {
                    (Some(before), Some(after)) => {
                        page.line(format_args!(
                            "      {input}\n        was {before}\n        is  {after}"
                        ));
                    }
                    (Some(before), None) => {
                        page.line(format_args!("      {input} was removed: {before}"));
                    }
                    (None, after) => {
                        let after = after.as_deref().unwrap_or_default();
                        page.line(format_args!("      {input} is new: {after}"));
                    }
                }
            }
        }
        if self.steps.iter().all(|change| change.standing == Standing::Same) {
            page.line(format_args!("nothing changed: the image is the same"));
        }
        page
    }
}

/// The state of a step compared with an earlier plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Its key is the same, so it produces the same result.
    Same,
    /// The step itself changed.
    Changed,
    /// The step is the same, but a step that it depends on changed.
    Behind,
    /// The earlier plan did not contain it.
    New,
}

/// A step of a plan, compared with the step of the same name in an earlier plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StepChange {
    /// The step.
    pub step: String,
    /// The state.
    pub standing: Standing,
    /// The changed values of the step.
    pub inputs: Vec<InputChange>,
    /// The changed steps that it depends on.
    pub because: Vec<String>,
}

/// A changed value of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InputChange {
    /// Its path in the step's action, with parts separated by dots.
    pub input: String,
    /// The old value; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The new value; absent if there is none.
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
        .filter(|(_, old, new)| old != new)
        .map(|(name, old, new)| InputChange {
            input: name.clone(),
            before: old.cloned(),
            after: new.cloned(),
        })
        .collect()
}

/// Returns all values of a step's content, by their path.
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
            entries.iter().for_each(|(key, entry)| collect(below(key), entry, values));
        }
        // An entry of a list is identified by its value or name, not by its index.
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
