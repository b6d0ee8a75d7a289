/**
 * Sends a file as multipart/form-data, and reports progress.
 *
 * The form is one Blob of parts, so a file on disk is read while it is sent. The file's name is not sent. In browsers
 * only XMLHttpRequest reports upload progress; elsewhere a counted stream does. A service worker has neither (browsers
 * stream request bodies over HTTP/2 only, if at all), so it reports no progress.
 */

/** After so long without progress an upload counts as lost. Decoding takes some seconds. */
export const UPLOAD_SILENCE_MS = 130_000;
const BOUNDARY_BYTES = 12;
const BODILESS = new Set([204, 205, 304]);

/** A function for `Session.call` that sends this file; a TypeError if it is not a file. */
export function uploader(file, altText, onProgress) {
  const { form, boundary } = formOf(file, altText ?? "");
  return (url, { method, headers }, limit, fetch) => {
    const request = { method, headers: { ...headers, "Content-Type": `multipart/form-data; boundary=${boundary}` } };
    const progress = (loaded) => {
      limit.touch();
      onProgress?.({ loaded, total: form.size });
    };
    const { signal } = limit;
    if (typeof XMLHttpRequest === "function") return overXhr(url, request, form, signal, progress);
    if (typeof ServiceWorkerGlobalScope === "function") return fetch(url, { ...request, body: form, signal });
    return fetch(url, { ...request, body: counted(form, progress), duplex: "half", signal });
  };
}

function formOf(file, altText) {
  if (!(file instanceof Blob || file instanceof ArrayBuffer || ArrayBuffer.isView(file))) {
    throw new TypeError("`file` must be a Blob, a File or bytes; in Node, openAsBlob of node:fs makes one");
  }
  const boundary = `kith-${crypto.getRandomValues(new Uint8Array(BOUNDARY_BYTES)).join("")}`;
  const part = (disposition) => `--${boundary}\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n`;
  const form = new Blob([
    part('name="altText"'),
    altText,
    "\r\n",
    part('name="file"; filename="file"'),
    file,
    `\r\n--${boundary}--\r\n`,
  ]);
  return { form, boundary };
}

function counted(form, progress) {
  let loaded = 0;
  const counter = new TransformStream({
    transform(chunk, out) {
      out.enqueue(chunk);
      progress((loaded += chunk.byteLength));
    },
  });
  return form.stream().pipeThrough(counter);
}

function overXhr(url, { method, headers }, form, signal, progress) {
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    xhr.open(method, url);
    for (const [name, value] of Object.entries(headers)) xhr.setRequestHeader(name, value);
    const abort = () => xhr.abort();
    signal.addEventListener("abort", abort);
    xhr.upload.onprogress = (event) => progress(event.loaded);
    xhr.onload = () => resolve(responseOf(xhr));
    xhr.onerror = () => reject(new TypeError("the connection failed"));
    xhr.onabort = () => reject(signal.reason);
    xhr.onloadend = () => signal.removeEventListener("abort", abort);
    xhr.send(form);
  });
}

function responseOf(xhr) {
  const lines = xhr.getAllResponseHeaders().trim().split(/\r\n/).filter(Boolean);
  const headers = lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]);
  return new Response(BODILESS.has(xhr.status) ? null : xhr.responseText, { status: xhr.status, headers });
}
