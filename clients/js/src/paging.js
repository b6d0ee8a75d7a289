/** Lists of several pages. */

import { unreadable } from "./errors.js";

/**
 * A whole list: `for await (const item of listing)` walks its items, `listing.pages()` its pages.
 *
 * Pages are fetched as the loop needs them. Each new loop starts at the beginning. Stop with `break`.
 */
export class Listing {
  #fetch;
  #items;
  #cursor;

  /** `fetch`: gets the page at a cursor. `items`: the field with the items. `cursor`: where to begin. */
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
      // So that the loop ends, each page must have another cursor.
      if (nextCursor === cursor) throw unreadable("the next page of a list has the same cursor as this one");
      cursor = nextCursor;
    }
  }
}
