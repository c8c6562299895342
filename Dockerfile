# dcgym with everything it needs. Build: docker build -t dcgym .
# Emulation loads BPF programs, so that it runs privileged: docker run --rm -it --privileged dcgym
FROM debian:12-slim

ENV DEBIAN_FRONTEND=noninteractive PIP_NO_CACHE_DIR=1 UV_NO_CACHE=1
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates make python3 \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/dcgym
# The packages change rarely: they have a layer of their own.
COPY Makefile ./
RUN make apt && rm -rf /var/lib/apt/lists/*
COPY . .
RUN make setup

ENV PATH=/opt/dcgym/.venv/bin:$PATH
# Results outlive the container: -v "$PWD:/work"
WORKDIR /work
CMD ["dcgym", "doctor"]
