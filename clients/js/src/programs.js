/**
 * Set programs over lists of edges. The service computes them (`select`, `selectCount`):
 *
 *   intersect(out("follows", "1"), in_("follows", "2"))     users whom 1 follows and who follow 2
 */

import { checkedId } from "./calls.js";

/** The destinations of edges from `node`, in these states (normal by default). */
export function out(graph, node, ...states) {
  return listOf(graph, node, "out", states);
}

/** The sources of edges to `node`, in these states (normal by default). */
export function in_(graph, node, ...states) {
  return listOf(graph, node, "in", states);
}

/** Ids in all of the sets. */
export function intersect(...programs) {
  return { intersect: programs };
}

/** Ids in any of the sets. */
export function union(...programs) {
  return { union: programs };
}

/** Ids in the first set and in none of the others. */
export function difference(...programs) {
  return { difference: programs };
}

function listOf(graph, node, direction, states) {
  const list = { graph, node: checkedId(node, "node"), direction };
  return states.length > 0 ? { ...list, states } : list;
}
