//! An edit with its GPU target filled in and its patterns compiled, and how the edit matches a
//! file.

use std::collections::BTreeSet;
use std::ops::Range;

use names::GpuTarget;
use serde::{Deserialize, Serialize};

use crate::conditions;
use crate::gpu::fill;
use crate::list;
use crate::pattern::{Match, Pattern};
use crate::spec::{Condition, Edit, IfAbsent, Op};
use crate::text::Text;
use crate::{Position, TreePath};
use names::Version;

/// The maximum number of occurrences of an item that are examined.
const MOST_CONDITIONS: usize = 64;

/// A change of bytes. A revert replaces `inserted` with `removed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Splice {
    /// The offset in the file, after all earlier splices.
    pub at: usize,
    /// The removed text.
    pub removed: String,
    /// The inserted text.
    pub inserted: String,
}

impl Splice {
    fn apply(&self, bytes: &mut Vec<u8>) {
        bytes.splice(self.at..self.at + self.removed.len(), self.inserted.bytes());
    }
}

/// Returns `bytes` with the splices of one edit applied.
pub(crate) fn splice(bytes: &[u8], splices: &[Splice]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for splice in splices {
        splice.apply(&mut bytes);
    }
    bytes
}

/// An edit that is ready to be matched with files.
#[derive(Debug)]
pub(crate) struct PreparedEdit<'p> {
    pub(crate) edit: &'p Edit,
    pub(crate) counts: BTreeSet<usize>,
    /// The counts of all versions.
    known_counts: BTreeSet<usize>,
    anchor: Pattern,
    pub(crate) anchor_source: String,
    op: Op,
    already: Option<Pattern>,
    satisfied_by: Option<Pattern>,
    guards: Option<Pattern>,
}

/// How an edit matches a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// The file already contains everything that the edit would write.
    Present,
    /// Upstream solved the problem in another way.
    Satisfied,
    /// These changes are needed, ordered from last to first; `present` places are already done.
    Change { splices: Vec<Splice>, present: usize },
    /// The anchor does not match.
    Missing,
    /// The anchor matches an unexpected number of times, on these lines.
    Miscounted { found: usize, lines: Vec<usize> },
    /// The anchor matches, but the edit would break the text there.
    Unfit(String),
}

impl<'p> PreparedEdit<'p> {
    /// Fills in the GPU target and compiles the patterns.
    pub(crate) fn new(
        edit: &'p Edit,
        gpu: &GpuTarget,
        version: Option<&Version>,
    ) -> Result<Self, String> {
        let optional = |source: &Option<String>| {
            source.as_ref().map(|source| Pattern::new(&fill(source, gpu))).transpose()
        };
        let anchor_source = fill(&edit.anchor, gpu);
        let mut op = edit.op.clone();
        match &mut op {
            Op::ListAppend(item) | Op::ListPrepend(item) => item.item = fill(&item.item, gpu),
            Op::InsertBefore(lines) | Op::InsertAfter(lines) => lines.text = fill(&lines.text, gpu),
            Op::ReplaceCapture(replacement) => replacement.with = fill(&replacement.with, gpu),
        }
        Ok(Self {
            edit,
            counts: edit.expect.counts(version),
            known_counts: edit.expect.counts(None),
            anchor: Pattern::new(&anchor_source)?,
            anchor_source,
            op,
            already: optional(&edit.already)?,
            satisfied_by: optional(&edit.satisfied_by)?,
            guards: optional(&edit.guards)?,
        })
    }

