//! What an engine does differently from docker, whose API all engines speak.

use std::fmt;
use std::time::Duration;

use hyper::HeaderMap;
use names::{Builder, EngineKind, ImageRef};
use serde_json::Value;

use crate::build::{self, BuildRequest, Network};
use crate::client::query;
use crate::container::ContainerRequest;
use crate::error::EngineError;
use crate::image::ImageId;
use crate::transcript::{StepMarker, classic_marker};

/// The requests to an engine and its builder, and what their responses mean. The default of each
/// method is what docker does.
pub(crate) trait Dialect: fmt::Debug + Send + Sync {
    /// Returns the kind of the engine.
    fn kind(&self) -> EngineKind;

    /// Returns the builder.
    fn builder(&self) -> Builder;

    /// Returns whether it supports `RUN --mount=type=cache`.
    fn has_cache_mounts(&self) -> bool {
        true
    }

    /// Returns the header of `/_ping` that contains the engine's version, if there is one.
    fn version_header(&self) -> Option<&'static str> {
        None
    }

    /// Returns whether the headers of `/_ping` show that this engine answers. docker's headers do
    /// not identify it.
    fn is_named_in(&self, ping: &HeaderMap) -> bool {
        self.version_header().is_some_and(|header| text_of(ping, header).is_some())
    }

    /// Returns the API path of the engine's info, and JSON pointers to its fields.
    fn info(&self) -> &'static InfoFields {
        &DOCKER_INFO
    }

    /// Returns whether the engine reports that it is rootless.
    fn is_rootless(&self, info: &Value) -> bool {
        let options = info.get("SecurityOptions").and_then(Value::as_array);
        let mut options = options.into_iter().flatten().filter_map(Value::as_str);
        options.any(|option| option == "name=rootless")
    }

    /// Returns whether it reports the size of a build cache.
    fn has_build_cache(&self) -> bool {
        true
    }

    /// Returns the path that pushes an image to a name over plain HTTP; `None` if only an image
    /// with that name can be pushed.
    fn push_path(&self, _image: &ImageId, _to: &ImageRef) -> Option<String> {
        None
    }

    /// Returns the path that pulls an image. `is_plain` allows plain HTTP.
    fn pull_path(&self, name: &ImageRef, _is_plain: bool) -> String {
        // docker uses plain HTTP for loopback addresses by default, and only for those.
        format!("/images/create?{}", query(&[("fromImage", &name.to_string())]))
    }

    /// Returns the path and body that create a container, if they are not docker's.
    ///
    /// # Errors
    /// Fails if the engine does not support what is requested.
    fn own_container(
        &self,
        _request: &ContainerRequest,
    ) -> Result<Option<(String, Value)>, EngineError> {
        Ok(None)
    }

    /// Returns the value of `version` in a build request, which selects docker's builder.
    fn builder_version(&self) -> &'static str {
        "1"
    }

    /// Returns the path of a build request.
    fn build_path(&self, request: &BuildRequest) -> String {
        let network = match request.network {
            Network::None => "none",
            Network::Host => "host",
        };
        let mut query = build::query_of(request, &request.build_args, network);
        query.append_pair("version", self.builder_version());
        format!("/build?{}", query.finish())
    }

    /// Returns the instruction that a piece of text announces.
    fn marker(&self, text: &str) -> Option<StepMarker> {
        classic_marker(text)
    }

    /// Returns a piece of text without the colours that the builder adds.
    fn uncoloured<'a>(&self, text: &'a str) -> &'a str {
        text
    }

    /// Returns whether a successful build ends with the image's ID as text.
    fn ends_with_id(&self) -> bool {
        false
    }

    /// Returns the options of the probe's `RUN`.
    fn probe_options(&self) -> &'static str {
        ""
    }

    /// Returns the feature that the engine lacks according to the error message of a failed probe,
    /// which is passed in lower case.
    fn missing(&self, _said: &str) -> Option<&'static str> {
        None
    }

    /// Returns whether buildah builds the images, inside the engine's process. If that process is
    /// killed, it leaves containers, layers and images that appear only in the engine's own API and
    /// in the files of its store.
    fn uses_buildah(&self) -> bool {
        false
    }

    /// Returns how long something may be in use after a build was interrupted: until docker has
    /// removed the container of the `RUN`, the image of the previous step cannot be removed.
    fn settling(&self) -> Duration {
        Duration::from_secs(60)
    }
}

/// The API path of an engine's info, and JSON pointers to its fields.
#[derive(Debug)]
pub(crate) struct InfoFields {
    pub(crate) path: &'static str,
    pub(crate) storage_driver: &'static str,
    pub(crate) storage_root: &'static str,
    pub(crate) runtime: &'static str,
    pub(crate) cgroup_version: &'static str,
    pub(crate) kernel: &'static str,
}

const DOCKER_INFO: InfoFields = InfoFields {
    path: "/info",
    storage_driver: "/Driver",
    storage_root: "/DockerRootDir",
    runtime: "/DefaultRuntime",
    cgroup_version: "/CgroupVersion",
    kernel: "/KernelVersion",
};

/// Returns the text of a header.
pub(crate) fn text_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
