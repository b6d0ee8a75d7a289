/** Pictures and videos that are being added to a post: each with progress, a description, and a remove button. */

import { button, h, icon } from "./dom.js";
import { session } from "./session.js";
import { errorText } from "./messages.js";

const FILES_MAX = 20;

/**
 * The row of uploads. `ready()` resolves to the media ids once all are stored with their descriptions, and throws if one
 * is not.
 */
export class Uploads extends HTMLElement {
  #rows = new Set();

  /** Add files from a picker or the clipboard. */
  add(files) {
    for (const file of files) {
      if (this.#rows.size >= FILES_MAX) break;
      if (/^(image|video)\//.test(file.type)) this.#begin(file);
    }
  }

  /** Show the media that a post already has. */
  addStored(media) {
    for (const item of media) this.#row({ stored: item, altText: item.altText, src: session.kith.fileUrl(item.thumbnailUrl ?? item.url), type: item.type });
  }

  async ready() {
    const ids = [];
    for (const row of this.#rows) {
      row.stored ??= await row.sending;
      const altText = row.field.value.trim();
      if (altText !== row.altText) await session.kith.editMedia(row.stored.id, altText);
      row.altText = altText;
      row.mayBeInPost = true;
      ids.push(row.stored.id);
    }
    return ids;
  }

  clear() {
    for (const row of this.#rows) this.#drop(row);
  }

  #begin(file) {
    const row = this.#row({ file, altText: "", src: URL.createObjectURL(file), type: file.type.split("/")[0] });
    this.#send(row);
  }

  #send(row) {
    row.abort = new AbortController();
    row.said.replaceChildren(row.progress);
    const onProgress = ({ loaded, total }) => (row.progress.value = loaded / total);
    row.sending = session.kith.uploadMedia(row.file, { onProgress, signal: row.abort.signal });
    row.sending.then(
      (stored) => ((row.stored = stored), row.said.replaceChildren("Stored")),
      (error) => row.said.replaceChildren(errorText(error), button("Try again", () => this.#send(row))),
    );
  }

  #row(row) {
    row.progress = h("progress", { max: 1, value: 0, "aria-label": "Sending" });
    row.said = h("div", { class: "note", role: "status" });
    row.field = h("input", { placeholder: "Describe it for who cannot see it", "aria-label": "Description", value: row.altText, maxLength: 1500 });
    const shown = row.type === "video" ? h("video", { src: row.src, muted: true }) : h("img", { src: row.src, alt: "" });
    const out = button(icon("close"), () => this.#drop(row), { class: "plain", "aria-label": "Take out" });
    row.box = h("div", { class: "upload" }, shown, h("div", { class: "grow" }, row.field, row.said), out);
    this.#rows.add(row);
    this.append(row.box);
    return row;
  }

  /** Take out a row. What was stored for it and is in no post is deleted from the server. */
  #drop(row) {
    row.abort?.abort(new DOMException("taken out", "AbortError"));
    if (row.file && !row.mayBeInPost) row.sending.then(({ id }) => session.kith.deleteMedia(id)).catch(() => {});
    row.box.remove();
    if (row.file) URL.revokeObjectURL(row.src);
    this.#rows.delete(row);
  }
}
customElements.define("kith-uploads", Uploads);