    /// Determines how the edit matches a file with these bytes.
    pub(crate) fn meet(&self, file: &[u8]) -> Meeting {
        let text = Text::new(file);
        let is_insertion = matches!(self.op, Op::InsertBefore(_) | Op::InsertAfter(_));
        if is_insertion && self.already.as_ref().is_some_and(|already| already.is_in(text.bytes()))
        {
            return Meeting::Present;
        }
        let group = if matches!(self.op, Op::ReplaceCapture(_)) { "value" } else { "list" };
        let limit = self.known_counts.last().copied().unwrap_or(0) + 1;
        let matches = self.anchor.find(text.bytes(), group, limit);
        if !self.counts.contains(&matches.len()) {
            return match () {
                () if self.satisfied_by.as_ref().is_some_and(|by| by.is_in(text.bytes())) => {
                    Meeting::Satisfied
                }
                () if matches.is_empty() => Meeting::Missing,
                // The version may be inexact, which does not matter if nothing is to be done.
                () if self.known_counts.contains(&matches.len())
                    && matches.iter().all(|found| self.change(&text, found) == Ok(None)) =>
                {
                    Meeting::Present
                }
                () => Meeting::Miscounted {
                    found: matches.len(),
                    lines: matches.iter().map(|found| text.line(found.whole.start)).collect(),
                },
            };
        }
        let mut splices = Vec::new();
        // From last to first, so that the remaining offsets stay valid.
        for found in matches.iter().rev() {
            match self.change(&text, found) {
                Ok(Some(splice)) => splices.push(splice),
                Ok(None) => {}
                Err(reason) => {
                    return Meeting::Unfit(format!(
                        "line {}: {reason}",
                        text.line(found.whole.start)
                    ));
                }
            }
        }
        let present = matches.len() - splices.len();
        match () {
            () if splices.is_empty() => Meeting::Present,
            () if self.satisfied_by.as_ref().is_some_and(|by| by.is_in(text.bytes())) => {
                Meeting::Satisfied
            }
            () => Meeting::Change { splices, present },
        }
    }

    /// Returns whether the edit has nothing to do in these files: it may be without files, and no
    /// file contains the code.
    pub(crate) fn is_needless<'f>(
        &self,
        version: Option<&Version>,
        mut files: impl Iterator<Item = &'f [u8]>,
    ) -> bool {
        let may_lack = self.edit.if_absent == IfAbsent::Skip
            && match (&self.edit.absent_in, version) {
                (Some(range), Some(known)) => range.position(known) == Position::Inside,
                _ => true,
            };
        let is_free = |file: &[u8]| {
            self.guards.as_ref().is_some_and(|guards| !guards.is_in(Text::new(file).bytes()))
        };
        may_lack && files.all(is_free)
    }

    /// Returns the number of the first line with text that the edit targets, even if the edit does
    /// not apply.
    pub(crate) fn line_of_subject(&self, file: &[u8]) -> Option<usize> {
        let text = Text::new(file);
        let patterns = [Some(&self.anchor), self.satisfied_by.as_ref(), self.guards.as_ref()];
        let lines = patterns.into_iter().flatten().filter_map(|pattern| {
            let found = pattern.find(text.bytes(), "", 1);
            found.first().map(|found| text.line(found.whole.start))
        });
        lines.min()
    }

    /// Returns the preprocessor conditions around an item that a list already contains, for example
    /// `#if ROCM_VERSION >= 70000`. Returns `None` if the item also occurs without conditions.
    pub(crate) fn condition(&self, path: &TreePath, file: &[u8]) -> Option<String> {
        let (Op::ListAppend(item) | Op::ListPrepend(item)) = &self.op else { return None };
        if !conditions::is_preprocessed(path) {
            return None;
        }
        let text = Text::new(file);
        let mut conditional = None;
        for found in self.anchor.find(text.bytes(), "list", MOST_CONDITIONS) {
            let (_, captured) = captured(&text, found.group.as_ref()).ok()?;
            let items: Vec<usize> = match &self.already {
                Some(already) => {
                    let occurrences = already.find(captured.as_bytes(), "", MOST_CONDITIONS);
                    occurrences.iter().map(|occurrence| occurrence.whole.start).collect()
                }
                None => captured.match_indices(item.item.as_str()).map(|(at, _)| at).collect(),
            };
            for at in items {
                // One item outside all conditions is enough.
                conditional = Some(conditions::around(captured, at)?);
            }
        }
        conditional
    }

    /// Returns the change at one match, or `None` if it is already there.
    fn change(&self, text: &Text<'_>, found: &Match) -> Result<Option<Splice>, String> {
        let Match { whole, group } = found;
        match &self.op {
            Op::InsertBefore(lines) => {
                Ok(Some(insert_lines(text, text.line_start(whole.start), &lines.text)))
            }
            Op::InsertAfter(lines) => {
                // A match that ends with a newline ends on the line before it.
                let last = whole.end.saturating_sub(1).max(whole.start);
                let at = text.next_line_start(last).unwrap_or(text.bytes().len());
                Ok(Some(insert_lines(text, at, &lines.text)))
            }
            Op::ListAppend(item) | Op::ListPrepend(item) => {
                let (range, captured) = captured(text, group.as_ref())?;
                let code = list::without_comments(captured);
                let is_there = match &self.already {
                    Some(already) => already.is_in(code.as_bytes()),
                    None => list::contains(&code, &item.sep, &item.item),
                };
                if is_there {
                    return Ok(None);
                }
                let add =
                    if matches!(self.op, Op::ListAppend(_)) { list::append } else { list::prepend };
                let insertion = add(captured, &item.sep, &item.item)?;
                let at = range.start + insertion.at;
                Ok(Some(Splice {
                    at: text.in_file(at),
                    removed: String::new(),
                    inserted: text.with_line_endings(&insertion.text, at),
                }))
            }
            Op::ReplaceCapture(replacement) => {
                let (range, captured) = captured(text, group.as_ref())?;
                let is_there =
                    self.already.as_ref().is_some_and(|already| already.is_in(captured.as_bytes()));
                if is_there || captured == replacement.with {
                    return Ok(None);
                }
                if captured.contains('\n') {
                    return Err("the value spans more than one line".to_owned());
                }
                Ok(Some(Splice {
                    at: text.in_file(range.start),
                    removed: captured.to_owned(),
                    inserted: text.with_line_endings(&replacement.with, range.start),
                }))
            }
        }
    }
}

