//! Tests of deriving, of layouts and archives, and of the loopback registry.

mod archive;
mod derive;
mod layout;
mod loopback;
mod skopeo;
mod support;
