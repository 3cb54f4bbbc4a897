//! Reads here documents: scripts, and files that a script or `COPY` writes.

use super::{Char, Document, Reader, end_of_line, numbered};

/// Lines that only systemd units and compose files have.
const DOCUMENTS: [&str; 3] = ["[Service]", "[Container]", "services:"];

/// The name endings of the files whose content is read.
const READ: [&str; 8] =
    [".sh", ".repo", ".list", ".env", ".service", ".container", ".yml", ".yaml"];

impl Reader {
    /// Reads the files that `COPY <<EOF …` writes. Returns the next line to read.
    pub(super) fn copied_documents(&mut self, text: &str, lines: &[&str], index: usize) -> usize {
        let mut next = index;
        for delimiter in here_documents(text) {
            let begin = next;
            while next < lines.len() && lines[next].trim() != delimiter {
                next += 1;
            }
            let body = lines[begin..next].join("\n");
            let is_known = READ.iter().any(|end| text.trim_end().ends_with(end));
            let first = body.lines().next().unwrap_or_default();
            if is_known || first.starts_with("#!") && first.contains("sh") {
                let folder = self.folder.clone();
                self.document(&numbered(&body, begin + 1), text);
                self.folder = folder;
            }
            next = (next + 1).min(lines.len());
        }
        next
    }

    /// Reads the body of a here document as a script of its own.
    /// `place` is the command with the path that it writes.
    pub(super) fn here_document(
        &mut self,
        chars: &[Char],
        start: usize,
        delimiter: &str,
        place: &str,
    ) -> usize {
        let mut at = start;
        while at < chars.len() {
            let end = end_of_line(chars, at);
            let line: String = chars[at..end].iter().map(|(c, _)| *c).collect();
            if line.trim() == delimiter {
                break;
            }
            at = end + 1;
        }
        let body = &chars[start..at.min(chars.len())];
        self.document(body, place);
        end_of_line(chars, at)
    }

    /// Reads the content of a file in a here document: a unit or compose file as such, and all others
    /// as a script.
    fn document(&mut self, body: &[Char], place: &str) {
        let text: String = body.iter().map(|(c, _)| *c).collect();
        if text.lines().any(|line| DOCUMENTS.contains(&line.trim_end())) {
            let before = body.first().map_or(0, |(_, line)| line - 1);
            let text = "\n".repeat(before) + &text;
            self.script.documents.push(Document { place: place.to_owned(), text });
        } else {
            self.deeper(body);
        }
    }
}

/// Returns the delimiters of the here documents that an instruction opens.
pub(super) fn here_documents(text: &str) -> Vec<String> {
    let opened = text
        .match_indices("<<")
        .filter(|(at, _)| !text[..*at].ends_with('<') && !text[at + 2..].starts_with('<'));
    opened
        .filter_map(|(at, _)| {
            let rest = text[at + 2..].trim_start_matches(['-', '"', '\'']);
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            (end > 0).then(|| rest[..end].to_owned())
        })
        .collect()
}
