/** Pictures and videos of a post. Their size is known before they load, so the layout does not jump. */

import { button, dialog, h } from "./dom.js";
import { session } from "./session.js";

/** All media of a post. `sensitive`: covered until the user wants to see them. */
export function gallery(media, sensitive) {
  if (media.length === 0) return null;
  const box = h("div", { class: `gallery n${Math.min(media.length, 4)}` }, media.map(one));
  if (!sensitive) return box;
  const cover = button("Sensitive: show", () => (cover.replaceWith(box), box.querySelector("button, video").focus()), { class: "cover" });
  return cover;
}

function one(item) {
  const [src, { width, height }] = [session.kith.fileUrl(item.url), item];
  if (item.type === "video") return h("video", { src, controls: true, preload: "metadata", width, height, "aria-label": item.altText || "Video" });
  const small = session.kith.fileUrl(item.thumbnailUrl ?? item.url);
  const picture = h("img", { alt: item.altText, loading: "lazy", decoding: "async", width, height });
  picture.srcset = `${small} 400w, ${src} ${Math.max(width, 401)}w`;
  picture.sizes = "(max-width: 640px) 100vw, 600px";
  picture.src = src;
  picture.onerror = () => opener.replaceWith(h("p", { class: "quiet" }, item.altText || "This picture is not available."));
  const opener = button(picture, () => dialog(item.altText || "Picture", () => h("img", { src, alt: item.altText, class: "whole" })), { class: "picture" });
  if (!item.altText) opener.ariaLabel = "Picture without a description";
  return opener;
}

/** Prefetch the small pictures of the next posts. */
export function fetchAhead(posts) {
  for (const post of posts)
    for (const { thumbnailUrl } of post.content.media) if (thumbnailUrl) new Image().src = session.kith.fileUrl(thumbnailUrl);
}
