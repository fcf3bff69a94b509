# The image `accel-lab`: the lab with a torch of its own and a C++ compiler.
#
#   docker run accel-lab bench --all
#   docker run -v "$PWD:/repro" accel-lab bisect /repro/repro.py
#
#   make docker-image                                    with torch's CUDA libraries: several gigabytes
#   make docker-image DOCKER_ARGS='--build-arg TORCH=slim'     the same torch for the CPU alone, without them
#   make docker-image BASE=accel-lab-base:bookworm       on the base of `make docker-base`, or another
#   make docker-image DOCKER_ARGS='--secret id=ca,src=/path/to/ca-bundle.pem'
#
# BASE: any Debian-like image with Python 3.10 or newer. It is pinned by digest, and what goes on top by the hashes
# of .locks/torch.txt.
#
# The secret `ca` is a bundle of CA certificates for builds behind a proxy that signs with its own; it is seen by the
# steps that download and is not kept in the image. Further index options go in by PIP_ARGS.
ARG BASE=python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

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

FROM base AS packages
ARG PIP_ARGS=""
ARG TORCH=full
RUN python3 -m venv /opt/accel-lab
COPY .locks/torch.txt /src/.locks/torch.txt
# The large layer first: it changes only with the lock. The lock names everything, so nothing is resolved here.
RUN --mount=type=secret,id=ca --mount=type=cache,target=/root/.cache/pip \
    if [ -e /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca SSL_CERT_FILE=/run/secrets/ca; fi; \
    case "$TORCH" in \
        full) leave_out='^$' ;; \
        slim) leave_out='^(nvidia-|cuda-|triton==)' ;; \
        *) echo "TORCH is full or slim, not $TORCH" >&2; exit 2 ;; \
    esac; \
    awk -v out="$leave_out" '/^[a-z0-9]/ { drop = $0 ~ out } !drop' /src/.locks/torch.txt >/src/torch.txt && \
    /opt/accel-lab/bin/pip install $PIP_ARGS --no-deps --require-hashes --requirement /src/torch.txt

# The lab's own wheel, and the stubs that torch wants in the place of the CUDA libraries where they were left out.
FROM packages AS build
ARG TORCH
COPY LICENSE README.md pyproject.toml /src/
COPY bisect /src/bisect
COPY docker/add_stubs.py /src/docker/
RUN mkdir -p /out/stubs && \
    /opt/accel-lab/bin/pip wheel --quiet --no-deps --no-index --no-build-isolation --wheel-dir /out /src && \
    if [ "$TORCH" = slim ]; then \
        PYTHONPATH=/src/bisect /opt/accel-lab/bin/python /src/docker/add_stubs.py /out/stubs; \
    fi

FROM base AS final
ARG REVISION=unknown
LABEL org.opencontainers.image.title="accel-lab" \
      org.opencontainers.image.description="A bisect lab for PyTorch's compiler stack and the accelerators below it" \
      org.opencontainers.image.licenses="BSD-3-Clause" \
      org.opencontainers.image.authors="accel-lab authors" \
      org.opencontainers.image.revision="${REVISION}"
# Open to every user, because `docker run --user` may name any.
RUN useradd --create-home --uid 1000 lab && install -d -o lab -g lab -m 1777 /work && chmod 1777 /home/lab
COPY --from=packages /opt/accel-lab /opt/accel-lab
# A small layer on the large one, so that a change of the lab alone is built and shipped in seconds. It ends with
# proof that all of it loads.
RUN --mount=type=bind,from=build,source=/out,target=/out \
    /opt/accel-lab/bin/pip install --quiet --no-cache-dir --no-deps --no-index /out/*.whl && \
    find /out/stubs -name '*.so*' -exec cp {} /opt/accel-lab/lib/python3*/site-packages/torch/lib/ \; && \
    /opt/accel-lab/bin/python -c 'import torch, torchvision; assert torch.ones(3).sum().item() == 3'
COPY docker /opt/accel-lab/share/accel-lab/docker
COPY repros /opt/accel-lab/share/repros
COPY benchmarks /opt/accel-lab/share/benchmarks
ENV PATH=/opt/accel-lab/bin:$PATH \
    HOME=/home/lab \
    USER=lab \
    PYTHONUNBUFFERED=1
USER lab
WORKDIR /work
# The lab is process 1 here, to which a TERM without a handler means nothing; Ctrl-C's signal ends it in order.
STOPSIGNAL SIGINT
HEALTHCHECK --interval=5m --timeout=60s CMD ["accel-lab", "--help"]
ENTRYPOINT ["accel-lab"]
CMD ["--help"]
