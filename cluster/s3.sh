#!/usr/bin/env bash
# s3.sh up|down: runs an S3 server (versitygw) on 127.0.0.1 at port ${KITH_S3_PORT:-19000}, with the bucket `kith`; its credentials are
# AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. The first time it needs Go, which builds the server into cluster/lib (a minute or two).
# Its files are in cluster/run/s3-PORT/1. `up` waits until the server answers; `down` stops it and removes its files.
set -euo pipefail
cd "$(dirname "$0")"
. ./servers.sh
version=v1.8.0
port=${KITH_S3_PORT:-19000}
run=run/s3-$port
server=lib/versitygw-$version/versitygw

fetch() {
  [ -x "$server" ] && return
  PATH=$PATH:/usr/local/go/bin
  needs go "Go 1.25 or newer (https://go.dev/dl; Debian's is older), which builds the S3 server"
  GOBIN=$PWD/$(dirname "$server") tried "Building the S3 server by Go" \
    go install -ldflags '-s -w' "github.com/versity/versitygw/cmd/versitygw@$version"
}

up() {
  fetch
  down
  mkdir -p "$run/1/data/kith"  # each folder is a bucket
  ROOT_ACCESS_KEY=${AWS_ACCESS_KEY_ID:-kith} ROOT_SECRET_KEY=${AWS_SECRET_ACCESS_KEY:-kith-secret} \
    started 1 "$server" --port "127.0.0.1:$port" --quiet --health /health posix "$run/1/data"
  until_true 1 "The S3 server" listens
}

listens() { (exec 3<> "/dev/tcp/127.0.0.1/$port"); }

"$@"
