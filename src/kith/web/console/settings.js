// The settings in force; those that were set come first.

import { el, table } from "./dom.js";
import { get } from "./server.js";

export async function settings() {
  const { items } = await get("/console/settings");
  const set = (one) => one.source !== "default";
  const rows = [...items.filter(set), ...items.filter((one) => !set(one))];
  return [
    el("h1", {}, "Settings"),
    el("p", {}, "As the running processes were started. A change takes effect when Kith is started again."),
    table("Settings", [["setting"], ["value"], ["from"], ["default"], ["meaning"]], rows.map((one) => [
      el("code", {}, one.name), one.value, set(one) ? el("b", {}, one.source) : "default", one.default, one.meaning,
    ])),
  ];
}
