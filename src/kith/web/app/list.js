/**
 * A list without end that keeps at most NODES_MAX of its items in the page, however far one scrolls.
 *
 * Items stand in groups of two. Groups near the window are drawn, one a frame so that scrolling stays smooth, those in it
 * first; those far from it are taken out, and a blank of their height stands for them. The next page is fetched before it
 * is needed.
 */

import { heed, sessionEvents } from "./session.js";
import { explained } from "./telling.js";
import { button, counted, h } from "./dom.js";

const GROUP = 2;
const NODES_MAX = 200;
const DRAW_PX = 900;
const KEEP_PX = 1_500;
const GUESS_PX = 400;
/** Pages in a row that may be empty, as the server allows, before the reader is asked to go on. */
const EMPTY_MAX = 10;
/** A page that takes longer than this is said to be on its way. */
const SLOW_MS = 1_500;

export class EndlessList extends HTMLElement {
  #load;
  #draw;
  #ahead;
  #empty;
  #groups = []; // { items, height, node }: `node` while it is drawn
  #ids = new Set();
  #cursor;
  #more = true;
  #loading = null;
  #generation = 0;
  #above = h("div", { class: "blank" });
  #below = h("div", { class: "blank" });
  #end = h("div", { class: "list-end" });
  #frame = 0;
  #look = () => (this.#frame ||= requestAnimationFrame(() => this.#show()));

  /**
   * `load(cursor)`: a page, { items, pagination }; `draw(item)`: its element; `ahead(items)`: told of what was fetched;
   * `empty`: what to say, or show, where there is nothing. Items have an `id`, and each id stands there once, though the
   * list changes between two pages.
   */
  constructor({ load, draw, ahead, empty = "Nothing here yet." }) {
    super();
    this.#load = load;
    this.#draw = draw;
    this.#ahead = ahead;
    this.#empty = empty;
  }

