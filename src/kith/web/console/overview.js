// Overview of the server's health: findings first, then the curves.

import { curve } from "./curve.js";
import { el, section, table } from "./dom.js";
import { get } from "./server.js";
import { ago, bytes, ms, number, rate, seconds } from "./words.js";

const LAG_S = 30;
const BACKUP_AGE_S = 172_800;
const DRILL_AGE_S = 30 * 86_400;
const FAILED_SHARE = 0.01;
const DISK_LEFT = 2 ** 30;
const KNOWN = [
  ["Requests", [["", "requests_rate"]], rate],
  ["Time to answer", [["p50", "requests_p50_ms"], ["p99", "requests_p99_ms"]], ms],
  ["Answers of 500 and above, in 10 s", [["", "requests_failed"]], number],
  ["Writes", [["", "writes_rate"]], rate],
  ["Time of a commit", [["p50", "commits_p50_ms"], ["p99", "commits_p99_ms"]], ms],
  ["Writes a commit", [["", "writes_per_commit"]], number],
  ["Writes that wait", [["", "commit_queue_depth"]], number],
  ["Store", [["", "store_bytes"]], bytes],
  ["Log", [["", "log_bytes"]], bytes],
  ["Media, measured every 6 h", [["", "media_bytes"]], bytes],
  ["Media more than a day before", [["", "media_bytes_per_day"]], bytes],
  ["Disk left", [["", "disk_free_bytes"]], bytes],
  ["Timelines kept ready", [["", "timelines"]], number],
  ["Streams", [["", "streams"]], number],
  ["Watchers", [["", "watchers"]], number],
  ["Age of what streams are sent", [["", "stream_lag_seconds"]], seconds],
];
const HIDDEN = new Set(["commits_rate", "log_sequence", "rival_primary", "operation_rate", "operation_p50_ms", "operation_p99_ms"]);

/** Problems, worst first, as [severity, text] rows. Pure: from the last sample and the processes. */
export function findings(history, now = history.latest.now) {
  const found = [];
  const value = (name) => history.last(name) ?? 0;
  const reported = history.names().filter((name) => name.endsWith("_dead_events") && history.last(name) !== null); // now: the hour may have begun in another role
  const groups = reported.map((name) => name.slice(0, -"_dead_events".length));
  const standby = !groups.length; // a standby runs no workers
  const running = new Set(history.latest.processes.filter((one) => one.running).flatMap((one) => one.kind.split("+"))); // one process may follow the log for several
  for (const group of groups) {
    if (!running.has(group)) found.push(["bad", `No worker of ${group} runs. What it does waits until one is back.`]);
    const dead = value(`${group}_dead_events`);
    if (dead) found.push(["bad", `${number(dead)} dead events of ${group} wait for you: see Log.`]);
    const lag = history.last(`${group}_lag_oldest_seconds`);
    if (value(`${group}_lag_events`) && (lag === null || lag > LAG_S)) {
      found.push(["bad", `${group} is ${number(value(`${group}_lag_events`))} events behind${lag === null ? "" : `, the oldest of ${seconds(lag)}`}.`]);
    }
    if (value(`${group}_failed_events`)) found.push(["warn", `${number(value(`${group}_failed_events`))} events of ${group} failed and are tried again.`]);
  }
  const rateNow = value("requests_rate");
  if (value("requests_failed") > FAILED_SHARE * rateNow * 10) found.push(["bad", `${number(value("requests_failed"))} requests failed in the last 10 s.`]);
  if (value("log_leases_lost")) found.push(["bad", `${number(value("log_leases_lost"))} readers lost their place in the log: see Log.`]);
  if (value("backup_failing")) found.push(["bad", "Backups fail: the log of kith serve says why."]);
  if (value("backup_age_seconds") > BACKUP_AGE_S) found.push(["bad", `The last backup was ${ago(now - value("backup_age_seconds") * 1000, now)}.`]);
  if (value("backup_drill_failed")) found.push(["bad", "The last drill of the backup failed: it is not good."]);
  if (history.names().includes("backup_drill_age_seconds") && !standby) {
    const drilled = history.last("backup_drill_age_seconds"); // null: there was no drill
    if (drilled === null) found.push(["warn", "The backup was never tried: kith restore PLACE --drill, on another machine."]);
    else if (drilled > DRILL_AGE_S) found.push(["warn", `The backup was last tried ${ago(now - drilled * 1000, now)}: kith restore PLACE --drill.`]);
  }
  if (value("rival_primary")) found.push(["bad", "Another machine is the primary, too: /readyz and kith doctor say what to do."]);
  if (standby && history.names().includes("standby_behind_seconds") && history.last("standby_behind_seconds") === null) {
    found.push(["bad", "This standby has not caught up since its start: /readyz says why."]); // null: infinite
  }
  if (value("standby_behind_seconds") > LAG_S) found.push(["bad", `This standby is ${seconds(value("standby_behind_seconds"))} behind its primary.`]);
  if (history.last("disk_free_bytes") !== null && value("disk_free_bytes") < DISK_LEFT) found.push(["bad", `Only ${bytes(value("disk_free_bytes"))} are left on the disk.`]);
  for (const one of history.latest.processes.filter((one) => !one.running).slice(0, 5)) {
    found.push(["warn", `Process ${one.pid} (${one.kind}) ended ${ago(one.seen, now)}.`]);
  }
  return found;
}

export async function overview(history) {
  const quotas = (await get("/console/quotas")).items;
  const full = new Set(quotas.filter((one) => one.used >= one.limit).map((one) => one.user)).size;
  const found = findings(history);
  if (full) found.push(["warn", `${number(full)} ${full === 1 ? "user is" : "users are"} at the limit of a quota: see below.`]);
  const times = history.times;
  const shown = KNOWN.map(([title, lines, words]) => [title, lines.map(([label, name]) => [label, history.values(name)]), words]);
  const named = new Set(KNOWN.flatMap(([, lines]) => lines.map(([, name]) => name)));
  const others = history.names().filter((name) => !named.has(name) && !HIDDEN.has(name));
  const wordsOf = (name) => (name.endsWith("_bytes") ? bytes : name.endsWith("_seconds") ? seconds : number);
  const drawn = (all) => el("div", { class: "curves" }, ...all.map(([title, lines, words]) => curve(title, times, lines, words, history.latest.now)));
  return [
    el("h1", {}, found.some(([how]) => how === "bad") ? "Something is wrong" : "It is well"),
    el("ul", { class: "findings" }, ...(found.length ? found : [["good", "Nothing waits and nothing is lost."]]).map(([how, words]) => el("li", { class: how }, words))),
    times.length ? null : el("p", { class: "none" }, "The first sample comes within 10 seconds."),
    section("The last hour", drawn(shown)),
    section("Consumers and the log", drawn(others.map((name) => [name.replaceAll("_", " "), [["", history.values(name)]], wordsOf(name)]))),
    section(
      "Quotas near their limit",
      table("Quotas", [["quota"], ["user", true], ["used", true], ["of", true], ["in"]], quotas.map((one) => [one.quota, one.user, number(one.used), number(one.limit), seconds(one.windowS)]), "Nobody who comes by token has used four fifths of one."),
    ),
    section(
      "Processes",
      table("Processes", [["kind"], ["process", true], ["state"], ["heard"]], history.latest.processes.map((one) => [
        one.kind, String(one.pid), el("span", { class: one.running ? "good" : "warn" }, one.running ? "runs" : "ended"), ago(one.seen, history.latest.now),
      ])),
    ),
  ];
}
