# PyTorch from patched source, in place of the wheel that came with ROCm. No RUN instruction needs a
# network.
#
# Nobody has built this file yet: its author had access to neither PyTorch's source nor ROCm.
#
# Context: python/   the wheels of a lock: what PyTorch's build needs
#          pytorch/  the patched source tree, with its submodules
# BASE has ROCm and AMD's PyTorch of the same version in /opt/venv; torchvision, torchaudio and
# Triton stay as they are.
#
# AOTriton is left out, because PyTorch's build would download it. Attention uses the kernels of
# flash-attention, which the next stage installs, or else PyTorch's own.

ARG BASE

FROM ${BASE} AS build
ARG SOURCE_DATE_EPOCH
ARG PYTHONHASHSEED=0
ARG GPU_TARGET
ARG PYTORCH_VERSION
COPY python/ /python/
RUN pip freeze --all | grep -E '^(torch(vision|audio)|triton|pytorch|rocm)' | sort > /stack \
 && pip install --no-index --find-links /python/wheels --require-hashes --no-deps --no-compile \
        --no-cache-dir -r /python/requirements.lock
COPY pytorch/ /src/pytorch/
# If empty, everything is compiled again, without the cache of earlier builds. Whether the code for
# GPUs is then the same is not tested: clang names it after its options, which a launcher may change
# (see `with-cuid` in ../llama-rocm/debian.Dockerfile).
# hipcc starts its compilers by their paths, so it gets the launcher in HIP_CLANG_LAUNCHER, if it
# supports that variable.
ARG COMPILER_LAUNCHER=sccache
ARG SCCACHE_DIR=/sccache
# - In the wheel of the base, _rocm_init.py lists the ROCm libraries to load first; it is kept.
# - A HIP compiler needs up to 4 GiB, so only as many run at once as fit into memory.
# - Without HIP_DEVICE_LIB_PATH, clang looks in the wrong place once ROCM_PATH is set, and sccache
#   reuses objects that were compiled with different bitcode.
RUN --mount=type=cache,id=build-pipeline-sccache,target=/sccache \
    cd /src/pytorch \
 && root="$(rocm-sdk path --root)" \
 && installed="$(python -c 'import importlib.util as util; \
print(util.find_spec("torch").submodule_search_locations[0])')" \
 && cp "${installed}/_rocm_init.py" torch/ \
 && jobs="$(awk '/^MemAvailable/ { print int($2 / 4194304) + 1 }' /proc/meminfo)" \
 && if [ "${jobs}" -gt "$(nproc)" ]; then jobs="$(nproc)"; fi \
 && export MAX_JOBS="${jobs}" PYTORCH_ROCM_ARCH="${GPU_TARGET}" ROCM_PATH="${root}" \
        ROCM_HOME="${root}" CMAKE_PREFIX_PATH="$(rocm-sdk path --cmake)" \
        PATH="$(rocm-sdk path --bin):${PATH}" \
        HIP_DEVICE_LIB_PATH="$(dirname "$(find "${root}" -name ockl.bc -print -quit)")" \
        PYTORCH_BUILD_VERSION="${PYTORCH_VERSION}+rocm$(rocm-sdk version)" PYTORCH_BUILD_NUMBER=1 \
        USE_ROCM=ON USE_CUDA=OFF USE_MPI=OFF USE_NUMA=OFF USE_FBGEMM_GENAI=OFF BUILD_TEST=OFF \
        USE_FLASH_ATTENTION=OFF USE_MEM_EFF_ATTENTION=OFF \
        BLAS=OpenBLAS OpenBLAS_HOME="${root}/lib/host-math" OpenBLAS_LIB_NAME=rocm-openblas \
        CFLAGS='-ffile-prefix-map=/src/pytorch=.' \
        CXXFLAGS="-ffile-prefix-map=/src/pytorch=. -I${root}/lib/rocm_sysdeps/include \
-I${root}/include/roctracer" \
        LDFLAGS="-L${root}/lib/rocm_sysdeps/lib" \
        CMAKE_C_COMPILER_LAUNCHER="${COMPILER_LAUNCHER}" \
        CMAKE_CXX_COMPILER_LAUNCHER="${COMPILER_LAUNCHER}" \
        CMAKE_HIP_COMPILER_LAUNCHER="${COMPILER_LAUNCHER}" \
        HIP_CLANG_LAUNCHER="${COMPILER_LAUNCHER}" \
 && if [ -z "${COMPILER_LAUNCHER}" ]; then unset HIP_CLANG_LAUNCHER; fi \
 && python tools/amd_build/build_amd.py \
 && pip wheel --no-index --no-deps --no-build-isolation --no-cache-dir -w /built . \
 && if [ -n "${COMPILER_LAUNCHER}" ]; then sccache --show-stats && sccache --stop-server; fi \
 && pip uninstall -y sccache torch "amd-torch-device-${GPU_TARGET}" \
 && pip install --no-index --no-deps --no-compile --no-cache-dir /built/*.whl
# Checks that PyTorch and its companions have the same versions as before, and that PyTorch is built
# for ROCm.
RUN pip freeze --all | grep -E '^(torch(vision|audio)|triton|pytorch|rocm)' | sort | diff /stack - \
 && cd / \
 && PYTHONDONTWRITEBYTECODE=1 python -c 'import torch, torchvision; \
assert torch.version.hip, torch.__version__'

FROM ${BASE}
COPY --from=build /opt/venv/ /opt/venv/
