# Packages of Debian and a Python environment: what stands in the place of ROCm and of AMD's PyTorch
# when track `source` is rehearsed. Built twice: with Python and a compiler, then with Debian's
# PyTorch, which is for the processor. No RUN needs a network.
#
# Context: packages/  a local package source with the locked packages (Packages, Release, *.deb)
# BASE is a Debian of the same packages' suite, with apt.

ARG BASE

FROM ${BASE} AS build
ARG SOURCE_DATE_EPOCH
ARG PYTHONHASHSEED=0
ARG DEBIAN_FRONTEND=noninteractive
# The packages that are wanted, by name.
ARG PACKAGES
COPY packages/ /packages/
RUN touch /begin \
 && apt-get -o Dir::Etc::SourceList=/packages/sources.list -o Dir::Etc::SourceParts=/dev/null update \
 && apt-get -o Dir::Etc::SourceList=/packages/sources.list -o Dir::Etc::SourceParts=/dev/null \
        install -y --no-install-recommends ${PACKAGES} \
 && if [ ! -d /opt/venv ]; then python3 -m venv --system-site-packages /opt/venv; fi \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* /var/cache/ldconfig/* \
        /var/cache/debconf/*-old /var/lib/dpkg/*-old \
 && mkdir /overlay \
 && cd / \
 && find . -mindepth 1 -xdev \
        \( -path ./begin -o -path ./overlay -o -path ./packages -o -path ./tmp -o -path ./run \
           -o -path ./proc -o -path ./sys -o -path ./dev \
           -o -path ./etc/hosts -o -path ./etc/hostname -o -path ./etc/resolv.conf \) -prune \
        -o \( -type d -o -cnewer /begin \) -print0 > /files \
 && tar --null --no-recursion --files-from /files -cpf /overlay.tar \
 && tar -xpf /overlay.tar -C /overlay

FROM ${BASE}
COPY --from=build /overlay/ /
ENV PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
