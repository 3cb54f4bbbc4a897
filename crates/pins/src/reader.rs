//! Reads TOML tables with their spans.
