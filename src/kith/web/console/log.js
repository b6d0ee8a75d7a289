// The readers of the log with their lag, and dead events to replay or drop.

import { confirmTyping, el, section, table } from "./dom.js";
import { get, send } from "./server.js";
import { moment, number, seconds } from "./words.js";

export async function log(_, again) {
  const found = await get("/console/log");
  return [
    el("h1", {}, "Log"),
    section(
      "Consumers",
      table("Consumers", [["consumer"], ["behind", true], ["oldest", true], ["failing", true], ["dead", true]], found.groups.map((one) => [
        one.name, one.started ? number(one.lagEvents) : "never ran", seconds(one.oldestS), number(one.failing), number(one.dead),
      ])),
    ),
    section(
      "Dead events",
      el("p", {}, "Events that failed too often. Replay one once its cause is gone; drop it to forget it for good."),
      table("Dead events", [["consumer"], ["event"], ["tries", true], ["failed"], ["error"], [""]], found.dead.map((one) => dead(one, again)), "No event is dead."),
    ),
    section(
      "Leases",
      table("Leases", [["kept for"], ["events", true], ["until"], ["state"]], found.leases.map((one) => [
        one.name, number(one.behindEvents), moment(one.until), one.lost ? el("span", { class: "bad" }, "lost") : "kept",
      ]), "Nobody keeps a part of the log."),
    ),
  ];
}

function dead(one, again) {
  const { graph, source, destination, state } = one.event;
  const event = `${graph} ${source} → ${destination}`;
  const path = `/console/dead/${encodeURIComponent(one.group)}/${one.mark}`;
  const replay = async () => {
    await send("POST", `${path}/replay`);
    again();
  };
  const drop = async () => {
    if (!(await confirmTyping(`Forget the event ${event} for good? ${one.group} never handles it.`, "drop"))) return;
    await send("DELETE", path);
    again();
  };
  return [
    one.group, `${event} (${state})`, number(one.tries), moment(one.failedAt), el("code", {}, one.error),
    el(
      "span",
      { class: "line" },
      el("button", { type: "button", onclick: replay, "aria-label": `Replay ${one.group}: ${event}` }, "Replay"),
      el("button", { type: "button", class: "danger", onclick: drop, "aria-label": `Drop ${one.group}: ${event}` }, "Drop"),
    ),
  ];
}
