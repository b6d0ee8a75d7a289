// Latencies: every operation of the last hour, and the curves of the selected one.

import { curve } from "./curve.js";
import { el, section, table } from "./dom.js";
import { ms, number, rate } from "./words.js";

const ORDERS = { calls: (a, b) => b.count - a.count, p99: (a, b) => b.p99Ms - a.p99Ms, failed: (a, b) => b.failed - a.failed };
let order = "calls";

export function operations(history, again) {
  const rows = [...history.latest.operations].sort(ORDERS[order]);
  const chosen = history.operation;
  const choose = (name) => {
    history.clear(name);
    again();
  };
  const orders = el(
    "p",
    { class: "line" },
    "First by",
    ...Object.keys(ORDERS).map((name) => el("button", { type: "button", "aria-pressed": String(name === order), onclick: () => ((order = name), again()) }, name)),
  );
  return [
    el("h1", {}, "Operations"),
    chosen
      ? section(
          chosen,
          el(
            "div",
            { class: "curves" },
            curve("Calls", history.times, [["", history.values("operation_rate")]], rate, history.latest.now),
            curve("Time to answer", history.times, [["p50", history.values("operation_p50_ms")], ["p99", history.values("operation_p99_ms")]], ms, history.latest.now),
          ),
        )
      : el("p", { class: "none" }, "Choose an operation to see its curves."),
    orders,
    table(
      "Operations",
      [["operation"], ["calls", true], ["failed", true], ["p50", true], ["p99", true]],
      rows.map((row) => [
        el("button", { type: "button", class: "link", onclick: () => choose(row.name) }, row.name),
        number(row.count), number(row.failed), ms(row.p50Ms), ms(row.p99Ms),
      ]),
      "Nothing was called in the last hour.",
    ),
  ];
}
