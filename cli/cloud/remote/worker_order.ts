/** The order that a control plane hands to the process of a command from afar. */

import type { CommandRun } from "../../../lib/cloud/services/operations/command_service.ts";
import type { StoreFlags } from "../cloud_flags.ts";

/** What the process gets: the command, and where the control plane keeps what. */
export interface WorkerOrder {
  readonly run: CommandRun;
  readonly place: Pick<StoreFlags, "data" | "database" | "keys" | "files"> & { readonly limits: string };
}

/** Bytes of the number that precedes an order. */
export const LENGTH_BYTES = 4;

/** An order as the process reads it. */
export function orderBytes(order: WorkerOrder): Uint8Array {
  const text = new TextEncoder().encode(JSON.stringify(order));
  const bytes = new Uint8Array(LENGTH_BYTES + text.length);
  new DataView(bytes.buffer).setUint32(0, text.length);
  bytes.set(text, LENGTH_BYTES);
  return bytes;
}
