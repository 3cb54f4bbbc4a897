//! Reads YAML into a tree whose values know their lines.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle};

/// A value, and the line on which it starts.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) line: usize,
    pub(crate) value: Value,
    /// Whether it is a scalar without quotes.
    pub(crate) is_plain: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Scalar(String),
    Mapping(Vec<(Node, Rc<Node>)>),
    Sequence(Vec<Rc<Node>>),
}

impl Node {
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(text) => Some(text),
            Value::Mapping(_) | Value::Sequence(_) => None,
        }
    }

    pub(crate) fn entries(&self) -> &[(Self, Rc<Self>)] {
        match &self.value {
            Value::Mapping(entries) => entries,
            Value::Scalar(_) | Value::Sequence(_) => &[],
        }
    }

    pub(crate) fn items(&self) -> &[Rc<Self>] {
        match &self.value {
            Value::Sequence(items) => items,
            Value::Scalar(_) | Value::Mapping(_) => &[],
        }
    }

    /// Returns the value of a key, including keys of mappings that `<<` merges.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.find(key, DEEPEST, &Cell::new(MOST_MERGES))
    }

    /// Like [`Self::get`]. Follows at most `left` merges, because a file of a few lines can contain
    /// millions.
    fn find(&self, key: &str, depth: usize, left: &Cell<usize>) -> Option<&Self> {
        let of = |wanted: &str| self.entries().iter().find(|(name, _)| name.text() == Some(wanted));
        if let Some((_, value)) = of(key) {
            return Some(value);
        }
        let (_, merged) = of("<<").filter(|_| depth > 0 && left.get() > 0)?;
        left.set(left.get() - 1);
        merged
            .find(key, depth - 1, left)
            .or_else(|| merged.items().iter().find_map(|item| item.find(key, depth - 1, left)))
    }
}

/// The maximum depth of merges.
const DEEPEST: usize = 8;

/// The maximum number of merges that are followed for one key.
const MOST_MERGES: usize = 1_000;

/// The maximum nesting depth of a document.
const DEEPEST_NESTING: usize = 64;

/// A collection that is still being read.
struct Open {
    node: Node,
    key: Option<Node>,
    anchor: usize,
}

/// Builds the trees of all documents, up to the first error. Returns none if a document is nested
/// too deeply.
pub(crate) fn documents(text: &str) -> Vec<Node> {
    let mut all = Vec::new();
    let mut anchors: BTreeMap<usize, Rc<Node>> = BTreeMap::new();
    let mut open: Vec<Open> = Vec::new();
    let mut root = None;
    for event in Parser::new_from_str(text) {
        let Ok((event, span)) = event else { break };
        // Compose files are not deeply nested; a hostile one could be.
        if open.len() > DEEPEST_NESTING {
            return Vec::new();
        }
        let line = span.start.line();
        let start = |value, anchor| {
            let node = Node { line, value, is_plain: false };
            Open { node, key: None, anchor }
        };
        let done = match event {
            Event::MappingStart(anchor, ..) => {
                open.push(start(Value::Mapping(Vec::new()), anchor));
                continue;
            }
            Event::SequenceStart(anchor, ..) => {
                open.push(start(Value::Sequence(Vec::new()), anchor));
                continue;
            }
            Event::MappingEnd | Event::SequenceEnd => {
                let Some(ended) = open.pop() else { break };
                let node = Rc::new(ended.node);
                anchors.insert(ended.anchor, Rc::clone(&node));
                node
            }
            Event::Scalar(value, style, anchor, _) => {
                let is_plain = style == ScalarStyle::Plain;
                let node =
                    Rc::new(Node { line, value: Value::Scalar(value.into_owned()), is_plain });
                anchors.insert(anchor, Rc::clone(&node));
                node
            }
            Event::Alias(anchor) => match anchors.get(&anchor) {
                Some(node) => Rc::clone(node),
                None => {
                    Rc::new(Node { line, value: Value::Scalar(String::new()), is_plain: false })
                }
            },
            Event::DocumentEnd => {
                all.extend(root.take().map(Rc::unwrap_or_clone));
                continue;
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) => {
                continue;
            }
        };
        match open.last_mut() {
            Some(parent) => add(parent, done),
            None => root = Some(done),
        }
    }
    // What was read before an error still counts.
    while let Some(ended) = open.pop() {
        let node = Rc::new(ended.node);
        match open.last_mut() {
            Some(parent) => add(parent, node),
            None => root = Some(node),
        }
    }
    all.extend(root.map(Rc::unwrap_or_clone));
    all
}

/// Errors that every parser of YAML reports. The parser here is stricter than others about the
/// indentation of brackets.
const CERTAIN: [&str; 11] = [
    "did not find expected key",
    "did not find expected '-' indicator",
    "did not find expected ',' or",
    "did not find expected node content",
    "mapping values are not allowed in this context",
    "tabs disallowed within this context",
    "found unexpected end of stream",
    "invalid trailing content after",
    "misplaced bracket",
    "unexpected character",
    "unknown anchor",
];

/// Returns the line of the first error in a text that is certainly not YAML, and what is wrong.
pub(crate) fn error(text: &str) -> Option<(usize, String)> {
    let error = Parser::new_from_str(text).find_map(Result::err)?;
    let is_certain = CERTAIN.iter().any(|one| error.info().contains(one));
    is_certain.then(|| (error.marker().line(), error.info().to_owned()))
}

/// A key that occurs twice in one mapping.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Duplicate {
    pub(crate) key: String,
    pub(crate) line: usize,
    /// The line of the first one.
    pub(crate) first: usize,
}

/// The keys of an open mapping with their lines; nothing for a sequence.
struct Keys {
    known: Option<BTreeMap<String, usize>>,
    is_key: bool,
}

/// Returns the first key that occurs twice in its mapping. Parsers treat several merges with `<<`
/// differently, so these are left out.
pub(crate) fn duplicate(text: &str) -> Option<Duplicate> {
    let mut open: Vec<Keys> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.ok()?;
        let line = span.start.line();
        match event {
            Event::MappingStart(..) => {
                open.push(Keys { known: Some(BTreeMap::new()), is_key: true });
            }
            Event::SequenceStart(..) => open.push(Keys { known: None, is_key: false }),
            Event::MappingEnd | Event::SequenceEnd => {
                open.pop();
                next(&mut open);
            }
            Event::Alias(_) => next(&mut open),
            Event::Scalar(value, ..) => {
                let keys = open.last_mut().filter(|top| top.is_key && value != "<<");
                if let Some(known) = keys.and_then(|top| top.known.as_mut()) {
                    let key = value.into_owned();
                    if let Some(first) = known.insert(key.clone(), line) {
                        return Some(Duplicate { key, line, first });
                    }
                }
                next(&mut open);
            }
            _ => {}
        }
    }
    None
}

/// Notes that a key or value of the innermost collection is complete.
fn next(open: &mut [Keys]) {
    if let Some(top) = open.last_mut() {
        top.is_key = !top.is_key && top.known.is_some();
    }
}

/// Adds a complete value to the collection that contains it.
fn add(parent: &mut Open, done: Rc<Node>) {
    match &mut parent.node.value {
        Value::Sequence(items) => items.push(done),
        Value::Mapping(entries) => match parent.key.take() {
            Some(key) => entries.push((key, done)),
            None => parent.key = Some(Rc::unwrap_or_clone(done)),
        },
        Value::Scalar(_) => {}
    }
}
