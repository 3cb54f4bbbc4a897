//! The text form of a document.

use std::ops::Range;

/// A text that is built line by line.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
    /// The verdicts in it, in order.
    verdicts: Vec<(Range<usize>, Tone)>,
}

/// The tone of a verdict, which determines its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As expected.
    Good,
    /// Not known, or not as good as it could be.
    Doubtful,
    /// Not as expected.
    Bad,
}

impl Page {
    /// Adds a line.
    pub fn line(&mut self, text: std::fmt::Arguments<'_>) {
        self.add(text);
        self.text.push('\n');
    }

    /// Adds a text without ending the line.
    pub fn add(&mut self, text: std::fmt::Arguments<'_>) {
        use std::fmt::Write as _;
        self.text.write_fmt(text).expect("writing to a string never fails");
    }

    /// Adds a verdict without ending the line. A terminal shows it in colour.
    pub fn verdict(&mut self, word: &str, tone: Tone) {
        let start = self.text.len();
        self.text.push_str(word);
        self.verdicts.push((start..self.text.len(), tone));
    }

    /// Adds a verdict that fills a column of `width` characters.
    pub fn column(&mut self, word: &str, tone: Tone, width: usize) {
        self.verdict(word, tone);
        self.add(format_args!("{:1$}", "", width.saturating_sub(word.len())));
    }

    /// Returns the text in pieces, in order: verdicts with their tones, and the text between them.
    pub fn pieces(&self) -> Vec<(&str, Option<Tone>)> {
        let (mut pieces, mut end) = (Vec::new(), 0);
        for (range, tone) in &self.verdicts {
            pieces.push((&self.text[end..range.start], None));
            pieces.push((&self.text[range.clone()], Some(*tone)));
            end = range.end;
        }
        pieces.push((&self.text[end..], None));
        pieces
    }

    /// Returns the complete text, without colours.
    pub fn into_text(self) -> String {
        self.text
    }
}
