/** What is typed is kept in this tab until it is sent, whatever happens to the page meanwhile. */

const PREFIX = "kith.draft.";

/** Keep what is typed into a field under this name, and begin with what was kept. */
export function keepDraft(field, name) {
  field.value = sessionStorage.getItem(PREFIX + name) ?? field.value;
  field.addEventListener("input", () => {
    if (field.value) sessionStorage.setItem(PREFIX + name, field.value);
    else dropDraft(name);
  });
  return field;
}

/** It was sent. */
export function dropDraft(name) {
  sessionStorage.removeItem(PREFIX + name);
}

/** Keys for what one form sends: the same body has the same key, so what is sent again after a failure is made once. */
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
