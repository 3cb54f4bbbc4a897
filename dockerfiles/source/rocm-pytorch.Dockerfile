# ROCm and PyTorch from AMD's wheels, whose versions have the same stamp because they belong
# together. No RUN instruction needs a network.
#
# Nobody has built this file yet: its author could not reach AMD's index.
#
# Context: python/  the wheels of a lock, and the lock for pip (wheels/*.whl, requirements.lock)
# BASE has a Python environment in /opt/venv, with the Python version that the wheels are for.

ARG BASE

FROM ${BASE} AS build
ARG SOURCE_DATE_EPOCH
ARG PYTHONHASHSEED=0
COPY python/ /python/
RUN pip install --no-index --find-links /python/wheels --require-hashes --no-deps --no-compile \
        --no-cache-dir -r /python/requirements.lock \
 && rocm-sdk init
# Checks that PyTorch is built for ROCm.
RUN PYTHONDONTWRITEBYTECODE=1 python -c 'import torch; assert torch.version.hip, torch.__version__'

FROM ${BASE}
COPY --from=build /opt/venv/ /opt/venv/
