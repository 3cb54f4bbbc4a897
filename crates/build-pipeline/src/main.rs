//! x
fn main() {}