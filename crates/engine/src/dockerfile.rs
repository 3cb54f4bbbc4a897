//! Finds the line of an instruction in a Dockerfile, so that an error can name it.
//!
//! The parser handles only comments, continuations, the escape directive and heredocs. The engine
//! decides whether the Dockerfile is valid.

/// One instruction of a Dockerfile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instruction {
    /// Its first line, counted from 1.
    pub(crate) line: usize,
    /// Its last line, not counting a heredoc.
    pub(crate) last: usize,
    /// Its text with continuations joined and spaces collapsed.
    pub(crate) text: String,
    /// The text after its keyword, with continuations joined as engines join them.
    pub(crate) arguments: String,
}

impl Instruction {
    /// Returns its keyword in upper case.
    pub(crate) fn keyword(&self) -> String {
        self.text.split(' ').next().unwrap_or_default().to_ascii_uppercase()
    }
}

/// Returns the instructions of a Dockerfile in order.
pub(crate) fn instructions(text: &str) -> Vec<Instruction> {
    let escape = escape_of(text);
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((start, first)) = lines.next() {
        if first.trim().is_empty() || first.trim_start().starts_with('#') {
            continue;
        }
        let (mut joined, mut exact) = (String::new(), String::new());
        let (mut part, mut last) = (first, start + 1);
        loop {
            let continued = part.trim_end().strip_suffix(escape);
            joined.push_str(continued.unwrap_or(part));
            joined.push(' ');
            exact.push_str(continued.unwrap_or(part));
            if continued.is_none() {
                break;
            }
            // Comments and empty lines inside a continued instruction are not part of it.
            let is_text =
                |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
            match lines.by_ref().find(|(_, line)| is_text(line)) {
                Some((index, next)) => (part, last) = (next, index + 1),
                None => break,
            }
        }
        for end in heredocs(&joined) {
            // Without the closing delimiter, it is not a heredoc but, for example, a shift or
            // quoted text.
            let mut after = lines.clone();
            if after.any(|(_, line)| line.trim_start_matches('\t') == end) {
                lines = after;
            }
        }
        let arguments = exact.trim().split_once(char::is_whitespace);
        let arguments = arguments.map_or("", |(_, arguments)| arguments).trim().to_owned();
        found.push(Instruction { line: start + 1, last, text: normal(&joined), arguments });
    }
    found
}

/// Returns whether the image of a `FROM` is the base: the build argument `BASE`.
pub(crate) fn is_base(image: &str) -> bool {
    matches!(image, "$BASE" | "${BASE}") || image.starts_with("${BASE:")
}

/// Returns a Dockerfile without its cache mounts, for builders that do not support them.
/// Instructions keep their line numbers. The mounts must be on the first line of their instruction.
pub fn without_cache_mounts(text: &str) -> String {
    let line = |line: &str| {
        let is_run = line.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("RUN "));
        let is_kept = |word: &&str| !is_run || !word.starts_with("--mount=type=cache");
        line.split(' ').filter(is_kept).collect::<Vec<_>>().join(" ") + "\n"
    };
    text.lines().map(line).collect()
}

/// Returns the index of the instruction that the engine names. Searches from `from` to the end,
/// then from the beginning. Engines differ in whitespace, and newer ones substitute variables; so
/// if no instruction is equal, the first with the same keyword counts.
pub(crate) fn locate(instructions: &[Instruction], named: &str, from: usize) -> Option<usize> {
    let named = normal(named);
    let order = (from..instructions.len()).chain(0..from.min(instructions.len()));
    let keyword = |text: &str| text.split(' ').next().map(str::to_ascii_uppercase);
    order
        .clone()
        .find(|index| instructions[*index].text == named)
        .or_else(|| order.clone().find(|i| keyword(&instructions[*i].text) == keyword(&named)))
}

