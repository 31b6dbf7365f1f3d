# The draft index. Build from the repository root: docker build -f docker/trie.Dockerfile .
ARG PYTHON_VERSION=3.12

FROM python:${PYTHON_VERSION}-slim-bookworm AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/draftwell
ENV PATH=/opt/draftwell/bin:$PATH
WORKDIR /src
COPY . .
RUN pip install --constraint constraints.txt '.[trie]'
# Compiled for any processor of this architecture: the image moves between machines.
ENV NUMBA_CPU_NAME=generic NUMBA_CACHE_DIR=/opt/draftwell/numba
RUN python docker/warm_trie.py

FROM python:${PYTHON_VERSION}-slim-bookworm
RUN useradd --system --uid 10001 --no-create-home draftwell
COPY --from=build /opt/draftwell /opt/draftwell
# On a read-only root the code is loaded from a copy below /tmp.
COPY --from=build --chown=10001 /opt/draftwell/numba /opt/draftwell/numba
COPY docker/healthcheck.py /opt/draftwell/healthcheck.py
ENV PATH=/opt/draftwell/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    NUMBA_CPU_NAME=generic \
    NUMBA_CACHE_DIR=/opt/draftwell/numba
USER 10001
EXPOSE 50052
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s \
    CMD ["python", "/opt/draftwell/healthcheck.py", "127.0.0.1:50052"]
ENTRYPOINT ["trie-service", "--listen", "0.0.0.0:50052"]
CMD ["--redis", "redis://redis:6379/0"]
