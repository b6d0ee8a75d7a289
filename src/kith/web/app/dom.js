/** Builds elements. Users' text becomes text nodes only: no part of this page parses HTML. */

/**
 * An element: `h("a", { href, class: "name", onclick }, "text", another)`.
 *
 * Names of properties are set as properties; `class`, `data-*`, `aria-*`, `role` and other names become attributes.
 * Children that are null, undefined or false are left out.
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null) continue;
    if (name in element && !name.includes("-")) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** A button. */
export function button(label, onclick, props = {}) {
  return h("button", { type: "button", onclick, ...props }, label);
}

/** A user's text, in its own writing direction; `@names` and external links stay plain text. */
export function words(text, props = {}) {
  return h("p", { dir: "auto", class: "words", ...props }, text);
}

/** A user's text for a sentence of ours: without invisible characters that would turn the words after it around. */
export function inline(text) {
  return text.replace(/[\u202a-\u202e\u2066-\u2069]/g, "");
}

/** "1 post", "2 posts" */
export function counted(number, name) {
  return `${number.toLocaleString()} ${name}${number === 1 ? "" : "s"}`;
}

const ICONS = {
  like: "M12 20.5 4.6 13a4.8 4.8 0 0 1 6.8-6.8l.6.6.6-.6a4.8 4.8 0 0 1 6.8 6.8z",
  comment: "M4 5h16v11H10l-5 4v-4H4z",
  share: "M12 15V4m0 0L8 8m4-4 4 4M5 13v6h14v-6",
  save: "M6 4h12v16l-6-4.5L6 20z",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  home: "M4 11 12 4l8 7v9h-5v-6H9v6H4z",
  people: "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7m-6 9c0-4 2.5-6 6-6s6 2 6 6M16 4.5a3.5 3.5 0 0 1 0 6.5m2 3.5c2 .8 3 2.5 3 5.5",
  user: "M12 11.5a4 4 0 1 0 0-8 4 4 0 0 0 0 8M4.5 20.5c0-4.5 3-6.5 7.5-6.5s7.5 2 7.5 6.5",
  bell: "M6 17v-6a6 6 0 0 1 12 0v6l1.5 1.5h-15zM10 21h4",
  write: "M4 20h4L19 9l-4-4L4 16z",
  picture: "M4 5h16v14H4zm0 11 5-5 4 4 3-3 4 4M15.5 9h.01",
  close: "M6 6l12 12M18 6 6 18",
  board: "M4 4h7v9H4zm9 0h7v5h-7zm0 7h7v9h-7zm-9 4h7v5H4z",
};

/** A decorative icon, hidden from screen readers, for a button that has its own name. */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", ICONS[name]);
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  svg.append(path);
  return svg;
}

/** Open a modal dialog; closing removes it. `fill(close)` makes its content. */
export function dialog(title, fill, props = {}) {
  const close = () => box.close();
  const heading = h("h2", {}, title);
  const box = h(
    "dialog",
    { "aria-label": title, onclose: () => box.remove(), ...props },
    h("header", {}, heading, button(icon("close"), close, { class: "plain", "aria-label": "Close" })),
  );
  box.append(...[fill(close)].flat());
  document.body.append(box);
  box.showModal();
  return box;
}

/** Ask for confirmation of something that cannot be undone. Resolves to whether the user confirmed. */
export function confirmed(question, yes) {
  return new Promise((resolve) => {
    const box = dialog(question, (close) =>
      h(
        "div",
        { class: "row end" },
        button("Cancel", close),
        button(yes, () => (resolve(true), close()), { class: "danger" }),
      ),
    );
    box.addEventListener("close", () => resolve(false));
  });
}
