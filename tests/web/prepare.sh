#!/usr/bin/env bash
# prepare.sh ENVIRONMENT: installs what the tests in a browser need into a virtual environment: Playwright, axe, and a
# Chromium that starts. Says what it cannot get.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$1/bin/python
cannot() {
  echo "The tests in a browser cannot run here: $1" >&2
  exit 1
}
"$python" -m pip install --quiet --disable-pip-version-check --require-hashes -r tests/web/requirements.txt ||
  cannot "Playwright cannot be installed."
"$python" -m bench.browser 2>/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=1 -o Acquire::http::Timeout=30 -o DPkg::Lock::Timeout=120)
  "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends chromium >/dev/null || echo "apt-get could not install chromium." >&2
fi
"$python" -m bench.browser || cannot "install the package chromium, then run this again."
