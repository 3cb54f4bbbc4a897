# Python and a compiler on Debian: the first stage of track `source`. It does not install ROCm,
# which comes with PyTorch. Triton needs the compiler at run time, too.
#
# Nobody has built this file yet: its author could not pull an image of Debian.
#
# BASE is a Debian image with a digest. The packages are downloaded, and are the newest ones on the
# day of the build.

ARG BASE
FROM ${BASE}
ARG DEBIAN_FRONTEND=noninteractive
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
        g++ libatomic1 libnuma1 python3 python3-dev python3-venv \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* \
 && python3 -m venv /opt/venv
ENV PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
