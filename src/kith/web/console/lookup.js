// Looks up anything by its id: as it is stored, as a viewer sees it, and its labels.

import { confirmTyping, el, form, section, table } from "./dom.js";
import { get, send } from "./server.js";
import { moment, number } from "./words.js";

const LABELS = ["hide", "limit", "sensitive"];
const SEEN = { post: "/api/v1/posts/", user: "/api/v1/users/", story: "/api/v1/stories/" };
const json = (value) => el("pre", { tabindex: "0" }, JSON.stringify(value, null, 2));
const id = { inputmode: "numeric", pattern: "0|[1-9][0-9]{0,18}", required: true, size: 20 };

export function lookup() {
  const result = el("div", { "aria-live": "polite" });
  const show = async (finding) => {
    try {
      result.replaceChildren(...(await finding()));
    } catch (error) {
      result.replaceChildren(el("p", { class: "bad" }, error.message));
    }
  };
  return [
    el("h1", {}, "Look up"),
    section("As stored", form([["id", "Id of a user, post, comment, story, picture", id]], "Show", (values) => show(() => stored(values.id)))),
    section(
      "An edge, both ends",
      form([["graph", "Graph", { required: true, value: "follows" }], ["source", "From", id], ["destination", "To", id]], "Show", (values) => show(() => edge(values))),
    ),
    section(
      "As somebody sees it",
      form(
        [["kind", "Kind", { options: Object.keys(SEEN) }], ["id", "Id", id], ["viewer", "Seen by (id of a user; system; empty: a visitor)", { pattern: "0|[1-9][0-9]{0,18}|system" }]],
        "Show",
        (values) => show(async () => [section(`As ${values.viewer || "a visitor"} sees it`, json(await get(SEEN[values.kind] + values.id, { viewer: values.viewer })))]),
      ),
    ),
    section("A post on its way", form([["id", "Id of a post", id]], "Follow it", (values) => show(() => spread(values.id)))),
    section("Labels", form([["kind", "Kind", { options: ["post", "user"] }], ["id", "Id", id]], "Show", (values) => show(() => labels(values, show)))),
    result,
  ];
}

async function stored(which) {
  const found = await get(`/console/stored/${which}`);
  const lists = found.lists.map((one) => [one.graph, one.direction, one.state, number(one.count)]);
  return [
    section(`${found.id}, as stored`, el("p", {}, `Node: ${found.state}${found.private ? ", private" : ""}; labels ${found.labels}.`)),
    ...found.records.map((one) => section(`${one.kind}, version ${one.version}`, el("p", {}, `changed ${moment(one.changedAt)}`), json(one.data))),
    found.records.length ? null : el("p", { class: "none" }, "No record has this id."),
    section("Lists", table("Lists", [["graph"], ["direction"], ["state"], ["edges", true]], lists, "All of its lists are empty.")),
  ].filter(Boolean);
}

async function edge({ graph, source, destination }) {
  const found = await get(`/console/stored/${encodeURIComponent(graph)}/${source}/${destination}`);
  const ends = (one) => (one.inOutList && one.inInList ? "both agree with the row" : `out list ${one.inOutList ? "agrees" : "differs"}, in list ${one.inInList ? "agrees" : "differs"}`);
  const rows = [["there", found.edge], ["back", found.opposite]].map(([name, one]) =>
    one ? [name, `${one.source} → ${one.destination}`, one.state, one.position, `${one.updatedAt} (${moment(one.changedAt)})`, ends(one)] : [name, "no row", "", "", "", ""],
  );
  return [section(`${graph}, as stored`, table("The edge", [["", false], ["edge"], ["state"], ["position", true], ["version"], ["lists"]], rows))];
}

/** How a post spread: through the log, to timelines, and its mentions tier by tier. */
async function spread(which) {
  const found = await get(`/console/spread/${which}`);
  const withheld = found.withheldRate ? " Some timelines leave its author out: those homes read the author's posts when they are asked for." : "";
  const failed = found.failures ? `, ${number(found.failures)} failures` : "";
  const rows = found.mentions.flatMap((one) => {
    if (one.notice === null) return [[one.account, "not told", "", "", "", "", ""]];
    if (!one.tiers.length) return [[one.account, "told; no follower to tell", "", "", "", "", ""]];
    return one.tiers.map((tier) => [
      one.account, `${tier.tier}: ${tier.state}`, tier.state === "ended" ? "" : `${number(tier.done)} of ${number(tier.chunks)}`,
      number(tier.told), number(tier.suppressed), number(tier.left), number(tier.dead),
    ]);
  });
  return [
    section(
      `${found.post} on its way`,
      el("p", {}, `By ${found.author}, made ${moment(found.madeAt)}, ${found.deleted ? "deleted" : `for ${found.visibility}`}; ${number(found.followers)} followers.`),
      table("Readers of the log", [["consumer"], ["state"]], found.consumers.map((one) => [one.name, one.state])),
      el("p", {}, `Delivery to timelines: ${found.delivery}${failed}.${withheld}`),
    ),
    section("Its mentions", table("Mentions", [["account"], ["tier"], ["chunks", true], ["told", true], ["not wanted", true], ["left", true], ["dead", true]], rows, "It mentions nobody.")),
  ];
}

async function labels({ kind, id: which }, show) {
  const path = `/api/v1/labels/${kind}/${which}`;
  const found = await get(path);
  const set = async (values) => {
    const chosen = LABELS.filter((name) => values[name]);
    if (!(await confirmTyping(`The ${kind} ${which} has from now on: ${chosen.join(", ") || "no label"}.`, which))) return;
    await show(async () => {
      await send("PUT", path, { body: { labels: chosen, reason: values.reason } });
      return labels({ kind, id: which }, show);
    });
  };
  const boxes = LABELS.map((name) => [name, name, { type: "checkbox", checked: found.labels.includes(name) }]);
  return [
    section(
      `Labels of ${kind} ${which}`,
      el("p", {}, found.changedAt ? `Set ${moment(found.changedAt)}.` : "Never set."),
      form([...boxes, ["reason", "Reason (no user is notified)", { value: found.reason, size: 40 }]], "Set", set),
    ),
  ];
}
