//! Tests of documents, derived images, layouts and archives, and of the loopback registry, both as
//! a registry and as a sink.

mod archive;
mod assemble;
mod derive;
mod document;
mod fuzz;
mod layout;
mod loopback;
mod sink;
mod skopeo;
mod support;
