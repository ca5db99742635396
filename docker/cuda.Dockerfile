# The server for NVIDIA GPUs:  docker build -f docker/cuda.Dockerfile -t sparseagg:0.1.0-cuda .
#   docker run --gpus 1 -e SPARSEAGG_ALLOW_PLAINTEXT=true -v sparseagg:/var/lib/sparseagg sparseagg:0.1.0-cuda
# As cpu.Dockerfile; the CUDA runtime is linked statically and the driver comes from the NVIDIA container runtime, so that
# the runtime base needs no toolkit. The host's driver must be R580 or newer, as CUDA 13 needs it.
ARG BUILD_BASE=nvidia/cuda:13.0.1-devel-ubuntu24.04
ARG BASE=nvidia/cuda:13.0.1-base-ubuntu24.04

FROM ${BUILD_BASE} AS build
ARG PRESET=release
# What it runs on as machine code; newer ones through PTX. 80 A100, 86 and 89 workstations, 90 H100 and H200, 100 B200.
ARG ARCHITECTURES=80-real;86-real;89-real;90-real;100-real;100-virtual
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      ca-certificates ccache cmake dpkg-dev file g++ gzip ninja-build pkg-config python3 libabsl-dev libboost-dev libcli11-dev \
      libcpp-httplib-dev libgoogle-perftools-dev libgrpc++-dev libhwy-dev libisal-dev libprotobuf-dev libspdlog-dev \
      libsqlite3-dev libssl-dev libtbb-dev libxxhash-dev libzip-dev nlohmann-json3-dev prometheus-cpp-dev protobuf-compiler \
      protobuf-compiler-grpc zlib1g-dev \
    && rm -rf /var/lib/apt/lists/*
# As on most machines: the compiler's cache, where docker/test mounts one, tells locales apart.
ENV LANG=C.UTF-8
WORKDIR /src
COPY . .
RUN cmake --preset ${PRESET} -DSPARSEAGG_CUDA=ON "-DCMAKE_CUDA_ARCHITECTURES=${ARCHITECTURES}" -DSPARSEAGG_TESTS=OFF \
      -DSPARSEAGG_PYTHON=OFF -DSPARSEAGG_BENCH=OFF \
    && cmake --build build/${PRESET} \
    && cpack -G DEB --config build/${PRESET}/CPackConfig.cmake -B /package

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
RUN groupadd --gid 10001 sparseagg \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin sparseagg
COPY --from=build /package/*.deb /package/
COPY docker/sbom /package/
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends /package/*.deb \
    && /package/sbom > /usr/share/doc/sparseagg/sbom.spdx.json \
    && rm -rf /package /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/* /var/log/*

LABEL org.opencontainers.image.title="sparseagg" \
      org.opencontainers.image.description="Exact sums of sparse federated updates, on NVIDIA GPUs" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

ENV SPARSEAGG_LISTEN=0.0.0.0:50061 \
    SPARSEAGG_ADMIN_LISTEN=0.0.0.0:50062 \
    SPARSEAGG_DATA_DIR=/var/lib/sparseagg \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 10001:10001
EXPOSE 50061 50062
VOLUME /var/lib/sparseagg
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["/usr/bin/sparseagg", "healthcheck", "--admin", "127.0.0.1:50062"]
ENTRYPOINT ["/usr/bin/sparseagg"]
CMD ["serve"]
