//! Tests of reading documents, of deriving, of layouts and archives, and of the loopback registry, as a registry and as a sink.

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
