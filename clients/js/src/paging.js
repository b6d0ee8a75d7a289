/** A list that is longer than a page. */

import { unreadable } from "./errors.js";

/**
 * A whole list: `for await (const item of listing)` walks its items, `listing.pages()` its pages.
 *
 * Pages are fetched as the loop goes; each loop begins anew. Stop with `break`.
 */
export class Listing {
  #fetch;
  #items;
  #cursor;

  /** `fetch` gets the page at a cursor, `items` names the field with its items, `cursor` is where to begin. */
  constructor(fetch, items, cursor) {
    this.#fetch = fetch;
    this.#items = items;
    this.#cursor = cursor;
  }

  async *[Symbol.asyncIterator]() {
    for await (const page of this.pages()) yield* page[this.#items];
  }

  async *pages() {
    let cursor = this.#cursor;
    for (;;) {
      const page = await this.#fetch(cursor);
      yield page;
      const { nextCursor, hasMore } = page.pagination;
      if (!hasMore || nextCursor === null) return;
      // The loop ends with the list: each page must move on.
      if (nextCursor === cursor) throw unreadable("the next page of a list has the same cursor as this one");
      cursor = nextCursor;
    }
  }
}
