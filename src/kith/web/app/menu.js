/** A menu below a button: a list of buttons, closed by Escape or a click elsewhere. */

import { button, h, icon } from "./dom.js";

/** A button with a menu. `choices()`: [label, function] rows, made when it opens. */
export function menu(label, choices, props = {}) {
  const opener = button(icon("more"), open, { class: "plain", "aria-label": label, "aria-haspopup": "true", ...props });
  opener.ariaExpanded = "false";
  let pressed = false; // whether it was last pressed while the menu was open: the press closed it
  opener.addEventListener("pointerdown", () => (pressed = opener.ariaExpanded === "true"));

  function open({ detail }) {
    if (pressed && detail > 0) return; // 0: by the keyboard
    const box = h("div", { popover: "auto", class: "menu" });
    for (const [name, act] of choices()) box.append(button(name, () => (box.hidePopover(), act())));
    box.addEventListener("keydown", (event) => move(event, box));
    box.addEventListener("toggle", ({ newState }) => {
      opener.ariaExpanded = String(newState === "open");
      if (newState === "closed") box.remove();
    });
    opener.after(box);
    box.showPopover();
    const at = opener.getBoundingClientRect();
    const below = at.bottom + box.offsetHeight < innerHeight;
    box.style.top = `${below ? at.bottom : Math.max(0, at.top - box.offsetHeight)}px`;
    box.style.left = `${Math.max(8, at.right - box.offsetWidth)}px`;
    box.firstElementChild?.focus();
  }
  return opener;
}

function move(event, box) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const all = [...box.children];
  all.at((all.indexOf(document.activeElement) + step) % all.length)?.focus();
}
