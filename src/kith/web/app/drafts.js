/** Drafts: typed text is kept in this tab's sessionStorage until it is sent, even if the page reloads. */

const PREFIX = "kith.draft.";

/** Save what is typed into a field under this name, and restore a saved draft into it. */
export function keepDraft(field, name) {
  field.value = sessionStorage.getItem(PREFIX + name) ?? field.value;
  field.addEventListener("input", () => {
    if (field.value) sessionStorage.setItem(PREFIX + name, field.value);
    else dropDraft(name);
  });
  return field;
}

/** Delete a draft, once it was sent. */
export function dropDraft(name) {
  sessionStorage.removeItem(PREFIX + name);
}

/** Idempotency keys for one form: the same body gets the same key, so that a retry after a failure creates it once. */
export function sendKey() {
  let [sent, key] = [null, null];
  return (body) => {
    const same = JSON.stringify(body);
    if (same !== sent) [sent, key] = [same, newKey()];
    return key;
  };
}

function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
