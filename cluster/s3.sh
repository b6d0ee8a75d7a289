#!/usr/bin/env bash
# s3.sh up|down: an S3 server (versitygw) on 127.0.0.1 at port ${KITH_S3_PORT:-19000}, with the bucket `kith`; its keys are those of
# AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Needs Go once, which builds the server into cluster/lib (a minute or two).
# Its files are in cluster/run/s3-PORT. `up` waits until it answers; `down` removes them.
set -euo pipefail
cd "$(dirname "$0")"
version=v1.8.0
port=${KITH_S3_PORT:-19000}
run=run/s3-$port
server=lib/versitygw-$version/versitygw

down() {
  if [ -f "$run/pid" ]; then
    kill "$(cat "$run/pid")" 2>/dev/null || true
    for _ in $(seq 50); do kill -0 "$(cat "$run/pid")" 2>/dev/null || break; sleep 0.1; done
  fi
  rm -rf "$run"
}

up() {
  if [ ! -x "$server" ]; then
    command -v go > /dev/null || { echo "no go: install Go (Debian's golang-go), which builds the S3 server" >&2; exit 1; }
    GOBIN=$PWD/$(dirname "$server") go install -ldflags '-s -w' "github.com/versity/versitygw/cmd/versitygw@$version"
  fi
  down
  mkdir -p "$run/data/kith"  # a folder is a bucket
  ROOT_ACCESS_KEY=${AWS_ACCESS_KEY_ID:-kith} ROOT_SECRET_KEY=${AWS_SECRET_ACCESS_KEY:-kith-secret} \
    "$server" --port "127.0.0.1:$port" --quiet --health /health posix "$run/data" > "$run/log" 2>&1 < /dev/null &
  echo $! > "$run/pid"
  for _ in $(seq 100); do
    (exec 3<> "/dev/tcp/127.0.0.1/$port") 2>/dev/null && return
    kill -0 "$(cat "$run/pid")" 2>/dev/null || break
    sleep 0.1
  done
  echo "the S3 server does not start:" >&2
  cat "$run/log" >&2
  exit 1
}

"$1"
