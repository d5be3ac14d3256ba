/**
 * The tour as a page. The machine's address is in its own, and with `webrtc` the way to it; the page posts what it saw to
 * where it came from: one JSON object as of the other tours, or `{ failed }`.
 */

import * as sdk from "@viamrobotics/sdk";
import { tour } from "./tour.mjs";

/** What the library said, for a tour that fails. */
const said = [];
for (const level of ["debug", "info", "warn", "error"]) {
  console[level] = (...values) => void said.push(`${level}: ${values.map(String).join(" ")}`);
}

const query = new URLSearchParams(location.search);
const machine = query.get("machine");

/**
 * As the library's own tests dial a machine that arranges connections to itself. Without `serviceHost` and without
 * credentials the library has browsers send what they keep for the site, which no machine lets pages of others do.
 */
const local = { host: new URL(machine).host, signalingAddress: machine, serviceHost: machine };
/** With a host, `machine` is the address of its control plane. */
const managed = {
  host: query.get("host"),
  signalingAddress: machine,
  credentials: { type: "api-key", authEntity: query.get("id"), payload: query.get("key") },
};
const dial = query.has("webrtc")
  ? () => sdk.createRobotClient({ ...query.has("host") ? managed : local, noReconnect: true })
  : async () => {
    const robot = new sdk.RobotClient();
    await robot.dial({ host: machine, noReconnect: true });
    return robot;
  };

const seen = await tour(sdk, dial).catch((error) => ({ failed: error?.stack ?? String(error) }));
if (query.has("webrtc") && !seen.webrtc) seen.failed ??= "the library went another way than WebRTC";
if (seen.failed) seen.failed = [seen.failed, ...said].join("\n");
await fetch("/seen", { method: "POST", body: JSON.stringify(seen) });
