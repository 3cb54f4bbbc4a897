//! Tests of deriving, of layouts and archives, and of the loopback registry, as a registry and as a sink.

mod archive;
mod derive;
mod layout;
mod loopback;
mod sink;
mod skopeo;
mod support;
