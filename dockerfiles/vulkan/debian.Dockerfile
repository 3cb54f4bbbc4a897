# llama.cpp with its Vulkan backend, on Debian. No RUN step needs a network.
#
# Context: packages/   a local package source with the locked packages (Packages, Release, *.deb)
#          llama.cpp/  the patched source tree
# BASE is a Debian of the same packages' suite, with apt.
#
# Works with podman, BuildKit, and docker's classic builder, which is given it without the mount of the
# compiler's cache: no `# syntax=`, no heredoc.

ARG BASE

# The runtime packages, and of them only what is not in BASE already: /overlay. Without this stage
# the layer with the package files would be a part of the image.
FROM ${BASE} AS packages
ARG SOURCE_DATE_EPOCH
ARG DEBIAN_FRONTEND=noninteractive
COPY packages/ /packages/
RUN touch /begin \
 && apt-get -o Dir::Etc::SourceList=/packages/sources.list -o Dir::Etc::SourceParts=/dev/null update \
 && apt-get -o Dir::Etc::SourceList=/packages/sources.list -o Dir::Etc::SourceParts=/dev/null \
        install -y --no-install-recommends \
        libgomp1 libvulkan1 mesa-vulkan-drivers vulkan-tools \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* /var/cache/ldconfig/* \
        /var/cache/debconf/*-old /var/lib/dpkg/*-old \
 && mkdir /overlay \
 && cd / \
 && find . -mindepth 1 -xdev \
        \( -path ./begin -o -path ./overlay -o -path ./packages -o -path ./tmp -o -path ./run \
           -o -path ./proc -o -path ./sys -o -path ./dev \
           -o -path ./etc/hosts -o -path ./etc/hostname -o -path ./etc/resolv.conf \) -prune \
        -o \( -type d -o -cnewer /begin \) -print0 > /files \
 && tar --null --no-recursion --files-from /files -cpf /overlay.tar \
 && tar -xpf /overlay.tar -C /overlay

# The compilers, and what they make. Nothing of this stage but /opt/llama.cpp is kept.
FROM ${BASE} AS build
ARG SOURCE_DATE_EPOCH
ARG PYTHONHASHSEED=0
ARG DEBIAN_FRONTEND=noninteractive

COPY packages/ /packages/
RUN apt-get -o Dir::Etc::SourceList=/packages/sources.list -o Dir::Etc::SourceParts=/dev/null update \
 && apt-get -o Dir::Etc::SourceList=/packages/sources.list -o Dir::Etc::SourceParts=/dev/null \
        install -y --no-install-recommends \
        ccache cmake g++ glslc libvulkan-dev ninja-build spirv-headers

COPY llama.cpp/ /src/llama.cpp/

# How many compilers run at once; empty for one per processor.
ARG JOBS=
# What `llama-cli --version` says. Upstream asks git, which is not here.
ARG LLAMA_BUILD_NUMBER=0
ARG LLAMA_BUILD_COMMIT=unknown
# Empty where the compilers' work must not be taken from an earlier build. The result is the same.
ARG COMPILER_LAUNCHER=ccache
ARG CCACHE_DIR=/ccache
# The compiler is known by what it is, not by its time, and so is the assembler that it runs.
ARG CCACHE_COMPILERCHECK=content
ARG CCACHE_EXTRAFILES=/usr/bin/as

# GGML_NATIVE=OFF: the compiling machine's processor must not decide what the result runs on. The
# instruction sets are named (those of x86-64-v3, Haswell and later), since ggml takes none of them
# where SOURCE_DATE_EPOCH is set, and then computes many times slower on the processor.
# No OpenSSL and no curl: models are files, fetched and checked by whoever starts the container.
# The web page of llama-server would come by the network (npm or a bucket), so it is left out.
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
COPY --from=packages /overlay/ /
COPY --from=build /opt/llama.cpp/ /opt/llama.cpp/
ENV PATH=/opt/llama.cpp/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# llama-server listens on 127.0.0.1 unless told, where nobody outside of the container reaches it.
ENV LLAMA_ARG_HOST=0.0.0.0
EXPOSE 8080
CMD ["llama-server"]
