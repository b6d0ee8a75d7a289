/** Signing in: with a token that the reader's app signed. */

import { h } from "../dom.js";
import { use } from "../session.js";

/** The form; `done()` is called once the user is signed in. */
export function signInForm(done, why = "") {
  const token = h("input", { type: "password", autocomplete: "off", spellcheck: false, required: true });
  const failure = h("p", { class: "failure", role: "alert" }, why);
  const submit = (event) => {
    event.preventDefault();
    if (use(token.value.trim())) done();
    else failure.textContent = "That is no token of a user. It has three parts with dots between them.";
  };
  return h(
    "form",
    { onsubmit: submit, class: "stack" },
    h("label", { class: "field" }, h("span", {}, "Token"), token),
    failure,
    h(
      "p",
      { class: "note" },
      "Your app signs it for you. To try Kith out, ",
      h("code", {}, "kith token --user 1 --data FOLDER"),
      " prints one, FOLDER being where this server has its data.",
    ),
    h("div", { class: "row end" }, h("button", { class: "main" }, "Sign in")),
  );
}

/** The whole view. */
export function signIn(done) {
  const view = h("div", { class: "view narrow" }, h("h1", {}, "Sign in"), signInForm(done));
  view.title = "Sign in";
  return view;
}
