/** Messages to the user: short notes, error texts, and the line that says that we are offline. */

import { button, counted, h } from "./dom.js";
import { live } from "./live.js";
import { noteRefusal, sessionEvents } from "./session.js";

const SHOWN_MS = 7_000;
/** A note with a button stays longer, so that keyboard users can reach it too. */
const ACT_MS = 20_000;

/** Show a note for some seconds; screen readers announce it. `act`: [label, function] of a button beside it. */
export function toast(text, act) {
  const toasts = document.getElementById("toasts");
  const note = h("p", { class: "toast" }, text);
  if (act) note.append(h("button", { type: "button", onclick: () => (note.remove(), act[1]()) }, act[0]));
  toasts.append(note);
  while (toasts.children.length > 3) toasts.firstElementChild.remove();
  setTimeout(() => note.remove(), act ? ACT_MS : SHOWN_MS);
}

/** Set the line below the bar; null removes it. */
export function setNotice(text) {
  const line = document.getElementById("notice");
  line.hidden = text === null;
  line.textContent = text ?? "";
}

const PICTURE_GONE = "A picture is no longer there: take it out, or add it again.";

/** A failure in words for the user, with what to do. */
export function errorText(error) {
  switch (error.code) {
    case "UNREACHABLE":
    case "TIMEOUT":
      return "No answer from the server. Are you online? Try again in a moment.";
    case "RATE_LIMITED":
      return `That was too fast. Try again ${error.retryAfter ? `in ${Math.ceil(error.retryAfter)} s` : "in a moment"}.`;
    case "TOKEN_INVALID":
    case "TOKEN_TOO_OLD":
    case "CONFLICT":
      return "What this page knows is out of date: the server was changed or restored meanwhile. Try again.";
    case "INVALID_CONTENT":
      return error.details.field === "mediaIds" && error.details.id ? PICTURE_GONE : sentence(error.message);
    case "MEDIA_NOT_FOUND":
      return PICTURE_GONE;
    case "UNAUTHORIZED":
      return "Your sign-in has ended. Sign in again; what you typed is kept.";
    case "POST_NOT_FOUND":
    case "COMMENT_NOT_FOUND":
    case "STORY_NOT_FOUND":
      return "This is no longer there for you.";
    case "USER_NOT_FOUND":
      return "There is no such account for you.";
    default:
      return typeof error.code === "string" ? sentence(error.message) : "This page made a mistake; load it again.";
  }
}

/**
 * A failure in place of what could not be loaded, with a button that calls `load` again. It goes on by itself once that
 * can help: after the wait that the server asks for, when the server answers again, after a new sign-in.
 */
export function retryNote(error, load) {
  noteRefusal(error);
  const waits = error.code === "RATE_LIMITED" && error.retryAfter;
  const said = waits ? `That was a lot in a short time. More comes by itself in ${counted(Math.ceil(waits), "second")}.` : errorText(error);
  const again = () => (note.remove(), load());
  const note = h("div", { class: "quiet", role: "alert" }, h("p", {}, said), button("Try again", again));
  const goOn = () => note.parentNode && again();
  if (waits) setTimeout(goOn, 1_000 * waits);
  if (error.code === "UNAUTHORIZED") sessionEvents.addEventListener("renewed", goOn, { once: true });
  if (error.code === "UNREACHABLE" || error.code === "TIMEOUT") live.addEventListener("back", goOn, { once: true });
  return note;
}

function sentence(words) {
  return `${words[0].toUpperCase()}${words.slice(1).replace(/\.$/, "")}.`;
}

/** Show an error that has no better place on the page. */
export function toastError(error, what) {
  if (error.name === "AbortError") return;
  if (typeof error.code !== "string") console.error(error);
  toast(what ? `${what}: ${errorText(error)}` : errorText(error));
}
