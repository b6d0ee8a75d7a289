/** `kith-social`: the JavaScript client of Kith. README.md shows it in use; src/kith.js is where to begin reading. */

export { KithError } from "./src/errors.js";
export { Kith } from "./src/kith.js";
export { Listing } from "./src/paging.js";
export { difference, in_, intersect, out, union } from "./src/programs.js";
export { FeedStream, WatchStream } from "./src/stream.js";
