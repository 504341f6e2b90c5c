# GO_IMAGE is any image with Go and a shell: `make image GO_IMAGE=...` builds
# without a registry from the stand-in that .ci/stand-in-image makes.
ARG GO_IMAGE=golang:1.26
FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
# BuildKit sets these two; empty, they mean the builder's own platform.
ARG TARGETOS
ARG TARGETARCH
RUN mkdir -p /out/root/etc/ssl/certs /out/empty \
 && CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} GOFLAGS=-buildvcs=false \
    go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/root/reaperd ./cmd/reaperd \
 && if [ -f /etc/ssl/certs/ca-certificates.crt ]; then \
      cp /etc/ssl/certs/ca-certificates.crt /out/root/etc/ssl/certs/; \
    fi

FROM scratch
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="reaperd" \
      org.opencontainers.image.description="Finds stray sandboxes and reclaims them" \
      org.opencontainers.image.source="https://github.com/reaperd/reaperd" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /out/root/ /
COPY --from=build --chown=65532:65532 /out/empty/ /var/lib/reaperd/
COPY --from=build --chown=65532:65532 /out/empty/ /run/reaperd/
COPY configs/ /etc/reaperd/
# To reach an engine's socket, add the group that owns it:
#   docker run -v /var/run/docker.sock:/var/run/docker.sock \
#     --group-add "$(stat -c %g /var/run/docker.sock)" reaperd
# Whoever can open that socket is root on its machine, whatever the user here.
USER 65532:65532
# Mount a volume there to remember beyond the container's life.
ENV STATE_DIRECTORY=/var/lib/reaperd
# Where its socket is.
ENV RUNTIME_DIRECTORY=/run/reaperd
# Listens on the container's loopback unless REAPERD_HTTP_LISTEN=0.0.0.0:9480.
EXPOSE 9480
ENTRYPOINT ["/reaperd"]
CMD ["run"]
