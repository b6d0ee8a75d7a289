// A curve of the last hour, or of the known part of it, drawn as SVG. Missing samples leave a gap.

import { el } from "./dom.js";
import { clock } from "./words.js";

const NS = "http://www.w3.org/2000/svg";
const WIDTH = 360;
const HEIGHT = 90;
const HOUR = 3_600_000;
const LEAST = 600_000;

function svg(tag, attributes, ...children) {
  const made = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Draw curves. `lines`: [label, values] rows; `shown`: formats a value. */
export function curve(title, times, lines, shown, now = Date.now()) {
  const last = lines.map(([label, values]) => `${label ? label + " " : ""}${shown(values.at(-1) ?? null)}`).join(" · ");
  const known = lines.flatMap(([, values]) => values.filter((value) => value !== null && value !== undefined));
  const most = Math.max(...known, 0);
  const span = Math.min(HOUR, Math.max(LEAST, now - (times[0] ?? now)));
  const x = (at) => WIDTH * (1 - (now - at) / span);
  const y = (value) => HEIGHT - 3 - (most ? (value / most) * (HEIGHT - 8) : 0);
  const drawn = lines.map(([, values], at) => svg("path", { d: path(times, values, x, y), class: `curve c${at}` }));
  const ruler = svg("line", { y1: 0, y2: HEIGHT, class: "ruler", visibility: "hidden" });
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: now ${last}; at most ${shown(known.length ? most : null)}` },
    svg("line", { x1: 0, x2: WIDTH, y1: HEIGHT - 2, y2: HEIGHT - 2, class: "axis" }),
    ...drawn,
    ruler,
  );
  const says = el("span", { class: "now" }, last);
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const at = now - span * (1 - (event.clientX - box.left) / box.width);
    const nearest = times.reduce((best, time, index) => (Math.abs(time - at) < Math.abs(times[best] - at) ? index : best), 0);
    if (!times.length) return;
    ruler.setAttribute("x1", x(times[nearest]));
    ruler.setAttribute("x2", x(times[nearest]));
    ruler.setAttribute("visibility", "visible");
    says.textContent = `${clock(times[nearest])}: ` + lines.map(([label, values]) => `${label ? label + " " : ""}${shown(values[nearest] ?? null)}`).join(" · ");
  });
  picture.addEventListener("pointerleave", () => {
    ruler.setAttribute("visibility", "hidden");
    says.textContent = last;
  });
  return el("figure", {}, el("figcaption", {}, el("b", {}, title), says), picture, el("small", {}, `most ${shown(known.length ? most : null)} · ${Math.round(span / 60_000)} minutes`));
}

function path(times, values, x, y) {
  let drawn = "";
  let pen = false;
  times.forEach((at, index) => {
    const value = values[index];
    if (value === null || value === undefined) {
      pen = false;
      return;
    }
    drawn += `${pen ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    if (!pen) drawn += "h0.01"; // a single sample shows as a dot
    pen = true;
  });
  return drawn;
}
