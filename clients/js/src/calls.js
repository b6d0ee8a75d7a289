/** Builds requests from a row of `OPERATIONS` and the arguments of its method. Sends nothing. */

import { headerValue } from "./credential.js";
import { KithError } from "./errors.js";

/** Options that every call accepts. */
const OF_CALLS = ["signal", "timeoutMs", "deadlineMs"];
const OF_UPLOADS = [...OF_CALLS, "onProgress"];
const KEY_BYTES = 16;

/** An id as a string. Numbers beyond 2**53 are refused: they have lost digits already. */
export function checkedId(id, name) {
  const text = typeof id === "number" && !Number.isSafeInteger(id) ? "" : String(id);
  if (!/^(0|[1-9]\d{0,18})$/.test(text)) {
    throw new KithError("INVALID_ID", `\`${name}\` must be an id: digits, no leading zeros`, { details: { field: name } });
  }
  return text;
}

/** The items unchanged. A single string is refused, because it would be iterated by letters. */
export function several(items, name) {
  if (typeof items !== "object" || items === null) throw new TypeError(`\`${name}\` must be a list, even of one`);
  return items;
}

/** The number of arguments before the options. */
export function arityOf({ path, takes = [] }) {
  return path.split(/[{<]/).length - 1 + takes.length;
}

/**
 * The request of one call. `given`: its arguments; `options`: its last argument.
 *
 * An unknown option is a TypeError, so that a misspelt `visibility` cannot make a post public.
 */
export function requestOf(name, operation, given, options = {}) {
  const { verb, path, takes = [], fields = [], query = [], headers = {}, form = false } = operation;
  const known = [...fields, ...query, ...Object.keys(headers), ...(form ? OF_UPLOADS : OF_CALLS)];
  for (const option of Object.keys(options)) {
    if (!known.includes(option)) {
      throw new TypeError(`${name} takes no option \`${option}\`; it takes ${known.join(", ")}`);
    }
  }
  const rest = [...given]; // what the path does not take, the body does
  const filled = path.replace(/{(\w+)}|<(\w+)>/g, (_, id, word) =>
    id ? checkedId(rest.shift(), id) : checkedWord(rest.shift(), word),
  );
  const body = Object.fromEntries([
    ...takes.map((field, at) => [field, rest[at]]),
    ...fields.map((field) => [field, options[field]]),
  ]);
  const json = !form && takes.length + fields.length > 0;
  return {
    verb,
    path: filled + queryOf(query, options),
    body: json ? encoded(body) : undefined,
    headers: { ...headersOf(headers, options), ...(json && { "Content-Type": "application/json" }) },
    repeatable: !form, // only an upload makes something twice
    deletes: operation.deletes ?? false,
    health: operation.health ?? false,
  };
}

/** JSON in which ids may be numbers, bigints or strings. Numbers beyond 2**53 are refused, as in paths. */
function encoded(body) {
  return JSON.stringify(body, (name, value) => {
    return typeof value === "bigint" ? String(value) : checkedDigits(value, name);
  });
}

function checkedDigits(value, name) {
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
    throw new KithError("INVALID_ID", `\`${name}\` is beyond 2**53 and has lost digits; send it as a string`);
  }
  return value;
}

export function queryOf(names, options) {
  const query = new URLSearchParams();
  for (const name of names) {
    if (options[name] != null) query.set(name, String(checkedDigits(options[name], name)));
  }
  const text = String(query);
  return text && `?${text}`;
}

function headersOf(names, options) {
  const headers = {};
  for (const [option, header] of Object.entries(names)) {
    // With this key a retry after a lost answer does not create a second object.
    const value = options[option] ?? (option === "key" ? newKey() : null);
    if (value !== null) headers[header] = headerValue(value, option);
  }
  return headers;
}

/** A random id. `crypto.randomUUID` would be shorter, but browsers offer it over HTTPS only. */
function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(KEY_BYTES));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function checkedWord(word, name) {
  if (typeof word !== "string" || word === "" || word === "." || word === "..") {
    throw new TypeError(`\`${name}\` must be a word, not ${JSON.stringify(word)}`);
  }
  return encodeURIComponent(word);
}
