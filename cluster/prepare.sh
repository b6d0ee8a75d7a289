#!/usr/bin/env bash
# Installs what the engines need on this machine: Java 17, Maven and Redis; then fetches the artifacts with Maven and builds the S3 server
# with Go, which must be installed. Says what it cannot get.
set -euo pipefail
cd "$(dirname "$0")"
. ./servers.sh
PATH=$PATH:/usr/local/go/bin
missing=()
lacks() {  # PACKAGE PROGRAM...: note Debian's PACKAGE as missing, unless one of the programs exists
  local program
  for program in "${@:2}"; do command -v "$program" > /dev/null && return; done
  missing+=("$1")
}
lacks openjdk-17-jre-headless java
[ -d lib/cassandra ] && [ -d lib/kafka ] || lacks maven mvn
lacks redis-server redis-server valkey-server
if [ ${#missing[@]} != 0 ]; then
  [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null || fail "The engines cannot run here: install ${missing[*]}, then run this again."
  apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::http::Timeout=30 -o DPkg::Lock::Timeout=120)
  installed() { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${missing[@]}" > /dev/null; }
  tried "Installing ${missing[*]} by apt-get" installed
fi
for engine in cassandra kafka s3; do ./$engine.sh fetch || fail "The engines cannot run here: see what is said above."; done
