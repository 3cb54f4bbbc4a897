# flash-attention from patched source. On RDNA only its Triton kernels work, and those are compiled
# when they are first used; so what is installed is Python. No RUN needs a network.
#
# Context: python/           the wheels of a lock: what its build needs, and what it imports
#          flash-attention/  the patched source tree
# BASE has PyTorch in /opt/venv.

ARG BASE

FROM ${BASE} AS build
ARG SOURCE_DATE_EPOCH
ARG PYTHONHASHSEED=0
ARG GPU_TARGET
COPY python/ /python/
COPY flash-attention/ /src/flash-attention/
RUN pip freeze --all | grep -E '^(torch|triton|pytorch|rocm|amd)' | sort > /stack \
 && pip install --no-index --find-links /python/wheels --require-hashes --no-deps --no-compile \
        --no-cache-dir -r /python/requirements.lock \
 && cd /src/flash-attention \
 && BUILD_TARGET=rocm FLASH_ATTENTION_TRITON_AMD_ENABLE=TRUE FLASH_ATTENTION_FORCE_BUILD=TRUE \
    PYTORCH_ROCM_ARCH="${GPU_TARGET}" \
    pip wheel --no-index --no-deps --no-build-isolation --no-cache-dir -w /built . \
 && pip install --no-index --no-deps --no-compile --no-cache-dir /built/*.whl
# PyTorch and what belongs to it are what they were, and what was installed is whole.
RUN pip freeze --all | grep -E '^(torch|triton|pytorch|rocm|amd)' | sort | diff /stack - \
 && python -c 'import ast, pathlib, sysconfig; \
folder = pathlib.Path(sysconfig.get_path("purelib"), "flash_attn"); \
[ast.parse(file.read_bytes()) for file in folder.rglob("*.py")]; \
assert (folder / "flash_attn_triton_amd" / "__init__.py").is_file()' \
 && if python -c 'import triton' 2>/dev/null; then \
        FLASH_ATTENTION_TRITON_AMD_ENABLE=TRUE PYTHONDONTWRITEBYTECODE=1 python -c 'import flash_attn'; \
    fi

FROM ${BASE}
COPY --from=build /opt/venv/ /opt/venv/
ENV FLASH_ATTENTION_TRITON_AMD_ENABLE=TRUE
