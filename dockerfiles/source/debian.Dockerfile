# Python and a compiler on Debian: the first stage of track `source`. ROCm is none of its packages; it
# comes with PyTorch. At run time Triton needs the compiler too.
#
# Not tried: this file was written where no image of Debian can be pulled.
#
# BASE is Debian by digest; its packages come by the network, and are as new as the day of the build.

ARG BASE
FROM ${BASE}
ARG DEBIAN_FRONTEND=noninteractive
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
        g++ libatomic1 libnuma1 python3 python3-dev python3-venv \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* \
 && python3 -m venv /opt/venv
ENV PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
