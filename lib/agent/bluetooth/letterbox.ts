/**
 * The values that a phone hands in over Bluetooth, decrypted and checked.
 *
 * Each value is encrypted for the device's own key (RSA-OAEP, SHA-256, 2048 bits) and begins with the hotspot's
 * password and a colon. A value without the right password is refused and changes nothing. Values are processed in
 * order, with a limit per minute and of those waiting. No error contains a value.
 */

import { Buffer } from "node:buffer";
import { createHash, timingSafeEqual } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { Secret } from "../../base/secret.ts";
import type { Intake } from "../portal/intake.ts";
import type { Written } from "./values.ts";

export interface LetterboxParts {
  readonly intake: Intake;
  readonly clock: Clock;
  /** The hotspot's present password. */
  readonly password: () => Secret;
  /** Opens pairing with phones, or ends that. */
  readonly unlock: (open: boolean) => void;
}

const KEY_BITS = 2048;
export const SEALED_BYTES = KEY_BITS / 8;
const KEY = { name: "RSA-OAEP", hash: "SHA-256" } as const;
const WAITING_MAX = 32;
/** A phone writes eight values at a time. */
const VALUES_PER_MINUTE = 80;
const MINUTE_MS = 60_000;

export class Letterbox {
  readonly #values = new Map<Written, Secret>();
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  #taken: number[] = [];

  private constructor(
    private readonly parts: LetterboxParts,
    private readonly keys: CryptoKeyPair,
    /** SubjectPublicKeyInfo, DER. */
    readonly publicKey: Buffer,
  ) {}

  /** Generates a new key. */
  static async make(parts: LetterboxParts): Promise<Letterbox> {
    const algorithm = { ...KEY, modulusLength: KEY_BITS, publicExponent: new Uint8Array([1, 0, 1]) };
    const keys = await crypto.subtle.generateKey(algorithm, false, ["encrypt", "decrypt"]);
    return new Letterbox(parts, keys, Buffer.from(await crypto.subtle.exportKey("spki", keys.publicKey)));
  }

  /** Takes a value; `exit_provisioning` submits all of them. Throws the problem. */
  async take(name: Written, sealed: Uint8Array): Promise<void> {
    if (this.#waiting >= WAITING_MAX || this.#isTooOften()) {
      throw new SvcError("resource_exhausted", "too many values in one minute; wait a little");
    }
    this.#waiting++;
    const taking = this.#last.then(() => this.#open(sealed)).then((value) => this.#keep(name, value));
    this.#last = taking.catch(() => {});
    try {
      await taking;
    } finally {
      this.#waiting--;
    }
  }

  forget(): void {
    this.#values.clear();
  }

  #isTooOften(): boolean {
    const nowMs = this.parts.clock.monotonicMs();
    this.#taken = this.#taken.filter((ms) => nowMs - ms < MINUTE_MS);
    if (this.#taken.length >= VALUES_PER_MINUTE) return true;
    this.#taken.push(nowMs);
    return false;
  }

  async #open(sealed: Uint8Array): Promise<string> {
    const opened = await crypto.subtle.decrypt(KEY, this.keys.privateKey, new Uint8Array(sealed))
      .catch(() => {
        throw new SvcError("invalid_argument", "the value is not encrypted for this device's key");
      });
    const bytes = Buffer.from(opened);
    const wanted = Buffer.from(`${this.parts.password().reveal()}:`);
    const [given, known] = [bytes.subarray(0, wanted.length), wanted]
      .map((one) => createHash("sha256").update(one).digest());
    if (!timingSafeEqual(given, known)) {
      throw new SvcError("permission_denied", "the password of the device's hotspot is wrong");
    }
    return bytes.subarray(wanted.length).toString("utf8");
  }

  #keep(name: Written, value: string): void {
    const { intake, unlock } = this.parts;
    intake.used();
    if (name === "unlock_pairing") return unlock(booleanOf(value));
    if (name === "exit_provisioning") return this.#handIn();
    this.#values.set(name, new Secret(value));
  }

  #handIn(): void {
    const { intake } = this.parts;
    const of = (name: Written) => this.#values.get(name)?.reveal() ?? "";
    const [ssid, psk, id, secret] = [of("ssid"), of("psk"), of("id"), of("secret")];
    const [key, address] = [of("api_key"), of("app_address")];
    this.forget();
    intake.forget();
    if (ssid !== "") intake.network(ssid, psk);
    const apiKey = apiKeyOf(key);
    if (id !== "" || secret !== "" || apiKey) {
      const cloud = {
        id,
        app_address: address,
        ...secret === "" ? {} : { secret },
        ...apiKey && { api_key: apiKey },
      };
      intake.credentials(JSON.stringify({ cloud }));
    }
    intake.done();
  }
}

/** The spellings that Go's `strconv.ParseBool` takes, which the published device reads this value with. */
function booleanOf(text: string): boolean {
  if (/^(1|t|true)$/i.test(text)) return true;
  if (/^(0|f|false)$/i.test(text)) return false;
  throw new SvcError("invalid_argument", "unlock_pairing is neither true nor false");
}

/** Phones without credentials send empty texts. */
function apiKeyOf(text: string): { id: string; key: string } | undefined {
  if (text === "") return undefined;
  try {
    const { id, key } = JSON.parse(text);
    return id === "" && key === "" ? undefined : { id, key };
  } catch {
    throw new SvcError("invalid_argument", 'the API key is no JSON of the form {"id": "…", "key": "…"}');
  }
}
