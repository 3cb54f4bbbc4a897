# Python and a compiler on Fedora: the first stage of track `source`. It does not install ROCm,
# which comes with PyTorch. Triton needs the compiler at run time, too.
#
# Nobody has built this file yet: its author could not pull an image of Fedora.
#
# BASE is a Fedora image with a digest. The packages are downloaded, and are the newest ones on the
# day of the build.

ARG BASE
FROM ${BASE}
RUN dnf install -y --setopt=install_weak_deps=False \
        gcc gcc-c++ libatomic libstdc++-devel numactl-libs python3.13 python3.13-devel \
 && dnf clean all \
 && python3.13 -m venv /opt/venv
ENV PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
