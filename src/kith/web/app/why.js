/** Explains the rank of a post in home: what each part adds to its score, as bars. */

import { failed } from "./acting.js";
import { dialog, h } from "./dom.js";
import { session } from "./session.js";

const NAMES = { recency: "It is new", affinity: "You and its author", velocity: "Many like it", type: "A kind you like" };
const EXCLUDED = { not_followed: "you do not follow its author", muted: "you muted its author", hidden: "you hid it", seen: "you saw it" };

/** Show the explanation. */
export async function showWhy(id) {
  try {
    const why = await session.kith.whyPost(id);
    dialog("Why am I seeing this?", () => [table(why), ...notes(why)]);
  } catch (error) {
    failed(error);
  }
}

function table({ parts, score }) {
  const most = Math.max(...parts.map(({ adds }) => adds), 0.01);
  const rows = parts.map(({ name, adds }) => {
    const bar = h("div", { class: "bar" });
    bar.style.width = `${(Math.max(0, adds) / most) * 100}%`;
    return h("tr", {}, h("th", { scope: "row" }, NAMES[name] ?? name.replaceAll("_", " ")), h("td", { class: "grow" }, bar), h("td", {}, adds.toFixed(2)));
  });
  const sum = h("tr", {}, h("th", { scope: "row" }, "Score"), h("td"), h("td", {}, h("strong", {}, score.toFixed(2))));
  return h("table", { class: "why" }, h("tbody", {}, rows, sum));
}

function notes({ damping, excludedBy, copyOf }) {
  const said = [];
  if (damping < 1) said.push(`Its score counts ${Math.round(damping * 100)} %, as you asked to see fewer of its author or the app limits it.`);
  if (excludedBy.length > 0) said.push(`It would not be at home now: ${excludedBy.map((one) => EXCLUDED[one] ?? one).join(", ")}.`);
  if (copyOf) said.push("It is a copy of another post.");
  return said.map((text) => h("p", { class: "note" }, text));
}
