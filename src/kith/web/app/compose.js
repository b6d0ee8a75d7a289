/** Forms to write a post or a story, and to edit a post. Typed text is kept as a draft until it is sent. */

import { button, dialog, h, icon } from "./dom.js";
import { dropDraft, dropKey, keepDraft, sendKey } from "./drafts.js";
import { noteRefusal, session } from "./session.js";
import { keep, postOf } from "./posts.js";
import { errorText, toast } from "./messages.js";
import { Uploads } from "./upload.js";

const TEXT_MAX = 10_000;
const NAMES_SAY = "Their names, such as bob, carol";
const AUDIENCES = { public: "Everybody", friends: "Friends", custom: "Some people", private: "Only me" };
/** Dispatches `posted` (the post as `detail`) and `told` (stories changed). */
export const composeEvents = new EventTarget();

/** Write a post. */
export function compose() {
  return form("New post", {
    draft: "post",
    send: async ({ content, ...rest }, key) => {
      const { id } = await session.kith.createPost(content, { ...rest, key });
      const post = keep(await session.kith.post(id));
      composeEvents.dispatchEvent(new CustomEvent("posted", { detail: post }));
      toast("Posted.");
    },
  });
}

/** Write a story. */
export function tellStory() {
  return form("New story", {
    draft: "story",
    without: "private",
    send: async ({ content, ...rest }, key) => {
      await session.kith.createStory(content, { ...rest, key });
      composeEvents.dispatchEvent(new Event("told"));
      toast("Your story is there for a day.");
    },
  });
}

/** Edit one of the user's own posts. */
export function edit(post) {
  return form("Edit post", {
    draft: `edit ${post.id}`,
    post,
    send: async (change) => keep({ ...postOf(post.id), ...(await session.kith.editPost(post.id, change)) }),
  });
}

function form(title, { draft, post, without, send }) {
  const fields = fieldsFor(draft, post, without);
  const { text, uploads, failure, submit } = fields;

  async function go(close) {
    submit.disabled = true;
    failure.textContent = "";
    try {
      const body = await bodyOf(fields, post);
      const key = sendKey(draft, body);
      await send(body, key);
      dropDraft(draft, text.value);
      dropKey(draft, key);
      close();
    } catch (error) {
      const takenOut = error.name === "AbortError"; // a picture that was being sent, or all because the form was closed
      if (takenOut && !box.open) return;
      noteRefusal(error);
      const why = takenOut ? "A picture was taken out meanwhile." : errorText(error);
      const said = error instanceof Missing ? error.message : `Not sent. ${why}`;
      if (box.open) failure.textContent = said;
      else toast(said);
    } finally {
      submit.disabled = false;
    }
  }
  const box = dialog(title, (close) => h("form", { onsubmit: (event) => (event.preventDefault(), go(close)) }, ...fields.all), { class: "compose" });
  box.addEventListener("close", () => uploads.clear());
  text.focus();
  return box;
}

function fieldsFor(draft, post, without) {
  const text = keepDraft(h("textarea", { rows: 5, maxLength: TEXT_MAX, dir: "auto", "aria-label": "What you say", placeholder: "What is new?", value: post?.content.text ?? "" }), draft);
  const uploads = new Uploads();
  if (post) uploads.addStored(post.content.media);
  const picker = h("input", { type: "file", accept: "image/*,video/mp4,video/webm", multiple: true, hidden: true, onchange: () => (uploads.add(picker.files), (picker.value = "")) });
  text.addEventListener("paste", ({ clipboardData }) => uploads.add(clipboardData.files));
  const choices = Object.entries(AUDIENCES).filter(([value]) => value !== without);
  const audience = h("select", { "aria-label": "Who sees it" }, choices.map(([value, name]) => h("option", { value, selected: value === (post?.visibility ?? "public") }, name)));
  const names = h("input", { placeholder: NAMES_SAY, "aria-label": "Who may see it", hidden: audience.value !== "custom" });
  audience.onchange = () => (names.hidden = audience.value !== "custom");
  const audienceWas = post?.audience ? showNames(names, post.audience) : null;
  const failure = h("p", { class: "failure", role: "alert" });
  const submit = h("button", { class: "main" }, post ? "Save" : "Post");
  const add = button([icon("picture"), " Picture"], () => picker.click());
  const all = [text, uploads, names, failure, h("div", { class: "row" }, add, picker, audience, h("span", { class: "grow" }), submit)];
  return { text, uploads, audience, names, failure, submit, all, audienceWas };
}

/** Fill in the current audience of a post. Resolves to the text and the ids that it stands for. */
async function showNames(field, ids) {
  field.placeholder = "…";
  try {
    const people = await session.kith.lookupUsers(ids);
    const text = people.map((person, at) => person?.username ?? ids[at]).join(", ");
    if (!field.value) field.value = text;
    return { text, ids };
  } catch {
    return { text: "", ids };
  } finally {
    field.placeholder = NAMES_SAY;
  }
}

async function bodyOf({ text, uploads, audience, names, audienceWas }, post) {
  const mediaIds = await uploads.ready();
  const said = text.value.trim();
  if (!said && mediaIds.length === 0 && !post?.content.link) throw new Missing("Say something, or add a picture.");
  const body = { content: { text: said, mediaIds }, visibility: audience.value };
  if (audience.value === "custom") {
    const was = await audienceWas;
    body.audience = was?.text === names.value ? was.ids : await idsOf(names.value);
  }
  return body;
}

/** The ids of users by their usernames; a number is taken as an id, for users without a name. */
async function idsOf(list) {
  const names = list.split(/[\s,@]+/).filter(Boolean);
  if (names.length === 0) throw new Missing("Name those who may see it.");
  return Promise.all(
    names.map(async (name) => {
      if (/^\d+$/.test(name)) return name;
      try {
        return (await session.kith.userByUsername(name)).id;
      } catch (error) {
        throw error.code === "USER_NOT_FOUND" ? new Missing(`There is nobody called ${name}.`) : error;
      }
    }),
  );
}

class Missing extends Error {}
