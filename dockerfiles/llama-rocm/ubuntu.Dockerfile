# llama.cpp with its HIP backend, on AMD's image of Ubuntu with ROCm.
#
# Not tried: this file was written where no image of AMD's can be pulled. What is not packages is
# the same as in debian.Dockerfile, which was built and run. The build's audit checks that the
# libraries have code for the GPU.
#
# Context: llama.cpp/  the patched source tree
# BASE is an image rocm/dev-ubuntu-*-complete by digest, with ROCm in /opt/rocm. Only the compilers
# for the processor come by the network, and they are not in the result.

ARG BASE

# The compilers, and what they make. Nothing of this stage but /opt/llama.cpp is kept.
FROM ${BASE} AS build
ARG SOURCE_DATE_EPOCH
ARG PYTHONHASHSEED=0
ARG DEBIAN_FRONTEND=noninteractive

RUN apt-get update \
 && apt-get install -y --no-install-recommends ccache cmake g++ ninja-build \
 && cp /var/lib/dpkg/status /packages.list

COPY llama.cpp/ /src/llama.cpp/

ARG GPU_TARGET
# How many compilers run at once; empty for one per processor.
ARG JOBS=
# What `llama-cli --version` says. Upstream asks git, which is not here.
ARG LLAMA_BUILD_NUMBER=0
ARG LLAMA_BUILD_COMMIT=unknown
# Further options for cmake; see debian.Dockerfile.
ARG CMAKE_OPTIONS=
# Empty where the compilers' work must not be taken from an earlier build. The result is the same.
ARG COMPILER_LAUNCHER=ccache
ARG HIP_PATH=/opt/rocm
ARG ROCM_PATH=/opt/rocm
ARG CCACHE_DIR=/ccache
# clang's code is in libraries, so ccache compares the list of installed packages too.
ARG CCACHE_COMPILERCHECK=content
ARG CCACHE_EXTRAFILES=/packages.list

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
        -DCMAKE_HIP_FLAGS='-ffile-prefix-map=/src/llama.cpp=. -ffile-prefix-map=/build=build' \
        -DCMAKE_HIP_COMPILER=/opt/rocm/llvm/bin/clang++ \
        -DCMAKE_HIP_ARCHITECTURES="${GPU_TARGET}" \
        -DCMAKE_C_COMPILER_LAUNCHER="${COMPILER_LAUNCHER}" \
        -DCMAKE_CXX_COMPILER_LAUNCHER="${COMPILER_LAUNCHER}" \
        -DCMAKE_HIP_COMPILER_LAUNCHER="${COMPILER_LAUNCHER}" \
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

# The base has the libraries of ROCm and of OpenMP.
FROM ${BASE}
COPY --from=build /opt/llama.cpp/ /opt/llama.cpp/
ENV PATH=/opt/llama.cpp/bin:/opt/rocm/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# llama-server listens on 127.0.0.1 by default, where nobody outside of the container reaches it.
ENV LLAMA_ARG_HOST=0.0.0.0
EXPOSE 8080
CMD ["llama-server"]
