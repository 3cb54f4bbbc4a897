//! `index NAME`: generates the data files that list the packages of others.

pub(crate) mod debian;
