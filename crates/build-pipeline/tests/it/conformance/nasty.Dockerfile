ARG BASE
FROM ${BASE}
ARG SOURCE_DATE_EPOCH
ENV PATH=/bin A=1 B="two words"
LABEL org.example.kept=yes
WORKDIR /work
RUN mkdir -p data/deep && echo one > data/one && ln data/one data/hard && ln -s one data/soft \
 && echo x > data/deep/x && chmod 4755 data/one && chown 60000:60001 data/deep/x \
 && mkfifo data/fifo && truncate -s 3000000 data/sparse && chmod 1777 data/deep \
 && echo u > "data/ünï-ço∂é" \
 && mkdir -p "$(printf 'long%.0s/' $(seq 1 58))" \
 && echo new > /etc/new
RUN rm -rf data/deep && mkdir data/deep && echo y > data/deep/y && touch /tmp/scrubbed
RUN mv data moved && date > /var-log-of-time && rm /var-log-of-time
COPY Dockerfile /copied
EXPOSE 8080/tcp
USER 1000
STOPSIGNAL SIGINT
CMD ["sh", "-c", "echo ran"]
