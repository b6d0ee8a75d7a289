# Functions that the engines' scripts share and source. A script sets `run`; every server has a folder in it with its `pid`, its `log` and
# its data. `down` deletes it.

fail() {  # SENTENCE
  echo "$1" >&2
  exit 1
}

needs() {  # PROGRAM HOW-TO-GET-IT
  command -v "$1" > /dev/null || fail "no $1: install $2"
}

tried() {  # WHAT COMMAND...: run the command up to three times, because the network may fail
  local pause
  for pause in 10 30; do
    "${@:2}" && return
    echo "$1 failed; tried again in $pause s." >&2
    sleep "$pause"
  done
  "${@:2}" || fail "$1 failed three times; its errors are above."
}

fetched() {  # ENGINE: fetch the published artifacts of ENGINE.pom.xml into lib/ENGINE
  [ -d "lib/$1" ] && return
  needs mvn "Maven (Debian's maven), which fetches $1"
  rm -rf "lib/$1.part"
  tried "Fetching $1 by Maven" \
    mvn --quiet --batch-mode --file "$1.pom.xml" dependency:copy-dependencies -DoutputDirectory="$PWD/lib/$1.part"
  mv "lib/$1.part" "lib/$1"
}

started() {  # NODE COMMAND...: start a server in the background, with its output in its log
  local here=$run/$1
  "${@:2}" > "$here/log" 2>&1 < /dev/null &
  echo $! > "$here/pid"
}

until_true() {  # NODE ENGINE COMMAND...: wait until the command succeeds; fails if the server stops, or after 3 minutes
  local here=$run/$1
  for _ in $(seq 1800); do
    "${@:3}" > /dev/null 2>&1 && return
    kill -0 "$(cat "$here/pid")" 2> /dev/null || break
    sleep 0.1
  done
  tail -20 "$here/log" >&2
  fail "$2's node $1 does not start; the end of its log is above."
}

down() {  # kill -9: the servers' data is deleted anyway
  local pid
  for pid in "$run"/*/pid; do [ -f "$pid" ] && kill -9 "$(cat "$pid")" 2> /dev/null || true; done
  for pid in "$run"/*/pid; do
    [ -f "$pid" ] || continue
    for _ in $(seq 100); do kill -0 "$(cat "$pid")" 2> /dev/null || break; sleep 0.1; done
  done
  rm -rf "$run"
}
