/**
 * Whether tests can use multicast here: not every container allows it. Asks the system, not the code under test.
 */

import { createSocket } from "node:dgram";
import { once } from "node:events";
import { SystemClock } from "../../lib/base/clock.ts";
import type { Needed } from "./needing.ts";

/** The group of multicast DNS (RFC 6762). */
const GROUP = "224.0.0.251";
const LOOPBACK = "127.0.0.1";
const PATIENCE_MS = 2_000;

/** Whether this computer receives on its loopback interface its own messages to the group of multicast DNS. */
export async function loopbackMulticast(): Promise<Needed<true>> {
  const socket = createSocket({ type: "udp4", reuseAddr: true });
  const heard = Promise.withResolvers<boolean>();
  const word = crypto.randomUUID();
  socket.on("message", (bytes) => new TextDecoder().decode(bytes) === word && heard.resolve(true));
  socket.on("error", heard.reject);
  heard.promise.catch(() => {});
  const giveUp = new SystemClock().after(PATIENCE_MS, () => heard.resolve(false));
  try {
    // A port of the test's own: others on this computer may answer at the group's.
    socket.bind(0);
    await once(socket, "listening");
    socket.addMembership(GROUP, LOOPBACK);
    socket.setMulticastInterface(LOOPBACK);
    socket.setMulticastLoopback(true);
    socket.send(word, socket.address().port, GROUP);
    return await heard.promise ? { found: true } : { missing: "the loopback interface carries no multicast" };
  } catch (error) {
    return { missing: `there is no multicast: ${error}` };
  } finally {
    giveUp();
    socket.close();
  }
}