  connectedCallback() {
    if (!this.#end.isConnected) this.append(this.#above, this.#below, this.#end);
    addEventListener("scroll", this.#look, { passive: true, capture: true }); // also of a dialog that it is in
    addEventListener("resize", this.#look, { passive: true });
    if (this.#groups.length === 0) this.#fetch();
    else this.#look();
  }

  disconnectedCallback() {
    removeEventListener("scroll", this.#look, { capture: true });
    removeEventListener("resize", this.#look);
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
  }

  /** Begin anew. */
  reload() {
    for (const group of this.#groups) group.node?.remove();
    this.#groups = [];
    this.#ids.clear();
    this.#cursor = undefined;
    this.#more = true;
    this.#loading = null;
    this.#generation++;
    this.#end.replaceChildren();
    return this.#fetch();
  }

  /** Put items in front. */
  prepend(items) {
    const fresh = this.#fresh(items);
    if (fresh.length === 0) return;
    this.#groups.unshift({ items: fresh, height: GUESS_PX, node: null });
    this.#end.replaceChildren();
    this.#look();
  }

  /** How many items are in the page. */
  get drawn() {
    return this.#groups.reduce((sum, group) => sum + (group.node === null ? 0 : group.items.length), 0);
  }

  #fresh(items) {
    const fresh = items.filter(({ id }) => !this.#ids.has(id));
    for (const { id } of fresh) this.#ids.add(id);
    return fresh;
  }

  async #fetch() {
    const generation = this.#generation;
    this.ariaBusy = "true";
    if (this.#groups.length === 0) this.#end.replaceChildren(...placeholders());
    const slow = setTimeout(() => this.#groups.length && this.#end.replaceChildren(quiet("More is on its way…")), SLOW_MS);
    try {
      for (let tries = 0; this.#more && tries < EMPTY_MAX; tries++) {
        this.#loading = this.#load(this.#cursor);
        const { items, pagination } = await this.#loading;
        if (generation !== this.#generation) return;
        this.#cursor = pagination.nextCursor;
        this.#more = pagination.hasMore && this.#cursor !== null;
        const fresh = this.#fresh(items);
        for (let at = 0; at < fresh.length; at += GROUP)
          this.#groups.push({ items: fresh.slice(at, at + GROUP), height: GUESS_PX, node: null });
        if (fresh.length > 0) {
          this.#ahead?.(fresh);
          break;
        }
      }
      this.#sayEnd();
    } catch (error) {
      if (generation === this.#generation) this.#sayFailure(error);
    } finally {
      clearTimeout(slow);
      if (generation === this.#generation) {
        this.#loading = null;
        this.ariaBusy = "false";
        this.#look();
      }
    }
  }

  #sayEnd() {
    if (this.#groups.length === 0) this.#end.replaceChildren(this.#empty instanceof Node ? this.#empty : h("p", { class: "quiet" }, this.#empty));
    else this.#end.replaceChildren(quiet(this.#more ? "" : "That is all."));
  }

  /** A page that cannot be had: what is there stays, and one may go on from there. */
  #sayFailure(error) {
    heed(error);
    if (error.code === "CURSOR_INVALID") this.#cursor = undefined; // of before the server was restored: begin again, without repeats
    this.#more = true;
    const again = button("Try again", () => (this.#end.replaceChildren(), this.#fetch()));
    const waits = error.code === "RATE_LIMITED" && error.retryAfter;
    const said = waits ? `That was a lot in a short time. More comes by itself in ${counted(Math.ceil(waits), "second")}.` : explained(error);
    const note = h("div", { class: "quiet", role: "alert" }, h("p", {}, said), again);
    this.#end.replaceChildren(note);
    const goOn = () => note.parentNode && again.click();
    if (waits) setTimeout(goOn, 1_000 * waits);
    if (error.code === "UNAUTHORIZED") sessionEvents.addEventListener("renewed", goOn, { once: true });
  }

  /** Draw what is near, take out what is far, fetch what comes. */
  #show() {
    this.#frame = 0;
    if (!this.isConnected) return;
    for (const group of this.#groups) if (group.node) group.height = group.node.offsetHeight;
    const top = this.getBoundingClientRect().top;
    let [y, drawn] = [top, this.drawn];
    let next = null;
    for (const group of this.#groups) {
      const [from, to] = [y, y + group.height];
      y = to;
      if (group.node && (to < -KEEP_PX || from > innerHeight + KEEP_PX)) {
        group.node.remove();
        group.node = null;
        drawn -= group.items.length;
      } else if (!group.node && to > -DRAW_PX && from < innerHeight + DRAW_PX) {
        const visible = to > 0 && from < innerHeight;
        if (next === null || (visible && !next.visible)) next = { group, visible };
      }
    }
    const again = next !== null && drawn + next.group.items.length <= NODES_MAX;
    if (again) next.group.node = h("div", { class: "group" }, next.group.items.map((item) => this.#article(item)));
    this.#place();
    this.role = this.drawn > 0 ? "feed" : null; // a feed has articles
    if (again) this.#look();
    else if (this.#more && !this.#loading && !this.#end.querySelector("[role=alert]") && y < innerHeight * 3 + DRAW_PX) this.#fetch();
  }

  /** Groups in their order, with blanks for those that are not drawn. */
  #place() {
    const first = this.#groups.findIndex((group) => group.node);
    const last = this.#groups.findLastIndex((group) => group.node);
    let [above, below, after] = [0, 0, this.#above];
    this.#groups.forEach((group, at) => {
      if (group.node) {
        if (after.nextSibling !== group.node) after.after(group.node);
        after = group.node;
      } else if (first === -1 || at > last) below += group.height;
      else if (at < first) above += group.height;
    });
    this.#above.style.height = `${above}px`;
    this.#below.style.height = `${below}px`;
  }

  #article(item) {
    const element = this.#draw(item);
    element.ariaSetSize = "-1";
    return element;
  }
}
customElements.define("kith-list", EndlessList);

function quiet(text) {
  return h("p", { class: "quiet" }, text);
}

function placeholders() {
  return [1, 2, 3].map(() => h("div", { class: "placeholder", "aria-hidden": "true" }));
}
