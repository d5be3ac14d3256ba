/**
 * Where calls to a machine come from: its control plane, or the address that the control plane names for them.
 *
 * Owns the connection to such an address. The machine shows it the credentials that it shows the control plane.
 */

import type { SignalingService } from "../../proto/gen/signaling_pb.ts";
import type { CallOptions, ServiceClient } from "../wire/rpc/channel.ts";
import type { CallSource } from "../wire/signaling/brought_calls.ts";
import { type CloudClient, parseCloudAddress } from "./client.ts";

type Client = Pick<CloudClient, "address" | "at" | "signaling" | "close">;

export class SignalingSource implements CallSource {
  #other: Client | undefined;

  /** `named` is the address at this time; `undefined` for the control plane itself. */
  constructor(private readonly client: Client, private readonly named: () => string | undefined) {}

  get address(): string {
    return this.named() ?? this.client.address;
  }

  /** Throws `failed_precondition` where credentials would travel in the clear, and may not. */
  async signaling<T>(
    signal: AbortSignal,
    make: (signaling: ServiceClient<typeof SignalingService>, options: CallOptions) => Promise<T>,
  ): Promise<T> {
    return await this.#current().signaling(signal, make);
  }

  close(): void {
    this.#other?.close();
    this.#other = undefined;
  }

  #current(): Client {
    const named = this.named();
    if (named === this.#other?.address) return this.#other ?? this.client;
    this.close();
    if (named === undefined || isSame(named, this.client.address)) return this.client;
    return this.#other = this.client.at(named);
  }
}

function isSame(one: string, other: string): boolean {
  const [a, b] = [parseCloudAddress(one), parseCloudAddress(other)];
  return a.target === b.target && a.plain === b.plain;
}
