/**
 * `specs` as a page, over WebRTC as the library's own tests dial it: the machine by its name, through signaling on its
 * own port. The machine's address and name are in the page's address; it posts what it saw, or `{ failed }`.
 */

import * as sdk from "@viamrobotics/sdk";
import { specs } from "./specs.mjs";

const said = [];
for (const level of ["debug", "info", "warn", "error"]) {
  console[level] = (...values) => void said.push(`${level}: ${values.map(String).join(" ")}`);
}

const query = new URLSearchParams(location.search);
const machine = query.get("machine");
const valid = {
  host: query.get("host"),
  serviceHost: machine,
  signalingAddress: machine,
  // Nobody is there: the library has to do without.
  iceServers: [{ urls: "stun:127.0.0.1:9" }],
};
const invalid = { ...valid, serviceHost: "http://nobody.invalid:9999", dialTimeout: 2_000 };

const seen = await specs(sdk, { valid, invalid }).catch((error) => ({
  failed: [error?.stack ?? error, ...said].join("\n"),
}));
await fetch("/seen", { method: "POST", body: JSON.stringify(seen) });
