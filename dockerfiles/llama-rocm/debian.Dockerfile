# llama.cpp with its HIP backend, on Debian's ROCm. No RUN step needs a network.
#
# Context: packages/   a local package source with the locked packages (Packages, Release, *.deb)
#          llama.cpp/  the patched source tree
# BASE is a Debian of the same packages' suite, with apt.
#
# Works with podman, BuildKit, and docker's classic builder, which is given it without the mount of the
# compiler's cache: no `# syntax=`, no heredoc.

ARG BASE

# The runtime packages, and of them only what is not in BASE already: /overlay. Its files are hard
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

# The compilers, and what they make. Nothing of this stage but /opt/llama.cpp is kept.
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
# How many compilers run at once; empty for one per processor.
ARG JOBS=
# What `llama-cli --version` says. Upstream asks git, which is not here.
ARG LLAMA_BUILD_NUMBER=0
ARG LLAMA_BUILD_COMMIT=unknown
# Further options for cmake. -DGGML_HIP_NO_VMM=OFF takes GPU memory through the virtual memory
# interface of HIP. -DGGML_CUDA_FA=OFF leaves flash attention out. Releases of llama.cpp before it
# used the GPU's matrix instructions itself know -DGGML_HIP_ROCWMMA_FATTN=ON.
ARG CMAKE_OPTIONS=
# Empty where the compilers' work must not be taken from an earlier build. The result is the same.
ARG COMPILER_LAUNCHER=ccache
ARG CCACHE_DIR=/ccache
# The compilers are known by the packages that are installed: clang's code is in libraries, and the
# code for the GPU is linked with files that no preprocessor sees.
ARG CCACHE_COMPILERCHECK=content
ARG CCACHE_EXTRAFILES=/var/lib/dpkg/status
ARG HIP_PATH=/usr
ARG ROCM_PATH=/usr

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
        -DCMAKE_HIP_FLAGS='-ffile-prefix-map=/src/llama.cpp=. -ffile-prefix-map=/build=build --rocm-device-lib-path=/usr/lib/llvm-22/lib/clang/22/amdgcn/bitcode' \
        -DCMAKE_HIP_COMPILER=/usr/lib/llvm-22/bin/clang++ \
        -DCMAKE_HIP_ARCHITECTURES="${GPU_TARGET}" \
        -DCMAKE_C_COMPILER_LAUNCHER="${COMPILER_LAUNCHER}" \
        -DCMAKE_CXX_COMPILER_LAUNCHER="${COMPILER_LAUNCHER}" \
        -DCMAKE_HIP_COMPILER_LAUNCHER="${COMPILER_LAUNCHER}" \
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
# llama-server listens on 127.0.0.1 unless told, where nobody outside of the container reaches it.
ENV LLAMA_ARG_HOST=0.0.0.0
EXPOSE 8080
CMD ["llama-server"]
