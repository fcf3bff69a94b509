# The image `accel-lab`: the lab with a torch of its own and a C++ compiler, for `docker run accel-lab bench --all`
# and `docker run -v "$PWD:/work" accel-lab bisect repro.py`.
#
#   make docker-image
#   make docker-image DOCKER_ARGS='--build-arg BASE=my/python:3.11 --secret id=ca,src=/path/to/ca-bundle.pem'
#
# BASE: any Debian-like image with Python 3.10 or newer. A release of the image is built from a base pinned by digest:
#   docker buildx imagetools inspect python:3.11-slim-bookworm --format '{{.Manifest.Digest}}'
# prints it, and it is given as --build-arg BASE=python:3.11-slim-bookworm@sha256:... . The tag alone, as it stands
# here, is for builds by hand. What goes on top is pinned by hash either way (.locks/torch.txt).
#
# The secret `ca` is a bundle of CA certificates for builds behind a proxy that signs with its own; it is seen by the
# steps that download and is not kept in the image. Further index options go in by PIP_ARGS.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS base
ENV DEBIAN_FRONTEND=noninteractive \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_INPUT=1
# Inductor compiles its kernels with g++ against Python's headers at run time, so both belong into the final image
# too. What the base has is left alone.
RUN --mount=type=secret,id=ca \
    packages=; has() { "$@" >/dev/null 2>&1; }; \
    has g++ --version || packages="$packages g++"; \
    has python3 -c 'import venv, ensurepip' || packages="$packages python3 python3-venv"; \
    has python3 -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' || \
        packages="$packages python3-dev"; \
    if [ -z "$packages" ]; then exit 0; fi; \
    if [ -e /run/secrets/ca ]; then ca='-o Acquire::https::CAInfo=/run/secrets/ca'; fi; \
    apt-get $ca update && \
    apt-get $ca install -y --no-install-recommends $packages && \
    rm -rf /var/lib/apt/lists/*

FROM base AS build
ARG PIP_ARGS=""
RUN python3 -m venv /opt/accel-lab
COPY .locks/torch.txt /src/.locks/torch.txt
# The large layer first: it changes only with the lock.
RUN --mount=type=secret,id=ca --mount=type=cache,target=/root/.cache/pip \
    if [ -e /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca SSL_CERT_FILE=/run/secrets/ca; fi; \
    /opt/accel-lab/bin/pip install $PIP_ARGS --require-hashes --requirement /src/.locks/torch.txt
COPY LICENSE README.md pyproject.toml /src/
COPY bisect /src/bisect
RUN /opt/accel-lab/bin/pip install --no-deps --no-index --no-build-isolation /src

FROM base AS final
ARG REVISION=unknown
LABEL org.opencontainers.image.title="accel-lab" \
      org.opencontainers.image.description="A bisect lab for PyTorch's compiler stack and the accelerators below it" \
      org.opencontainers.image.licenses="BSD-3-Clause" \
      org.opencontainers.image.authors="accel-lab authors" \
      org.opencontainers.image.revision="${REVISION}"
RUN useradd --create-home --uid 1000 lab && install -d -o lab -g lab /work
COPY --from=build /opt/accel-lab /opt/accel-lab
COPY repros /opt/accel-lab/share/repros
COPY benchmarks /opt/accel-lab/share/benchmarks
ENV PATH=/opt/accel-lab/bin:$PATH \
    PYTHONUNBUFFERED=1
USER lab
WORKDIR /work
ENTRYPOINT ["accel-lab"]
CMD ["--help"]
