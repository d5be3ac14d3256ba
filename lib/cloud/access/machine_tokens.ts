/**
 * Tokens that open machines: whoever has shown a key here gets one for a machine, which verifies it by itself.
 *
 * Owns the RSA key that signs them; its public half is in the configuration of every machine that leaves to the control
 * plane whom it lets in. A token is for one machine, and names the generation of the key that was shown: it ends at the
 * machine when the machine hears that the key is no more.
 */

import { createPrivateKey, type KeyObject } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import { EXTERNAL, externalToken, publicJwk, Tokens } from "../../wire/tokens.ts";
import type { Secrets } from "../store/secrets.ts";

const ISSUER = "svc-cloud";

interface Signer {
  readonly key: KeyObject;
  readonly jwk: ReturnType<typeof publicJwk>;
}

export class MachineTokens {
  readonly #known = new Map<string, Signer>();

  constructor(private readonly secrets: Pick<Secrets, "good">, private readonly clock: Clock) {}

  /** What machines verify with. */
  get jwks(): readonly Signer["jwk"][] {
    return this.#signers().map(({ jwk }) => jwk);
  }

  issue(entity: string, generation: string, audience: readonly string[]): string {
    const [{ key }] = this.#signers();
    return externalToken({ entity, audience, issuer: ISSUER, generation }, key, this.clock.nowMs());
  }

  /** Whose token for the machine of this name it is, and of which generation. Throws `unauthenticated`. */
  read(token: string, host: string): { readonly entity: string; readonly generation: string } {
    const { jwks: externalKeys, clock } = this;
    const settings = { types: [EXTERNAL], audience: [host], signingKeys: () => [], externalKeys, clock };
    const tokens = new Tokens(settings);
    const claims = tokens.read(token);
    tokens.checkTime(claims);
    return { entity: claims.sub!, generation: claims.svc_gen ?? "" };
  }

  /** The one that signs first. */
  #signers(): Signer[] {
    const signer = (pem: string): Signer => {
      const key = createPrivateKey(pem);
      return { key, jwk: publicJwk(key) };
    };
    return this.secrets.good("machine-token").map((pem) => this.#known.getOrInsertComputed(pem, signer));
  }
}
