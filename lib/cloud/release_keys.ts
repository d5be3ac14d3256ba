/**
 * The keys that this control plane signs releases and packages with.
 *
 * Owns one secret in the database: the line of public keys, and the private key of the newest one. A key that has
 * been replaced signs nothing any more, as its private half is gone.
 */

import type { Clock } from "../base/clock.ts";
import {
  newReleaseKey,
  type ReleaseKey,
  type ReleaseStatement,
  signRelease,
} from "../base/release_signature.ts";
import type { SignedRelease } from "../base/release_signature.ts";
import { secretOf, type Store } from "./store.ts";

const SECRET = "release-keys";

interface Kept {
  /** Oldest first. */
  readonly keys: readonly ReleaseKey[];
  readonly privateKeyPem: string;
}

export class ReleaseKeys {
  constructor(private readonly store: Store, private readonly clock: Clock) {}

  /** The public keys, oldest first; the last one signs. */
  async list(): Promise<readonly ReleaseKey[]> {
    return (await this.#kept()).keys;
  }

  async sign(statement: ReleaseStatement): Promise<SignedRelease> {
    return signRelease(statement, (await this.#kept()).privateKeyPem);
  }

  /** Replaces the key that signs by a new one, signed by it. */
  async rotate(): Promise<ReleaseKey> {
    await this.#kept();
    return await this.store.transaction(async (sql) => {
      const [{ value }] = await sql.query<{ value: string }>(
        "SELECT value FROM secrets WHERE name = ?",
        SECRET,
      );
      const { keys, privateKeyPem }: Kept = JSON.parse(value);
      const made = newReleaseKey(this.clock.nowMs(), privateKeyPem);
      const next: Kept = { keys: [...keys, made.key], privateKeyPem: made.privateKeyPem };
      await sql.query("UPDATE secrets SET value = ? WHERE name = ?", JSON.stringify(next), SECRET);
      return made.key;
    });
  }

  async #kept(): Promise<Kept> {
    return JSON.parse(
      await secretOf(this.store, SECRET, () => {
        const { key, privateKeyPem } = newReleaseKey(this.clock.nowMs());
        return JSON.stringify({ keys: [key], privateKeyPem } satisfies Kept);
      }),
    );
  }
}
