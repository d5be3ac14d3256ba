/**
 * Tokens that open machines: a caller who has presented a key here gets a token for one machine, which verifies it
 * alone.
 *
 * Owns the RSA key that signs them; its public half is in the configuration of every machine that lets the control
 * plane decide who may call. A token names its machine and the generation of the key: the machine rejects it once it
 * hears that the key is gone.
 */

import { createPrivateKey, type KeyObject } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import { EXTERNAL, externalToken, publicJwk, Tokens } from "../../wire/auth/tokens.ts";
import type { Secrets } from "../store/secrets/secrets.ts";
import { assert } from "../../base/error.ts";

const ISSUER = "svc-cloud";

interface Signer {
  readonly key: KeyObject;
  readonly jwk: ReturnType<typeof publicJwk>;
}

export class MachineTokens {
  readonly #known = new Map<string, Signer>();

  constructor(private readonly secrets: Pick<Secrets, "good">, private readonly clock: Clock) {}

  /** The public keys with which machines verify. */
  get jwks(): readonly Signer["jwk"][] {
    return this.#signers().map(({ jwk }) => jwk);
  }

  issue(entity: string, generation: string, audience: readonly string[]): string {
    const [signer] = this.#signers();
    assert(signer, "there is no key that signs tokens");
    return externalToken({ entity, audience, issuer: ISSUER, generation }, signer.key, this.clock.nowMs());
  }

  /** The owner and generation of a token for the machine of this name. Throws `unauthenticated`. */
  read(token: string, host: string): { readonly entity: string; readonly generation: string } {
    const { jwks: externalKeys, clock } = this;
    const settings = { types: [EXTERNAL], audience: [host], signingKeys: () => [], externalKeys, clock };
    const tokens = new Tokens(settings);
    const claims = tokens.read(token);
    tokens.checkTime(claims);
    return { entity: claims.sub!, generation: claims.svc_gen ?? "" };
  }

  /** The signing keys; the first one signs. */
  #signers(): Signer[] {
    const signer = (pem: string): Signer => {
      const key = createPrivateKey(pem);
      return { key, jwk: publicJwk(key) };
    };
    return this.secrets.good("machine-token").map((pem) => this.#known.getOrInsertComputed(pem, signer));
  }
}
