/**
 * The session in which the page moves things. Its heartbeats end with the page or its connection, and then the machine
 * stops what was moved in it.
 *
 * The published library begins a session with the first call of a method that it knows to move something, but it
 * learns of such methods only when a session begins: by itself it has none. So the page names the methods. A movement
 * that waits for the session to begin is not made if a stop comes first.
 *
 * What a person holds has an id, so that the machine refuses it after somebody else's STOP, until it was let go.
 */

import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import type { RobotClient } from "@viamrobotics/sdk";
import { SESSION_METHODS } from "./session_methods.ts";

const HOLD_ID = "svc-hold";
const HOLD_ENDED = "everything was stopped: let go first";

/** The ids of what a person holds, by the names of the resources that it moves. */
export type HeldIds = Map<string, string>;

/** A fresh id; browsers have their own function for it only in secure origins. */
export function holdId(): string {
  const hex = Array.from(
    crypto.getRandomValues(new Uint8Array(16)),
    (byte) => byte.toString(16).padStart(2, "0"),
  );
  return [0, 4, 6, 8, 10].map((from, at, all) => hex.slice(from, all[at + 1]).join("")).join("-");
}

/** Whether the machine refused a movement because somebody has stopped it. */
export function isHoldEnded(problem: string | undefined): boolean {
  return problem?.includes(HOLD_ENDED) ?? false;
}

/** What the page uses of the library's sessions. */
interface SessionManager {
  transport: Transport;
  getSessionMetadata(): Promise<Headers>;
  applyHeartbeatMonitoredMethods(): Promise<void>;
}

/** For a client that has not connected yet. */
export function moveInSession(client: RobotClient, holds: Readonly<HeldIds>): void {
  const { sessionManager: manager } = client as unknown as { readonly sessionManager: SessionManager };
  const { heartbeatMonitoredMethods: known } = manager.constructor as unknown as {
    readonly heartbeatMonitoredMethods: Record<string, boolean>;
  };
  for (const [service, methods] of Object.entries(SESSION_METHODS)) {
    for (const method of methods) known[`/${service}/${method}`] = true;
  }
  // It would ask for all contracts of the machine first, and the first movement would wait for them.
  manager.applyHeartbeatMonitoredMethods = () => Promise.resolve();

  const { transport } = manager;
  const stops = new Map<string, number>();
  const stopsOf = (name: string) => `${stops.get(ALL) ?? 0} ${stops.get(name) ?? 0}`;
  const begin = async (service: string, method: string, name: string) => {
    if (method === "Stop" || method === "StopAll") stops.set(name, (stops.get(name) ?? 0) + 1);
    if (!known[`/${service}/${method}`]) return;
    const before = stopsOf(name);
    await manager.getSessionMetadata();
    if (stopsOf(name) !== before) throw new ConnectError("it was stopped before it began", Code.Canceled);
  };
  manager.transport = {
    async unary(service, method, signal, timeoutMs, header, input, values) {
      const name = nameIn(input), hold = holds.get(name), headers = new Headers(header);
      if (hold && known[`/${service.typeName}/${method.name}`]) headers.set(HOLD_ID, hold);
      await begin(service.typeName, method.name, name);
      return await transport.unary(service, method, signal, timeoutMs, headers, input, values);
    },
    async stream(service, method, signal, timeoutMs, header, input, values) {
      await begin(service.typeName, method.name, ALL);
      return await transport.stream(service, method, signal, timeoutMs, header, input, values);
    },
  };
}

/** Of a call that names no resource. */
const ALL = "";

function nameIn(input: object): string {
  return "name" in input && typeof input.name === "string" ? input.name : ALL;
}
