# ROCm and PyTorch from AMD's wheels, which carry one stamp and belong together. No RUN needs a
# network.
#
# Not tried: this file was written where AMD's index cannot be reached.
#
# Context: python/  the wheels of a lock, and the lock for pip (wheels/*.whl, requirements.lock)
# BASE has a Python environment in /opt/venv, of the version that the wheels are for.

ARG BASE

FROM ${BASE} AS build
ARG SOURCE_DATE_EPOCH
ARG PYTHONHASHSEED=0
COPY python/ /python/
RUN pip install --no-index --find-links /python/wheels --require-hashes --no-deps --no-compile \
        --no-cache-dir -r /python/requirements.lock \
 && rocm-sdk init
# What is inside is what was asked for.
RUN PYTHONDONTWRITEBYTECODE=1 python -c 'import torch; assert torch.version.hip, torch.__version__'

FROM ${BASE}
COPY --from=build /opt/venv/ /opt/venv/
