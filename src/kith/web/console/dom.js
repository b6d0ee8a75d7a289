// Builds elements. Text is always set as text, never as markup.

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** A table. `columns`: [heading, whether it is a number]. Cells are text or elements. */
export function table(label, columns, rows, none = "None.") {
  if (!rows.length) return el("p", { class: "none" }, none);
  const classOf = (at) => (columns[at][1] ? "number" : "");
  return el(
    "div",
    { class: "wide", tabindex: "0", role: "region", "aria-label": label },
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, ...columns.map(([name], at) => (name ? el("th", { class: classOf(at), scope: "col" }, name) : el("td", {}))))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell, at) => el("td", { class: classOf(at) }, cell))))),
    ),
  );
}

export function section(title, ...children) {
  return el("section", {}, el("h2", {}, title), ...children);
}

/** A form on one line. `fields`: [name, label, attributes]; `done` is called with the values by name. */
export function form(fields, button, done) {
  const inputs = fields.map(([name, label, attributes = {}]) =>
    el("label", {}, label, attributes.options ? select(name, attributes.options) : el("input", { name, autocomplete: "off", ...attributes })),
  );
  return el(
    "form",
    {
      class: "line",
      onsubmit: (event) => {
        event.preventDefault();
        done(Object.fromEntries(new FormData(event.target)));
      },
    },
    ...inputs,
    el("button", {}, button),
  );
}

function select(name, options) {
  return el("select", { name }, ...options.map((option) => el("option", {}, option)));
}

/** Ask for confirmation: true once the user has typed the word. */
export function confirmTyping(what, word) {
  return new Promise((answer) => {
    const typed = el("input", { autocomplete: "off", "aria-label": `Type ${word}` });
    const go = el("button", { class: "danger", disabled: true }, "Do it");
    typed.addEventListener("input", () => (go.disabled = typed.value !== word));
    const dialog = el(
      "dialog",
      { "aria-label": what, onclose: () => (dialog.remove(), answer(dialog.returnValue === "yes")) },
      el(
        "form",
        {
          onsubmit: (event) => {
            event.preventDefault();
            if (typed.value === word) dialog.close("yes");
          },
        },
        el("p", {}, what),
        el("p", {}, "To go on, type ", el("code", {}, word), "."),
        typed,
        el("p", { class: "line" }, go, el("button", { type: "button", onclick: () => dialog.close("") }, "Leave it")),
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
    typed.focus();
  });
}
