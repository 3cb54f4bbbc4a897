//! The instructions of a Dockerfile.

/// An instruction of a Dockerfile with its continuation lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) line: usize,
    /// The last of its lines, without those of here documents.
    pub(crate) last: usize,
    pub(crate) text: String,
    /// The stage, from 1; 0 before the first one.
    pub(crate) stage: usize,
}

/// Returns the instructions of a Dockerfile. Continuation lines are joined as the builder does it:
/// without a blank between them.
pub(crate) fn instructions(text: &str) -> Vec<Instruction> {
    let mut all: Vec<Instruction> = Vec::new();
    let mut continues = false;
    let mut stage = 0;
    for (line, own) in own_lines(text) {
        let trimmed = own.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        let body = own.trim_end();
        let body = body.strip_suffix('\\').unwrap_or(body);
        match all.last_mut().filter(|_| continues) {
            Some(last) => {
                last.text.push_str(body);
                last.last = line;
            }
            None => {
                let start = body.trim_start();
                let name = start.split_whitespace().next().unwrap_or_default();
                stage += usize::from(name.eq_ignore_ascii_case("from"));
                all.push(Instruction { line, last: line, text: start.to_owned(), stage });
            }
        }
        continues = trimmed.ends_with('\\');
    }
    all
}

/// Returns the lines outside here documents, with their numbers.
pub(crate) fn own_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut document: Option<&str> = None;
    crate::facts::numbered(text).filter(move |(_, line)| {
        let Some(end) = document else {
            document = here_document(line);
            return true;
        };
        if line.trim() == end {
            document = None;
        }
        false
    })
}

/// Returns the delimiter of the here-document that starts on a line.
pub(crate) fn here_document(text: &str) -> Option<&str> {
    let (before, rest) = text.split_once("<<")?;
    let rest = rest.trim_start_matches(['-', ' ']).trim_start_matches(['\'', '"', '\\']);
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
    // `<<<` is a string, and `1 << 20` a number.
    let is_name = rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (is_name && !before.trim_start().starts_with('#')).then(|| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn here_documents_are_known_by_their_end() {
        assert_eq!(here_document("cat <<'EOF' > x"), Some("EOF"));
        assert_eq!(here_document("cat <<-END"), Some("END"));
        assert_eq!(here_document("read x <<< \"$y\""), None);
        assert_eq!(here_document("echo a"), None);
    }
}
