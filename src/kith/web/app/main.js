/**
 * The reader: a page on the JavaScript client. This file wires the session, the bar, the views and live events.
 *
 * `views/` has one file per view; `list.js` is the endless list, `acting.js` has optimistic updates, `live.js` is the
 * stream that all tabs share, `session.js` knows who is signed in, `posts.js` holds the posts on the screen.
 */

import { bar } from "./bar.js";
import { dialog, h } from "./dom.js";
import { goLive, live } from "./live.js";
import { change, drop, keep, postOf } from "./posts.js";
import { start } from "./router.js";
import { begin, session, sessionEvents, signOut } from "./session.js";
import { setNotice } from "./messages.js";
import { ago } from "./time.js";
import { board, boards } from "./views/boards.js";
import { editProfile } from "./views/edit-profile.js";
import { home } from "./views/home.js";
import { inbox } from "./views/inbox.js";
import { blocked, followers, following, likes, mentions, muted, people, requests, saved } from "./views/lists.js";
import { post } from "./views/post.js";
import { profile } from "./views/profile.js";
import { signIn, signInForm } from "./views/sign-in.js";

const OFFLINE = "You are offline, or the server is not there. What you see may be old; it goes on by itself.";
const main = document.getElementById("main");

function open() {
  document.getElementById("bar").replaceChildren(...bar());
  start([
    ["/", () => home("ranked")],
    ["/latest", () => home("latest")],
    ["/post/:id", post],
    ["/likes/:id", likes],
    ["/user/:id", profile],
    ["/user/:id/followers", followers],
    ["/user/:id/following", following],
    ["/me/edit", editProfile],
    ["/requests", requests],
    ["/blocked", blocked],
    ["/muted", muted],
    ["/people", people],
    ["/saved", saved],
    ["/mentions", mentions],
    ["/inbox", inbox],
    ["/user/:id/boards", boards],
    ["/board/:id", board],
  ]);
  goLive();
}

live.addEventListener("engagement_update", ({ detail: { postId, likeCount, commentCount, shareCount, viewCount } }) =>
  change(postId, { engagement: { likeCount, commentCount, shareCount, viewCount } }),
);
live.addEventListener("post_removed", ({ detail }) => drop(detail.postId));
live.addEventListener("post_updated", async ({ detail: { postId } }) => {
  if (!postOf(postId)) return;
  const found = await session.kith.post(postId).catch(() => null);
  if (found && postOf(postId)) keep({ ...postOf(postId), ...found });
});

let connected = true;
let away = false;
live.addEventListener("connection", ({ detail }) => ((connected = detail.is), sayConnection()));
addEventListener("online", sayConnection);
addEventListener("offline", sayConnection);
function sayConnection() {
  const wasAway = away;
  away = !(navigator.onLine && connected);
  setNotice(away ? OFFLINE : null);
  if (wasAway && !away) live.dispatchEvent(new Event("back"));
}

/** Times in words grow old: say them anew each minute, and when a view comes back. */
function sayTimes() {
  for (const one of document.querySelectorAll("time")) one.textContent = ago(one.dateTime);
  for (const one of document.querySelectorAll("kith-post")) one.sayName();
}
setInterval(sayTimes, 60_000);
addEventListener("viewchange", sayTimes);

let asking = null;
sessionEvents.addEventListener("ended", () => {
  if (asking?.open) return;
  asking = dialog("Sign in again", (close) => [
    signInForm(close, "Your sign-in has ended. What you typed is kept."),
    h("button", { type: "button", class: "plain link", onclick: signOut }, "Sign out instead"),
  ]);
});
document.querySelector(".skip").addEventListener("click", (event) => (event.preventDefault(), main.focus()));

if (await begin(open)) open();
else main.replaceChildren(signIn(open));
