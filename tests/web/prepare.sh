#!/usr/bin/env bash
# What the tests in a browser need, in the environment named: Playwright, axe, a Chromium. Says what it cannot get.
set -euo pipefail
cd "$(dirname "$0")"
"$1/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
for name in chromium chromium-browser google-chrome; do
  command -v "$name" >/dev/null && exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium && exit 0
fi
echo "No Chromium was found, and it cannot be installed from here: install the package chromium, then run this again." >&2
exit 1
