# Two images of static programs, without a shell. Which program runs is the
# container's command:
#
#   docker build -t chatclub .                                      # for production
#   docker build -t chatclub-demo --target demo .                   # and all others
#   docker run --rm chatclub dispatcher -h                          # the settings of one program
#   docker run --rm -p 127.0.0.1:8080:8080 -e HTTP_ADDR=:8080 chatclub-demo   # the whole system
#
# `make image` and `make demo-image` fill in VERSION and REVISION, which every
# program tells with -version, in its log and as chatclub_build_info.

FROM --platform=$BUILDPLATFORM golang:1.26 AS source
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
ENV CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH
# A new named volume takes the owner of the folder it is mounted on.
RUN mkdir -p /out/data /out/pages
RUN --mount=type=cache,target=/go/pkg/mod tools/licences ./cmd/... > /out/third-party-licences.txt

# VERSION and REVISION stand last, so that a new one does not fetch modules again.
FROM source AS build
ARG VERSION=dev
ARG REVISION=unknown
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    go build -trimpath -o /out/bin/ \
    -ldflags "-s -w -X chatclub/internal/service.linkedVersion=$VERSION -X chatclub/internal/service.linkedRevision=$REVISION" \
    ./cmd/webhook ./cmd/core ./cmd/dispatcher ./cmd/chatclubctl ./tools/probe

FROM source AS build-demo
ARG VERSION=dev
ARG REVISION=unknown
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    link="-s -w -X chatclub/internal/service.linkedVersion=$VERSION -X chatclub/internal/service.linkedRevision=$REVISION" && \
    go build -trimpath -o /out/bin/ -ldflags "$link" ./cmd/chatclub ./cmd/fakeapi && \
    go build -C loadtest -trimpath -o /out/bin/ -ldflags "$link" ./cmd/loadtest && \
    cd loadtest && ../tools/licences ./cmd/... > /out/third-party-licences-loadtest.txt

# CA certificates, /etc/passwd and /tmp; nothing else. nonroot is 65532.
FROM gcr.io/distroless/static-debian12:nonroot AS base
ENV PATH=/usr/local/bin
WORKDIR /data
USER nonroot:nonroot
EXPOSE 8080 9090
# Images in the OCI's format have no health check, so compose repeats it.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 \
    CMD ["probe", "http://127.0.0.1:9090/healthz"]
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="chatclub" \
      org.opencontainers.image.description="Chat rooms on Facebook Messenger: webhook, core, dispatcher and chatclubctl" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=build --chown=nonroot:nonroot /out/data /data
COPY --from=build --chown=nonroot:nonroot /out/pages /pages
COPY --from=build /out/third-party-licences.txt /src/LICENSE /usr/share/doc/chatclub/
COPY --from=build /out/bin/ /usr/local/bin/

# With the fake platform, the load tests and the whole system in one process.
FROM base AS demo
LABEL org.opencontainers.image.description="chatclub with its fake Messenger and its load tests; not for production"
COPY --from=build-demo /out/third-party-licences-loadtest.txt /usr/share/doc/chatclub/
COPY --from=build-demo /out/bin/ /usr/local/bin/
CMD ["chatclub"]

# The last one is what is built by default.
FROM base AS production
CMD ["chatclubctl", "-h"]
