// The samples of the last hour: loaded once, then only new ones. Any process of the server may answer.

import { get } from "./server.js";

const HOUR = 3_600_000;

export class History {
  constructor() {
    this.clear(null);
    this.latest = null;
  }

  /** Reload all samples, with the curves of an operation too (null: without). */
  clear(operation) {
    this.operation = operation;
    this.rows = new Map(); // time -> value by name
  }

  async refresh() {
    const since = Math.max(0, ...this.rows.keys());
    const of = this.operation;
    const query = `since=${since}` + (of ? `&operation=${encodeURIComponent(of)}` : "");
    const latest = await get(`/console/numbers?${query}`);
    if (of !== this.operation) return; // another operation was chosen meanwhile
    this.latest = latest;
    latest.times.forEach((at, index) => {
      this.rows.set(at, Object.fromEntries(Object.entries(latest.series).map(([name, values]) => [name, values[index]])));
    });
    for (const at of this.rows.keys()) if (at < latest.now - HOUR) this.rows.delete(at);
  }

  get times() {
    return [...this.rows.keys()].sort((a, b) => a - b);
  }

  values(name) {
    return this.times.map((at) => this.rows.get(at)[name] ?? null);
  }

  last(name) {
    const at = this.times.at(-1);
    return at === undefined ? null : (this.rows.get(at)[name] ?? null);
  }

  names() {
    return [...new Set([...this.rows.values()].flatMap((row) => Object.keys(row)))].sort();
  }
}
