//! Describes the tables of data files: which keys they have, and what the keys mean.
//!
//! A reader accepts exactly the keys of its [`Form`] ([`crate::reader::Table::check_form`]). The
//! JSON schema and the reference page of the file are generated from the same form, so they cannot
//! disagree with the reader.

/// A table of a data file.
#[derive(Debug)]
pub struct Form {
    /// What the table is, in one or two sentences.
    pub about: &'static str,
    /// The keys, in groups.
    pub keys: &'static [&'static [Key]],
    /// A description of the names that users choose for further tables, and the form of these
    /// tables.
    pub named: Option<(&'static str, &'static Self)>,
}

/// A key of a table.
#[derive(Debug)]
pub struct Key {
    /// The name.
    pub name: &'static str,
    /// The kind of value.
    pub kind: Kind,
    /// The meaning.
    pub meaning: &'static str,
    /// Whether and how the key may be absent.
    pub absent: Absent,
    /// An example, as a line of the file.
    pub example: &'static str,
}

/// The meaning of an absent key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// It is an error.
    Error,
    /// It has this meaning.
    Means(&'static str),
}

/// The kind of a value.
#[derive(Debug)]
pub enum Kind {
    /// A string.
    Text,
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// An array of strings.
    Texts,
    /// An array of these strings.
    SomeOf(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Number,
    /// A whole number, or a table of numbers by name.
    Numbers,
    /// A date, without quotes.
    Date,
    /// A table of strings by name.
    TextByName,
    /// A table of string arrays by name.
    TextsByName,
    /// A table.
    Table(&'static Form),
    /// An array of tables.
    Tables(&'static Form),
    /// Tables by name.
    TableByName(&'static Form),
}

impl Key {
    /// Returns a key that must be present.
    pub const fn required(
        name: &'static str,
        kind: Kind,
        meaning: &'static str,
        example: &'static str,
    ) -> Self {
        Self { name, kind, meaning, absent: Absent::Error, example }
    }

    /// Returns a key that may be absent, which means `default`.
    pub const fn optional(
        name: &'static str,
        kind: Kind,
        meaning: &'static str,
        default: &'static str,
        example: &'static str,
    ) -> Self {
        Self { name, kind, meaning, absent: Absent::Means(default), example }
    }

    /// Returns the key `schema`, the version of the file format. Every data file has it.
    pub const fn schema() -> Self {
        Self::required("schema", Kind::Number, "The version of the file format: 1.", "schema = 1")
    }
}

/// The key that lists the rows of build-pipeline's own file to ignore.
pub const REMOVE: Key = Key::optional(
    crate::rows::REMOVE,
    Kind::Texts,
    "Rows of build-pipeline's own file to ignore, as `TABLE.NAME`.",
    "none are ignored",
    "",
);

impl Form {
    /// Returns a form with one group of keys.
    pub const fn of(about: &'static str, keys: &'static [&'static [Key]]) -> Self {
        Self { about, keys, named: None }
    }

    /// Returns the keys.
    pub fn all_keys(&self) -> impl Iterator<Item = &'static Key> + use<> {
        self.keys.iter().copied().flatten()
    }
}
