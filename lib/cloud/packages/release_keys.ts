/**
 * The keys with which this control plane signs releases and packages.
 *
 * One of its secrets: the chain of public keys, and the private key of the newest one. A replaced key cannot sign any
 * more, because its private half is gone.
 */

import { type ChannelStatement, signChannel, type SignedChannel } from "../../base/release/channel.ts";
import { type ReleaseKey, type ReleaseStatement, signRelease } from "../../base/release/signature.ts";
import type { SignedRelease } from "../../base/release/signature.ts";
import type { ReleaseSecret } from "../store/secrets/secret_kinds.ts";
import type { Secrets } from "../store/secrets/secrets.ts";
import { assert } from "../../base/error.ts";

export class ReleaseKeys {
  constructor(private readonly secrets: Pick<Secrets, "good" | "rotate">) {}

  /** The public keys, oldest first; the last one signs. */
  list(): readonly ReleaseKey[] {
    return this.#secret.keys;
  }

  sign(statement: ReleaseStatement): SignedRelease {
    return signRelease(statement, this.#secret.privateKeyPem);
  }

  /** The signed statement, valid from now on, that a version is the current one of a channel or range. */
  signChannel(current: Omit<ChannelStatement, "issued_ms" | "expires_ms">, nowMs: number): SignedChannel {
    return signChannel(current, nowMs, this.#secret.privateKeyPem);
  }

  /** Replaces the signing key by a new one, signed by it. */
  async rotate(): Promise<ReleaseKey> {
    await this.secrets.rotate("release");
    return this.list().at(-1)!;
  }

  get #secret(): ReleaseSecret {
    const [newest] = this.secrets.good("release");
    assert(newest !== undefined, "there is no key that signs releases");
    return JSON.parse(newest);
  }
}
