/** The form for the user's own profile: name, picture, who may follow. */

import { h } from "../dom.js";
import { dropDraft, keepDraft } from "../drafts.js";
import { noteRefusal, session } from "../session.js";
import { errorText, retryNote, toast } from "../messages.js";

export function editProfile() {
  const failure = h("p", { class: "failure", role: "alert" });
  const view = h("div", { class: "view" }, h("h1", {}, "Your profile"), failure);
  view.title = "Your profile";
  load();

  async function load() {
    try {
      view.append(form(await session.kith.user(session.user)));
    } catch (error) {
      view.append(retryNote(error, load));
    }
  }

  function failed(error) {
    noteRefusal(error);
    failure.textContent = errorText(error);
  }

  function form(me) {
    const name = keepDraft(h("input", { value: me.displayName, maxLength: 100, dir: "auto" }), "profile name");
    const username = h("input", { value: me.username ?? "", maxLength: 30, autocomplete: "off" });
    const bio = keepDraft(h("textarea", { value: me.bio, rows: 4, maxLength: 1000, dir: "auto" }), "profile bio");
    const closed = h("input", { type: "checkbox", checked: me.private });
    const picture = h("input", { type: "file", accept: "image/*" });
    const progress = h("progress", { max: 1, value: 0, hidden: true, "aria-label": "Sending the picture" });
    const submit = h("button", { class: "main" }, "Save");
    const field = (label, input) => h("label", { class: "field" }, h("span", {}, label), input);

    async function send(event) {
      event.preventDefault();
      submit.disabled = true;
      failure.textContent = "";
      try {
        const change = { displayName: name.value.trim(), username: username.value.trim() || null, bio: bio.value.trim(), private: closed.checked };
        if (picture.files[0]) {
          progress.hidden = false;
          const onProgress = ({ loaded, total }) => (progress.value = loaded / total);
          change.avatar = (await session.kith.uploadMedia(picture.files[0], { onProgress })).id;
        }
        await session.kith.patchUser(session.user, change);
        ["profile name", "profile bio"].forEach(dropDraft);
        toast("Saved.");
        location.hash = `#/user/${session.user}`;
      } catch (error) {
        failed(error);
      } finally {
        submit.disabled = false;
        progress.hidden = true;
      }
    }
    const rows = [field("Name", name), field("Username", username), field("About you", bio), field("Picture", picture), progress];
    return h("form", { onsubmit: send, class: "stack" }, ...rows, h("label", { class: "check" }, closed, "Private: who wants to follow you asks first"), h("div", { class: "row end" }, submit));
  }
  return view;
}
