# llama.cpp with its Vulkan backend, on Fedora. The packages are downloaded from the distribution.
#
# Nobody has built this file yet: its author could not pull an image of Fedora. Everything except
# the packages is as in debian.Dockerfile, which was built and run.
#
# Context: llama.cpp/  the patched source tree
# BASE is a Fedora image with a digest. The packages are the newest ones on the day of the build.
#
#   podman build -f fedora.Dockerfile --build-arg BASE=IMAGE@sha256:… \
#       --build-arg SOURCE_DATE_EPOCH=1795132800 CONTEXT

ARG BASE

# The compilers, and what they build. Only /opt/llama.cpp is kept from this stage.
FROM ${BASE} AS build
ARG SOURCE_DATE_EPOCH
ARG PYTHONHASHSEED=0

RUN dnf install -y --setopt=install_weak_deps=False \
        ccache cmake gcc gcc-c++ glslc ninja-build spirv-headers-devel vulkan-headers \
        vulkan-loader-devel

COPY llama.cpp/ /src/llama.cpp/

# The number of compilers that run at once. If empty, one per processor.
ARG JOBS=
# What `llama-cli --version` prints. Upstream's build asks git, which is not available here.
ARG LLAMA_BUILD_NUMBER=0
ARG LLAMA_BUILD_COMMIT=unknown
# If empty, everything is compiled again, without the cache of earlier builds. The result is the
# same.
ARG COMPILER_LAUNCHER=ccache
ARG CCACHE_DIR=/ccache
# ccache identifies the compiler, and the assembler that it runs, by content, not by time.
ARG CCACHE_COMPILERCHECK=content
ARG CCACHE_EXTRAFILES=/usr/bin/as

# GGML_NATIVE=OFF: the result must not depend on the processor that compiles it. The instruction
# sets of x86-64-v3 (Haswell and later) are named, because with SOURCE_DATE_EPOCH ggml selects none,
# and is then many times slower on the processor.
# No OpenSSL and no curl: models are local files. The web page of llama-server would need a network
# (npm or a bucket), so it is left out.
RUN --mount=type=cache,id=build-pipeline-ccache,target=/ccache \
    cmake -S /src/llama.cpp -B /build -G Ninja \
        -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_INSTALL_PREFIX=/opt/llama.cpp \
        -DCMAKE_INSTALL_LIBDIR=lib \
        -DCMAKE_INSTALL_RPATH='$ORIGIN/../lib' \
        -DCMAKE_C_FLAGS='-ffile-prefix-map=/src/llama.cpp=. -ffile-prefix-map=/build=build' \
        -DCMAKE_CXX_FLAGS='-ffile-prefix-map=/src/llama.cpp=. -ffile-prefix-map=/build=build' \
        -DCMAKE_C_COMPILER_LAUNCHER="${COMPILER_LAUNCHER}" \
        -DCMAKE_CXX_COMPILER_LAUNCHER="${COMPILER_LAUNCHER}" \
        -DGGML_VULKAN=ON \
        -DGGML_RPC=ON \
        -DGGML_NATIVE=OFF \
        -DGGML_SSE42=ON -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_BMI2=ON -DGGML_FMA=ON -DGGML_F16C=ON \
        -DGGML_CCACHE=OFF \
        -DLLAMA_CURL=OFF \
        -DLLAMA_OPENSSL=OFF \
        -DLLAMA_BUILD_TESTS=OFF \
        -DLLAMA_BUILD_EXAMPLES=OFF \
        -DLLAMA_BUILD_APP=OFF \
        -DLLAMA_BUILD_UI=OFF \
        -DLLAMA_USE_PREBUILT_UI=OFF \
        -DLLAMA_BUILD_NUMBER="${LLAMA_BUILD_NUMBER}" \
        -DLLAMA_BUILD_COMMIT="${LLAMA_BUILD_COMMIT}" \
 && cmake --build /build --parallel "${JOBS:-$(nproc)}" \
 && cmake --install /build --strip \
 && rm -rf /opt/llama.cpp/include /opt/llama.cpp/lib/cmake /opt/llama.cpp/lib/pkgconfig \
        /opt/llama.cpp/bin/*.py \
 && cp /src/llama.cpp/LICENSE /opt/llama.cpp/LICENSE

FROM ${BASE}
ARG SOURCE_DATE_EPOCH
RUN dnf install -y --setopt=install_weak_deps=False \
        libgomp mesa-vulkan-drivers vulkan-loader vulkan-tools \
 && dnf clean all \
 && rm -rf /var/cache/dnf /var/cache/libdnf5 /var/lib/dnf/history.sqlite* /var/log/dnf* \
        /var/cache/ldconfig/aux-cache
COPY --from=build /opt/llama.cpp/ /opt/llama.cpp/
ENV PATH=/opt/llama.cpp/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# llama-server listens on 127.0.0.1 by default, where it cannot be reached from outside the
# container.
ENV LLAMA_ARG_HOST=0.0.0.0
EXPOSE 8080
CMD ["llama-server"]
