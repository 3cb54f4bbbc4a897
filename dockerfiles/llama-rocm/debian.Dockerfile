# llama.cpp with its HIP backend, on Debian's ROCm. No RUN instruction needs a network.
#
# Context: packages/   a local package source with the locked packages (Packages, Release, *.deb)
#          llama.cpp/  the patched source tree
# BASE is a Debian image of the suite that the packages come from, with apt.
#
# Works with podman, BuildKit and docker's classic builder, because it has no `# syntax=` and no
# heredoc. The classic builder gets it without the mount of the compiler cache.

ARG BASE

# The runtime packages. /overlay contains only what is not in BASE already. Its files are hard
# links, because a copy would need gigabytes.
FROM ${BASE} AS packages
ARG SOURCE_DATE_EPOCH
ARG DEBIAN_FRONTEND=noninteractive
COPY packages/ /packages/
RUN touch /begin \
 && apt-get -o Dir::Etc::SourceList=/packages/sources.list -o Dir::Etc::SourceParts=/dev/null update \
 && apt-get -o Dir::Etc::SourceList=/packages/sources.list -o Dir::Etc::SourceParts=/dev/null \
        install -y --no-install-recommends \
        libamdhip64-7 libgomp1 libhipblas3 libhipblaslt1 librocblas5 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* /var/cache/ldconfig/* \
        /var/cache/debconf/*-old /var/lib/dpkg/*-old \
 && mkdir /overlay \
 && cd / \
 && find . -mindepth 1 -xdev \
        \( -path ./begin -o -path ./overlay -o -path ./packages -o -path ./tmp -o -path ./run \
           -o -path ./proc -o -path ./sys -o -path ./dev \
           -o -path ./etc/hosts -o -path ./etc/hostname -o -path ./etc/resolv.conf \) -prune \
        -o \( -type d -o -cnewer /begin \) \( -type f -fprint0 /tmp/files -o -fprint0 /tmp/others \) \
 && xargs -0 -a /tmp/files cp -l --parents -t /overlay \
 && tar --null --no-recursion --files-from /tmp/others -cpf /tmp/others.tar \
 && tar -xpf /tmp/others.tar -C /overlay

# The compilers, and what they build. Only /opt/llama.cpp is kept from this stage.
FROM ${BASE} AS build
ARG SOURCE_DATE_EPOCH
ARG PYTHONHASHSEED=0
ARG DEBIAN_FRONTEND=noninteractive

COPY packages/ /packages/
RUN apt-get -o Dir::Etc::SourceList=/packages/sources.list -o Dir::Etc::SourceParts=/dev/null update \
 && apt-get -o Dir::Etc::SourceList=/packages/sources.list -o Dir::Etc::SourceParts=/dev/null \
        install -y --no-install-recommends \
        ccache cmake g++ hipcc libamdhip64-dev libhipblas-dev librocblas-dev librocwmma-dev \
        ninja-build

COPY llama.cpp/ /src/llama.cpp/

ARG GPU_TARGET
# The number of compilers that run at once. If empty, one per processor.
ARG JOBS=
# What `llama-cli --version` prints. Upstream's build asks git, which is not available here.
ARG LLAMA_BUILD_NUMBER=0
ARG LLAMA_BUILD_COMMIT=unknown
# More options for cmake. -DGGML_HIP_NO_VMM=OFF allocates GPU memory through HIP's virtual memory
# API. -DGGML_CUDA_FA=OFF leaves flash attention out. Older releases of llama.cpp, which do not use
# the GPU's matrix instructions themselves, support -DGGML_HIP_ROCWMMA_FATTN=ON.
ARG CMAKE_OPTIONS=
# If empty, everything is compiled again, without the cache of earlier builds. The result is the
# same.
ARG COMPILER_LAUNCHER=ccache
ARG CCACHE_DIR=/ccache
# ccache compares the list of installed packages, too: clang's code is in libraries, and the code
# for the GPU is linked with files that no preprocessor sees.
ARG CCACHE_COMPILERCHECK=content
ARG CCACHE_EXTRAFILES=/var/lib/dpkg/status
ARG HIP_PATH=/usr
ARG ROCM_PATH=/usr

# clang names the code for the GPU after the source file and all options (`-cuid`), and ccache changes
# the options. With a name that depends only on the file, the result is the same without ccache.
RUN printf '%s\n' '#!/bin/sh' \
        'for word; do case "$word" in *.cu | *.cpp) source=$word ;; esac; done' \
        'exec "$@" "-cuid=$(echo "$source" | sha256sum | cut -c 1-16)"' \
        > /usr/local/bin/with-cuid \
 && chmod 755 /usr/local/bin/with-cuid

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
        -DCMAKE_HIP_FLAGS='-ffile-prefix-map=/src/llama.cpp=. -ffile-prefix-map=/build=build --rocm-device-lib-path=/usr/lib/llvm-22/lib/clang/22/amdgcn/bitcode' \
        -DCMAKE_HIP_COMPILER=/usr/lib/llvm-22/bin/clang++ \
        -DCMAKE_HIP_ARCHITECTURES="${GPU_TARGET}" \
        -DCMAKE_C_COMPILER_LAUNCHER="${COMPILER_LAUNCHER}" \
        -DCMAKE_CXX_COMPILER_LAUNCHER="${COMPILER_LAUNCHER}" \
        -DCMAKE_HIP_COMPILER_LAUNCHER="/usr/local/bin/with-cuid${COMPILER_LAUNCHER:+;}${COMPILER_LAUNCHER}" \
        -DGPU_TARGETS="${GPU_TARGET}" \
        -DGGML_HIP=ON \
        -DGGML_HIP_NO_VMM=ON \
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
        ${CMAKE_OPTIONS} \
 && cmake --build /build --parallel "${JOBS:-$(nproc)}" \
 && cmake --install /build --strip \
 && rm -rf /opt/llama.cpp/include /opt/llama.cpp/lib/cmake /opt/llama.cpp/lib/pkgconfig \
        /opt/llama.cpp/bin/*.py \
 && cp /src/llama.cpp/LICENSE /opt/llama.cpp/LICENSE

FROM ${BASE}
COPY --from=packages /overlay/ /
COPY --from=build /opt/llama.cpp/ /opt/llama.cpp/
ENV PATH=/opt/llama.cpp/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# llama-server listens on 127.0.0.1 by default, where it cannot be reached from outside the
# container.
ENV LLAMA_ARG_HOST=0.0.0.0
EXPOSE 8080
CMD ["llama-server"]
