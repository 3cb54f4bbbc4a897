//! Sends HTTP requests under one policy. All requests to registries, package indexes and git
//! servers go through this crate.
//!
//! Where to start:
//! - [`check_hop`] and [`check_realm`] decide which URLs a server may send this tool to.
//! - [`Hosts`] lists the hosts that requests may go to, and [`Proxies`] the proxies to use.
//! - [`Transport::send`] sends one request and returns the head of the response. It does not follow
//!   redirects; its caller decides.
//! - [`usual_wait`] and [`retry_time`] determine when a request may be sent again.
//! - [`clean`] and [`quoted`] make text from servers safe to print.
//!
//! This crate knows nothing about registries, git or packages. The only files that it reads are the
//! system's certificates.

#![cfg_attr(
    test,
    expect(clippy::shadow_unrelated, reason = "a test looks at several states of one thing")
)]

mod error;
mod hosts;
mod pace;
mod policy;
mod proxies;
mod resolver;
mod retry;
mod text;
mod transport;

pub use error::{Error, ErrorKind, NOT_CONNECTED, causes};
pub use hosts::Hosts;
pub use pace::Pace;
pub use policy::{
    AddressScope, RefusedHop, check_hop, check_realm, check_scope, check_upload, is_same_host,
    literal_scope,
};
pub use proxies::{ParseProxyError, Proxies, ProxyUrl};
pub use retry::{retry_time, usual_wait};
pub use text::{clean, is_html, quoted};
pub use transport::{
    Body, Counters, FixedName, Incoming, IncomingBody, Meter, Outgoing, Route, Timeouts, Transport,
    TransportSettings, bytes_received, lock,
};
