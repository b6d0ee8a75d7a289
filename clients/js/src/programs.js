/**
 * Set programs over lists of edges, which the service computes (`select`, `selectCount`):
 *
 *   intersect(out("follows", "1"), in_("follows", "2"))     whom 1 follows and who follows 2
 */

import { checkedId } from "./calls.js";

/** Whom `node` points to, in these states (normal if none is named). */
export function out(graph, node, ...states) {
  return listOf(graph, node, "out", states);
}

/** Who points to `node`, in these states (normal if none is named). */
export function in_(graph, node, ...states) {
  return listOf(graph, node, "in", states);
}

/** Who is in all of them. */
export function intersect(...programs) {
  return { intersect: programs };
}

/** Who is in any of them. */
export function union(...programs) {
  return { union: programs };
}

/** Who is in the first and in none of the others. */
export function difference(...programs) {
  return { difference: programs };
}

function listOf(graph, node, direction, states) {
  const list = { graph, node: checkedId(node, "node"), direction };
  return states.length > 0 ? { ...list, states } : list;
}
