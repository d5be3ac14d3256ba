/**
 * A page that reaches a guarded machine over WebRTC: with a wrong key, with the right one, and again by itself after the
 * machine was away. It posts what it saw, step by step; each answer says that the next step may begin.
 */

import * as sdk from "@viamrobotics/sdk";

const query = new URLSearchParams(location.search);
const machine = query.get("machine");

/** Tells what was seen; resolves when the page may go on. */
async function tell(step) {
  await fetch("/seen", { method: "POST", body: JSON.stringify(step) });
}

/** What the library tells developers: its errors do not repeat the machine's. */
const output = [];
for (const level of ["debug", "error"]) {
  console[level] = (...values) => void output.push(values.map(String).join(" "));
}

function dial(payload, more) {
  const credentials = { type: "api-key", authEntity: "page", payload };
  return sdk.createRobotClient({
    host: new URL(machine).host,
    signalingAddress: machine,
    credentials,
    ...more,
  });
}

try {
  const refused = await dial("wrong", { noReconnect: true }).then(() => "let in", (error) => String(error));
  await tell({ refused, output });
  const robot = await dial("right", { reconnectMaxWait: 500, reconnectMaxAttempts: 100 });
  const away = new Promise((resolve) => robot.on("disconnected", resolve));
  const resources = (await robot.resourceNames()).length;
  const state = () => robot.peerConnection?.connectionState;
  // The browser may say so only after the first call has gone over it.
  for (let tries = 0; tries < 100 && state() === "connecting"; tries++) {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await tell({ resources, over: state() });
  await away;
  await tell({ output: output.splice(0) });
  // A call to a machine that is away may never end.
  const late = () => new Promise((resolve) => setTimeout(resolve, 1_000));
  for (;;) {
    const again = await Promise.race([robot.resourceNames().catch(late), late()]);
    if (!again || state() !== "connected") continue;
    await tell({ resources: again.length, over: state() });
    break;
  }
  await robot.disconnect();
} catch (error) {
  await tell({ failed: String(error?.stack ?? error) });
}
