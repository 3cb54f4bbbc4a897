//! Tests of documents, derived images, layouts and archives, and of the loopback registry, both as
//! a registry and as the target of an engine's pushes.

mod agreement;
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
