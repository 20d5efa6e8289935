# syntax=docker/dockerfile:1
# One image with every program, static and without a shell. Which one runs is
# the container's entrypoint or command:
#
#   docker build -t chatclub .
#   docker run --rm -p 127.0.0.1:8080:8080 -e HTTP_ADDR=:8080 chatclub   # the whole system
#   docker run --rm chatclub dispatcher -h                               # the settings of one program

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags '-s -w' -o /out/bin/ ./cmd/... ./internal/tools/probe
# A new named volume takes the owner of the folder it is mounted on.
RUN mkdir -p /out/data /out/pages

# CA certificates, /etc/passwd and /tmp; nothing else.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/bin/ /usr/local/bin/
COPY --from=build --chown=nonroot:nonroot /out/data /data
COPY --from=build --chown=nonroot:nonroot /out/pages /pages
WORKDIR /data
USER nonroot:nonroot
ENV PATH=/usr/local/bin
EXPOSE 8080 9090
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 \
    CMD ["probe", "http://127.0.0.1:9090/healthz"]
CMD ["chatclub"]
