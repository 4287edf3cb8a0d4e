# syntax=docker/dockerfile:1

# The image of the service. It runs as an unprivileged user, writes nothing outside /tmp, and holds
# exactly what requirements/runtime.lock names.
ARG PYTHON_VERSION=3.13

FROM python:${PYTHON_VERSION}-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src

# The locked packages come first: a change of the code leaves these layers as they are.
COPY requirements/build.lock requirements/runtime.lock requirements/
RUN python -m pip install --require-hashes -r requirements/build.lock \
    && python -m venv --without-pip /opt/watchcache \
    && python -m pip --python /opt/watchcache/bin/python install \
        --require-hashes --only-binary :all: -r requirements/runtime.lock

COPY LICENSE README.md pyproject.toml ./
COPY clients/python clients/python
COPY service service
RUN python -m pip wheel --no-deps --no-build-isolation --no-index --wheel-dir /wheels \
        ./clients/python . \
    && python -m pip --python /opt/watchcache/bin/python install --no-deps --no-index /wheels/*.whl

FROM python:${PYTHON_VERSION}-slim
LABEL org.opencontainers.image.title="watchcache" \
      org.opencontainers.image.description="Keeps Kubernetes objects warm for controllers and serves them over gRPC" \
      org.opencontainers.image.licenses="Apache-2.0"
# pip compiled the bytecode above; the root file system may be read-only.
ENV PATH=/opt/watchcache/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
COPY --from=build /opt/watchcache /opt/watchcache

# A number, so that Kubernetes can check runAsNonRoot.
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["watchcache-server"]
CMD ["serve"]
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 \
    CMD ["watchcache-server", "health"]
