// Background work: bulk jobs, audits.

import { el, section, table } from "./dom.js";
import { get, send } from "./server.js";
import { ago, moment, number } from "./words.js";

export async function tasks(_, again) {
  const [jobs, audit] = await Promise.all([get("/console/jobs"), get("/console/audit")]);
  const start = async () => {
    await send("POST", "/console/audit");
    again();
  };
  return [
    el("h1", {}, "Tasks"),
    section(
      "Audit",
      el("p", {}, "Reads every edge and checks that both ends and every count agree. It runs beside the service and repairs nothing; ", el("code", {}, "kith audit --repair"), " does."),
      el("p", { class: "line" }, el("button", { type: "button", disabled: audit.state === "running", onclick: start }, "Run an audit"), state(audit)),
      audit.error ? el("pre", { class: "bad" }, audit.error) : null,
      audit.state === "done" ? report(audit.graphs) : null,
    ),
    section(
      "Jobs",
      table("Jobs", [["job"], ["what"], ["user"], ["edges", true], ["state"]], jobs.items.map((one) => [one.id, one.operation, one.node, number(one.edges), one.done ? "done" : "runs"]), "No job ran within a day."),
      jobs.count > jobs.items.length ? el("p", {}, `The first ${jobs.items.length} of ${number(jobs.count)}.`) : null,
    ),
  ];
}

function state(audit) {
  switch (audit.state) {
    case "running":
      return el("span", { role: "status" }, `runs since ${ago(audit.began)}: ${number(audit.edges)} edges`);
    case "done":
      return el("span", { role: "status" }, `done ${moment(audit.ended)}, ${number(audit.edges)} edges in ${number((audit.ended - audit.began) / 1000)} s`);
    case "failed":
      return el("span", { role: "status", class: "bad" }, "it failed");
    default:
      return el("span", { role: "status" }, "none ran yet");
  }
}

function report(graphs) {
  const wrong = (one) => one.disagreeing + one.strays + one.wrongCounts;
  const rows = graphs
    .filter((one) => one.edges || wrong(one))
    .map((one) => [one.graph, number(one.edges), number(one.disagreeing), number(one.strays), number(one.wrongCounts), one.examples.join(", ") || el("span", { class: "good" }, "agrees")]);
  return table("Report", [["graph"], ["edges", true], ["disagreeing", true], ["strays", true], ["wrong counts", true], [""]], rows, "There are no edges.");
}
