//! Sends HTTP requests under one policy. Registries, package indexes and git servers are all asked
//! through this crate.
//!
//! Where to start:
//! - [`check_hop`] and [`check_realm`] decide where a server may send this tool.
//! - [`Hosts`] says which hosts may be asked at all, and [`Proxies`] through which proxies.
//! - [`Transport::send`] sends one request and returns the head of the response. It follows no
//!   redirect; its caller decides.
//! - [`usual_wait`] and [`retry_time`] say when a request may be sent again.
//! - [`clean`] and [`quoted`] make text from servers safe to print.
//!
//! This crate knows nothing about registries, git or packages, and reads no files.

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
    Reach, RefusedHop, check_hop, check_reach, check_realm, check_upload, is_same_host,
    literal_reach,
};
pub use proxies::{ParseProxyError, Proxies, ProxyUrl};
pub use retry::{retry_time, usual_wait};
pub use text::{clean, is_html, quoted};
pub use transport::{
    Body, Counters, FixedName, Incoming, IncomingBody, Meter, Outgoing, Route, Timeouts, Transport,
    TransportSettings, lock,
};
