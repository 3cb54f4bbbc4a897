# llama.cpp with its HIP backend, on AMD's image of Ubuntu with ROCm.
#
# Nobody has built this file yet: its author could not pull an image of Ubuntu with ROCm. Everything
# except the packages is as in debian.Dockerfile, which was built and run. The build ends with an
# audit, which checks that the libraries have code for the GPU.
#
# Context: llama.cpp/  the patched source tree
# BASE is a rocm/dev-ubuntu-*-complete image with a digest; it has ROCm in /opt/rocm. Only the
# compilers for the processor are downloaded, and they are not in the result.

ARG BASE

# This stage compiles. The image gets only /opt/llama.cpp from it.
FROM ${BASE} AS build
ARG SOURCE_DATE_EPOCH
ARG PYTHONHASHSEED=0
ARG DEBIAN_FRONTEND=noninteractive

RUN apt-get update \
 && apt-get install -y --no-install-recommends ccache cmake g++ ninja-build \
 && cp /var/lib/dpkg/status /packages.list

COPY llama.cpp/ /src/llama.cpp/

ARG GPU_TARGET
# The number of compilers that run at once. If empty, one per processor.
ARG JOBS=
# What `llama-cli --version` prints. Upstream's build asks git, which is not available here.
ARG LLAMA_BUILD_NUMBER=0
ARG LLAMA_BUILD_COMMIT=unknown
# More options for cmake; see debian.Dockerfile.
ARG CMAKE_OPTIONS=
# Empty: compile everything again. The result is the same.
ARG COMPILER_LAUNCHER=ccache
ARG HIP_PATH=/opt/rocm
ARG ROCM_PATH=/opt/rocm
ARG CCACHE_DIR=/ccache
# clang's code is in libraries, so ccache compares the list of installed packages too.
ARG CCACHE_COMPILERCHECK=content
ARG CCACHE_EXTRAFILES=/packages.list

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
        -DCMAKE_HIP_FLAGS='-ffile-prefix-map=/src/llama.cpp=. -ffile-prefix-map=/build=build' \
        -DCMAKE_HIP_COMPILER=/opt/rocm/llvm/bin/clang++ \
        -DCMAKE_HIP_ARCHITECTURES="${GPU_TARGET}" \
        -DCMAKE_C_COMPILER_LAUNCHER="${COMPILER_LAUNCHER}" \
        -DCMAKE_CXX_COMPILER_LAUNCHER="${COMPILER_LAUNCHER}" \
        -DCMAKE_HIP_COMPILER_LAUNCHER="/usr/local/bin/with-cuid${COMPILER_LAUNCHER:+;}${COMPILER_LAUNCHER}" \
        -DGPU_TARGETS="${GPU_TARGET}" \
        -DCMAKE_PREFIX_PATH=/opt/rocm \
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

# The base has the libraries of ROCm and OpenMP.
FROM ${BASE}
COPY --from=build /opt/llama.cpp/ /opt/llama.cpp/
ENV PATH=/opt/llama.cpp/bin:/opt/rocm/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# llama-server listens on 127.0.0.1 by default, where it cannot be reached from outside the
# container.
ENV LLAMA_ARG_HOST=0.0.0.0
EXPOSE 8080
CMD ["llama-server"]
