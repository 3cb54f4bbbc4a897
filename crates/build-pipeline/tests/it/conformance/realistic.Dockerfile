ARG BASE
FROM ${BASE} AS build
ENV PATH=/bin
RUN mkdir -p /a/gone /a/kept && echo 1 > /a/gone/1 && echo 2 > /a/kept/2 && ln /a/kept/2 /a/kept/3
FROM ${BASE}
ENV PATH=/bin LANG=C.UTF-8
COPY --from=build --chown=7:8 /a /a
COPY --chown=1000:1000 Dockerfile /copied
RUN rm -r /a/gone && mkdir /a/gone && rm /a/kept/3
RUN truncate -s 64M /sparse && echo end >> /sparse
RUN cp /bin/busybox /setuid && chmod 4755 /setuid && cp /bin/busybox /setgid && chmod 2755 /setgid
RUN cp /bin/busybox /cap && echo SETCAP | base64 -d > /tmp/setcap && chmod 755 /tmp/setcap && /tmp/setcap
RUN touch -d @1 /past && touch -d @4102444800 /future && touch -h -d @5 /bin/sh
RUN touch "/$(printf 'no\377utf8')" && touch "/$(printf '%0255d' 0)"
SHELL ["/bin/sh", "-eu", "-c"]
RUN mkfifo /fifo && mkdir -m 1777 /sticky && chown 1000:1000 /sticky
RUN dd if=/dev/zero of=/large bs=1048576 count=30
USER 1000:1000
RUN id -u > /sticky/owner
EXPOSE 8080
HEALTHCHECK --interval=30s CMD cat /copied
LABEL org.example.kept=yes
CMD ["cat", "/sticky/owner"]
