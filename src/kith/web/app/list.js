/**
 * An endless, virtualized list: it keeps at most NODES_MAX of its items in the page, however far one scrolls.
 *
 * Items near the window are drawn, few per frame so that scrolling stays smooth: two that are visible, else one near the
 * window. Items far from the window are removed; a blank element keeps their height. The next page is fetched before it is
 * needed.
 */

import { h } from "./dom.js";
import { retryNote } from "./messages.js";

const NODES_MAX = 200;
/** Most visible items that are drawn in one frame, for example after a jump. */
const SEEN_A_FRAME = 2;
const DRAW_PX = 900;
const KEEP_PX = 1_500;
const GUESS_PX = 200;
/** Consecutive empty pages, which the server may send, before the user must ask for more. */
const EMPTY_MAX = 10;
/** After this many ms of loading, a note says that more is on its way. */
const SLOW_MS = 1_500;

export class EndlessList extends HTMLElement {
  #load;
  #draw;
  #ahead;
  #empty;
  #places = []; // { item, height, node }: `node` while it is drawn
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
   * `load(cursor)`: gives a page, { items, pagination }. `draw(item)`: gives its element. `ahead(items)`: called with
   * fetched items before they are drawn. `empty`: text or element for an empty list. Items have an `id`; each id is shown
   * once, even if the list changes between two pages.
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
    addEventListener("scroll", this.#look, { passive: true, capture: true }); // capture: also sees a dialog around it scroll
    addEventListener("resize", this.#look, { passive: true });
    if (this.#places.length === 0) this.#fetch();
    else this.#look();
  }

  disconnectedCallback() {
    removeEventListener("scroll", this.#look, { capture: true });
    removeEventListener("resize", this.#look);
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
  }

  /** Reload the list from its first page. */
  reload() {
    for (const place of this.#places) place.node?.remove();
    this.#places = [];
    this.#ids.clear();
    this.#cursor = undefined;
    this.#more = true;
    this.#loading = null;
    this.#generation++;
    this.#end.replaceChildren();
    return this.#fetch();
  }

  /** Insert items at the front. */
  prepend(items) {
    const fresh = this.#fresh(items);
    if (fresh.length === 0) return;
    this.#places.unshift(...fresh.map(placeOf));
    this.#end.replaceChildren();
    this.#look();
  }

  /** Number of items that are in the page. */
  get drawn() {
    return this.#places.reduce((sum, place) => sum + (place.node !== null), 0);
  }

  #fresh(items) {
    const fresh = items.filter(({ id }) => !this.#ids.has(id));
    for (const { id } of fresh) this.#ids.add(id);
    return fresh;
  }

  async #fetch() {
    const generation = this.#generation;
    this.ariaBusy = "true";
    if (this.#places.length === 0) this.#end.replaceChildren(...placeholders());
    const slow = setTimeout(() => this.#places.length && this.#end.replaceChildren(quiet("More is on its way…")), SLOW_MS);
    try {
      for (let tries = 0; this.#more && tries < EMPTY_MAX; tries++) {
        this.#loading = this.#load(this.#cursor);
        const { items, pagination } = await this.#loading;
        if (generation !== this.#generation) return;
        this.#cursor = pagination.nextCursor;
        this.#more = pagination.hasMore && this.#cursor !== null;
        const fresh = this.#fresh(items);
        this.#places.push(...fresh.map(placeOf));
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
    if (this.#places.length === 0) this.#end.replaceChildren(this.#empty instanceof Node ? this.#empty : h("p", { class: "quiet" }, this.#empty));
    else this.#end.replaceChildren(quiet(this.#more ? "" : "That is all."));
  }

  /** Show why a page could not be loaded. Loaded items stay, and the user can retry from there. */
  #sayFailure(error) {
    if (error.code === "CURSOR_INVALID") this.#cursor = undefined; // from before a restore of the server: start again, skipping known ids
    this.#more = true;
    this.#end.replaceChildren(retryNote(error, () => this.#fetch()));
  }

  /** Draw items near the window, remove distant ones, and fetch the next page if it is needed soon. */
  #show() {
    this.#frame = 0;
    if (!this.isConnected) return;
    for (const place of this.#places) if (place.node) place.height = place.node.offsetHeight;
    const top = this.getBoundingClientRect().top;
    let [y, drawn] = [top, this.drawn];
    const [seen, around] = [[], []];
    for (const place of this.#places) {
      const [from, to] = [y, y + place.height];
      y = to;
      if (place.node && (to < -KEEP_PX || from > innerHeight + KEEP_PX)) {
        place.node.remove();
        place.node = null;
        drawn--;
      } else if (!place.node && to > 0 && from < innerHeight) seen.push(place);
      else if (!place.node && to > -DRAW_PX && from < innerHeight + DRAW_PX) around.push(place);
    }
    const next = (seen.length > 0 ? seen.slice(0, SEEN_A_FRAME) : around.slice(0, 1)).slice(0, NODES_MAX - drawn);
    for (const place of next) place.node = h("div", { class: "place" }, this.#article(place.item));
    const again = next.length > 0;
    this.#place();
    this.role = this.drawn > 0 ? "feed" : null; // a feed has articles
    if (again) this.#look();
    else if (this.#more && !this.#loading && !this.#end.querySelector("[role=alert]") && y < innerHeight * 3 + DRAW_PX) this.#fetch();
  }

  /** Put drawn items in order, and set the height of the blanks for the others. */
  #place() {
    const first = this.#places.findIndex((place) => place.node);
    const last = this.#places.findLastIndex((place) => place.node);
    let [above, below, after] = [0, 0, this.#above];
    this.#places.forEach((place, at) => {
      if (place.node) {
        if (after.nextSibling !== place.node) after.after(place.node);
        after = place.node;
      } else if (first === -1 || at > last) below += place.height;
      else if (at < first) above += place.height;
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

function placeOf(item) {
  return { item, height: GUESS_PX, node: null };
}

function quiet(text) {
  return h("p", { class: "quiet" }, text);
}

function placeholders() {
  return [1, 2, 3].map(() => h("div", { class: "placeholder", "aria-hidden": "true" }));
}
