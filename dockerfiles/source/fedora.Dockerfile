# Python and a compiler on Fedora: the first stage of track `source`. ROCm is none of its packages; it
# comes with PyTorch. At run time Triton needs the compiler too.
#
# Not tried: this file was written where no image of Fedora can be pulled.
#
# BASE is Fedora by digest; its packages come by the network, and are as new as the day of the build.

ARG BASE
FROM ${BASE}
RUN dnf install -y --setopt=install_weak_deps=False \
        gcc gcc-c++ libatomic libstdc++-devel numactl-libs python3.13 python3.13-devel \
 && dnf clean all \
 && python3.13 -m venv /opt/venv
ENV PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
