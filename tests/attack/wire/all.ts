/** Every attack on the wire, by name. */

import type { Attack } from "./attack.ts";
import { CONNECTIONS } from "./connections.ts";
import { FLOODS } from "./floods.ts";
import { MESSAGES } from "./messages.ts";

/** Attacks that are as dangerous to a server that speaks TLS. */
const OVER_TLS = [
  "crumbs",
  "rapid-reset",
  "ping-flood-unread",
  "huffman-too-large",
  "pipelining",
  "settings-entries",
  "garbage",
  "connecting",
];

const PLAIN: readonly Attack[] = [...MESSAGES, ...FLOODS, ...CONNECTIONS];

export const ATTACKS: readonly Attack[] = [
  ...PLAIN,
  ...OVER_TLS.map((name) => overTls(PLAIN.find((attack) => attack.name === name)!)),
];

function overTls(attack: Attack): Attack {
  return { ...attack, name: `${attack.name}-tls`, what: `${attack.what}; over TLS`, victim: "tls" };
}
