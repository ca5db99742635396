# The server for machines without a GPU:  docker build -f docker/cpu.Dockerfile -t sparseagg:0.1.0 .
# Classic instructions only, so that Docker, BuildKit, podman and buildah build it alike. Bases are arguments: pin them by
# digest where you build for others, or name a mirror.
ARG BASE=debian:bookworm-20250520-slim

FROM ${BASE} AS build
ARG PRESET=release
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
RUN cmake --preset ${PRESET} -DSPARSEAGG_CUDA=OFF -DSPARSEAGG_PYTHON=OFF -DSPARSEAGG_TESTS=OFF \
      -DSPARSEAGG_BENCH=OFF \
    && cmake --build build/${PRESET} \
    && cpack -G DEB --config build/${PRESET}/CPackConfig.cmake -B /package

# The image is the Debian package on a bare base: what it needs is what the package depends on.
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
      org.opencontainers.image.description="Exact sums of sparse federated updates" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

# Inside a container's own network; publish the ports only where they should be reached.
ENV SPARSEAGG_LISTEN=0.0.0.0:50061 \
    SPARSEAGG_ADMIN_LISTEN=0.0.0.0:50062 \
    SPARSEAGG_DATA_DIR=/var/lib/sparseagg
USER 10001:10001
EXPOSE 50061 50062
VOLUME /var/lib/sparseagg
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["/usr/bin/sparseagg", "healthcheck", "--admin", "127.0.0.1:50062"]
ENTRYPOINT ["/usr/bin/sparseagg"]
CMD ["serve"]