fn normal(text: &str) -> String {
    let mut words = text.split_whitespace();
    let keyword = words.next().unwrap_or_default().to_ascii_uppercase();
    std::iter::once(keyword.as_str()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Returns the escape character. Only other directives may precede the `# escape=` directive.
fn escape_of(text: &str) -> char {
    for line in text.lines() {
        let Some((key, value)) =
            line.trim().strip_prefix('#').and_then(|directive| directive.split_once('='))
        else {
            break;
        };
        if key.trim().eq_ignore_ascii_case("escape") && value.trim() == "`" {
            return '`';
        }
    }
    '\\'
}

/// Returns the delimiters of the heredocs that a `RUN`, `COPY` or `ADD` opens.
fn heredocs(instruction: &str) -> Vec<&str> {
    let has_heredocs = ["RUN", "COPY", "ADD"]
        .iter()
        .any(|keyword| instruction.trim_start().to_ascii_uppercase().starts_with(keyword));
    if !has_heredocs {
        return Vec::new();
    }
    let word = |text: &str| text.len() > 2 && text.starts_with("<<") && !text.starts_with("<<<");
    instruction
        .split_whitespace()
        .filter(|text| word(text))
        .map(|text| text[2..].trim_start_matches('-').trim_matches(['"', '\'']))
        .filter(|end| end.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)))
        .filter(|end| !end.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# syntax=none\n\nARG BASE=x\nFROM $BASE AS one\nrun echo a \\\n  # why\n\n  && echo  b\n\
        RUN <<EOF\nFROM not an instruction\nEOF\nCOPY --from=one /a /b\nRUN echo a\n";

    #[test]
    fn mounts_of_caches_can_be_left_out() {
        let text = "FROM a\nRUN --mount=type=cache,id=x,target=/x \\\n    cc  a.c\nrun --mount=type=cache,target=/y --mount=type=bind,target=/z true\nCMD [\"--mount=type=cache\"]\n";
        let without = "FROM a\nRUN \\\n    cc  a.c\nrun --mount=type=bind,target=/z true\nCMD [\"--mount=type=cache\"]\n";
        assert_eq!(without_cache_mounts(text), without);
    }

    #[test]
    fn instructions_have_their_lines() {
        let found: Vec<(usize, String)> =
            instructions(TEXT).into_iter().map(|found| (found.line, found.text)).collect();
        let expected = [
            (3, "ARG BASE=x"),
            (4, "FROM $BASE AS one"),
            (5, "RUN echo a && echo b"),
            (9, "RUN <<EOF"),
            (12, "COPY --from=one /a /b"),
            (13, "RUN echo a"),
        ];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn only_heredocs_hide_instructions() {
        for (text, expected) in [
            ("RUN <<END-OF.FILE\nFROM b\nEND-OF.FILE\nRUN c\n", &[1, 4][..]),
            ("COPY <<-'E' /x\n\tFROM b\n\tE\nRUN c\n", &[1, 4]),
            ("RUN python3 -c 'print(1 <<n)'\nRUN c\n", &[1, 2]),
            ("RUN echo \"x <<EOF\"\nRUN c\n", &[1, 2]),
            ("RUN <<EOF\nRUN c\n", &[1, 2]),
        ] {
            let lines: Vec<usize> = instructions(text).iter().map(|found| found.line).collect();
            assert_eq!(lines, expected, "{text}");
        }
    }

    #[test]
    fn the_escape_directive_counts_first_only() {
        assert_eq!(instructions("# escape=`\nRUN a `\n b\n")[0].text, "RUN a b");
        assert_eq!(instructions("RUN a \\\n b\n# escape=`\n").len(), 1);
    }

    #[test]
    fn what_an_engine_names_is_found() {
        let all = instructions(TEXT);
        let line = |named, from| locate(&all, named, from).map(|index| all[index].line);
        assert_eq!(line("RUN echo a   && echo b", 0), Some(5));
        assert_eq!(line("FROM debian AS one", 0), Some(4));
        assert_eq!(line("RUN echo a", 0), Some(13));
        assert_eq!(line("COPY --from=one /a /b", 5), Some(12));
        assert_eq!(line("VOLUME /x", 0), None);
    }
}
