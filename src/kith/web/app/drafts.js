/** Drafts: typed text is kept in this tab's sessionStorage until it is sent, even if the page reloads. */

const PREFIX = "kith.draft.";
const KEYS = "kith.key.";

/** Save what is typed into a field under this name, and restore a saved draft into it. */
export function keepDraft(field, name) {
  field.value = sessionStorage.getItem(PREFIX + name) ?? field.value;
  field.addEventListener("input", () => {
    if (field.value) sessionStorage.setItem(PREFIX + name, field.value);
    else dropDraft(name);
  });
  return field;
}

/** Delete a draft, once it was sent. `sent`: only if this is still its text. */
export function dropDraft(name, sent = null) {
  if (sent === null || sessionStorage.getItem(PREFIX + name) === sent) sessionStorage.removeItem(PREFIX + name);
}

/**
 * The idempotency key for a draft: until `dropKey`, the same body gets the same key. So a retry creates it once, after a
 * failure, and from a form that was opened again, or after a reload, while it was being sent.
 */
export function sendKey(name, body) {
  const same = JSON.stringify(body);
  const [sent, before] = known(name);
  const key = same === sent ? before : newKey();
  sessionStorage.setItem(KEYS + name, JSON.stringify([same, key]));
  return key;
}

/** Forget a key, once its body is stored: the same body sent again is another post. */
export function dropKey(name, key) {
  if (known(name)[1] === key) sessionStorage.removeItem(KEYS + name); // otherwise another body was sent since
}

/** The body that was sent last, and its key. */
function known(name) {
  return JSON.parse(sessionStorage.getItem(KEYS + name) ?? "[]");
}

function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
