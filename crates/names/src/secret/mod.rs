//! Texts that may contain a secret, and how to show them.
//!
//! Start at [`Secret`]: it keeps the real text and shows `***` in place of every secret part. Texts
//! from elsewhere (log lines, error messages, excerpts of files) go through [`mask`] or
//! [`mask_in_place`]. The `find` module contains the rules for what is secret.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Serialize, Serializer};

mod find;
mod forms;
#[cfg(test)]
mod tests;

use find::Extent;

/// The text that is shown in place of a secret.
const MASK: &str = "***";

/// A URL, an argument or another value that may contain a secret.
///
/// `Display`, `Debug` and `Serialize` show `***` in place of the secret part. Only
/// [`Secret::expose`] returns the real text. The whole text counts as one value, so a space or a
/// quote in a password does not end it.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Secret(String);

impl Secret {
    /// Wraps the real text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the real text. Use it to make a request or to parse the value, never to show the
    /// text.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns whether any part of the text is secret.
    pub fn is_secret(&self) -> bool {
        !find::spans(&self.0, Extent::Value).is_empty()
    }

    /// Returns the text with `***` in place of every secret part.
    pub fn masked(&self) -> Cow<'_, str> {
        replace(&self.0, &find::spans(&self.0, Extent::Value))
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.masked())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.masked(), f)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.masked())
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl FromStr for Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::new(text))
    }
}

/// Returns whether a text contains a password or token that must not get into an image, a plan or a
/// record. Placeholders such as `${TOKEN}` are accepted.
pub fn has_secret(text: &str) -> bool {
    find::has_secret(text)
}

/// Like [`has_secret`], for the value of a variable or key: its name can indicate a secret.
pub fn is_secret_value(name: &str, value: &str) -> bool {
    find::is_secret_value(name, value)
}

/// Returns `text`, which may have many lines, with `***` in place of every secret part.
pub fn mask(text: &str) -> Cow<'_, str> {
    replace(text, &find::spans(text, Extent::Text))
}

/// Returns `text` with `*` in place of every character of a secret part, so that columns do not
/// move.
pub fn mask_in_place(text: &str) -> Cow<'_, str> {
    let spans = find::spans(text, Extent::Text);
    rewrite(text, &spans, |secret| "*".repeat(secret.chars().count()).into())
}

fn replace<'a>(text: &'a str, spans: &[Range<usize>]) -> Cow<'a, str> {
    rewrite(text, spans, |_| MASK.into())
}

fn rewrite<'a>(
    text: &'a str,
    spans: &[Range<usize>],
    shown: impl Fn(&str) -> Cow<'static, str>,
) -> Cow<'a, str> {
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut whole = String::with_capacity(text.len());
    let mut end = 0;
    for span in spans {
        whole.push_str(&text[end..span.start]);
        whole.push_str(&shown(&text[span.clone()]));
        end = span.end;
    }
    whole.push_str(&text[end..]);
    Cow::Owned(whole)
}
