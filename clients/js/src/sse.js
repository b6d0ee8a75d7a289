/**
 * A parser of Server-Sent Events (HTML standard, section 9.2.6). Lines end with LF, CR or CRLF, even across chunks. A
 * byte order mark is skipped. An event that is cut off at the end is dropped.
 */
export class EventParser {
  /** The id of the last complete event, to resume from. Heartbeats without data set it, too. */
  lastEventId;
  /** Milliseconds that the service wants clients to wait before they reconnect. */
  retryMs;

  #decoder = new TextDecoder(); // passes over a byte order mark, and keeps half a character for the next chunk
  #rest = "";
  #afterCr = false; // a line ended with the chunk, by a CR that may be half of a CRLF
  #type = "";
  #data = [];
  #nextId;

  constructor(lastEventId, retryMs) {
    this.lastEventId = this.#nextId = lastEventId;
    this.retryMs = retryMs;
  }

  /** Yields the events, {type, data}, that these bytes complete. */
  *read(chunk) {
    let text = this.#decoder.decode(chunk, { stream: true });
    if (this.#afterCr && text.startsWith("\n")) text = text.slice(1);
    if (text !== "") this.#afterCr = false;
    this.#rest += text;
    for (let end; (end = this.#rest.search(/[\r\n]/)) !== -1;) {
      const line = this.#rest.slice(0, end);
      const next = end + (this.#rest.startsWith("\r\n", end) ? 2 : 1);
      this.#afterCr = this.#rest.endsWith("\r") && next === this.#rest.length;
      this.#rest = this.#rest.slice(next);
      if (line !== "") this.#field(line);
      else yield* this.#dispatch();
    }
  }

  #field(line) {
    const colon = line.indexOf(":");
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#type = value;
    else if (field === "id" && !value.includes("\0")) this.#nextId = value;
    else if (field === "retry" && /^\d+$/.test(value)) this.retryMs = Number(value);
  }

  *#dispatch() {
    this.lastEventId = this.#nextId; // not before: an event that was cut in the middle comes again
    const event = { type: this.#type || "message", data: this.#data.join("\n") };
    const empty = this.#data.length === 0;
    this.#type = "";
    this.#data = [];
    if (!empty) yield event;
  }
}