fn captured<'t>(
    text: &'t Text<'_>,
    group: Option<&Range<usize>>,
) -> Result<(Range<usize>, &'t str), String> {
    let range = group.ok_or("the anchor matches without its group")?.clone();
    let bytes = &text.bytes()[range.clone()];
    let captured = std::str::from_utf8(bytes).map_err(|_| "the text in the group is not UTF-8")?;
    Ok((range, captured))
}

/// Inserts whole lines at the start of a line, or at the end of a file without a final newline.
fn insert_lines(text: &Text<'_>, at: usize, lines: &str) -> Splice {
    let lines = lines.strip_suffix('\n').unwrap_or(lines);
    let is_line_start = at == 0 || text.bytes()[at - 1] == b'\n';
    let lines = if is_line_start { format!("{lines}\n") } else { format!("\n{lines}") };
    Splice {
        at: text.in_file(at),
        removed: String::new(),
        inserted: text.with_line_endings(&lines, at),
    }
}

/// Checks a condition; the error names the part that is not met.
pub(crate) fn check_condition(
    condition: &Condition,
    gpu: &GpuTarget,
    bytes: &[u8],
) -> Result<(), String> {
    let text = Text::new(bytes);
    match condition {
        Condition::Matches { pattern, count: None } => {
            let source = fill(pattern, gpu);
            let is_in = Pattern::new(&source)?.is_in(text.bytes());
            if is_in {
                Ok(())
            } else {
                Err(format!("{} does not match", crate::reader::quote(&source)))
            }
        }
        Condition::Matches { pattern, count: Some(count) } => {
            let source = fill(pattern, gpu);
            let found = Pattern::new(&source)?.count(text.bytes(), count + 1);
            if found == *count {
                return Ok(());
            }
            let at_least = if found > *count { "at least " } else { "" };
            Err(format!(
                "{} matches {at_least}{found} times, expected {count}",
                crate::reader::quote(&source)
            ))
        }
        Condition::Absent { pattern } => {
            let source = fill(pattern, gpu);
            let found = Pattern::new(&source)?.find(text.bytes(), "", 1);
            match found.first() {
                None => Ok(()),
                Some(found) => Err(format!(
                    "{} matches on line {}, but should not match",
                    crate::reader::quote(&source),
                    text.line(found.whole.start)
                )),
            }
        }
    }
}
