/**
 * Whether tests can use multicast here: not every container allows it.
 */

import { SystemClock } from "../../lib/base/clock.ts";
import { type GroupSocket, openGroup } from "../../lib/base/udp.ts";
import { GROUP } from "../../lib/wire/mdns/links.ts";
import type { Needed } from "./needing.ts";

/** Whether this computer receives on its loopback interface its own messages to the group of multicast DNS. */
export async function loopbackMulticast(): Promise<Needed<true>> {
  const { promise: heard, resolve } = Promise.withResolvers<boolean>();
  const word = crypto.randomUUID();
  const received = (bytes: Uint8Array) => new TextDecoder().decode(bytes) === word && resolve(true);
  let socket: GroupSocket | undefined;
  const giveUp = new SystemClock().after(2_000, () => resolve(false));
  try {
    socket = await openGroup({ group: GROUP, at: "127.0.0.1", received, failed: () => resolve(false) });
    socket.send(new TextEncoder().encode(word));
    return await heard ? { found: true } : { missing: "the loopback interface carries no multicast" };
  } catch (error) {
    return { missing: `there is no multicast: ${error}` };
  } finally {
    giveUp();
    await socket?.close();
  }
}
