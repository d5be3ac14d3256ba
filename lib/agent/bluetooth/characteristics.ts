/**
 * Decrypts and checks the values that a phone writes over Bluetooth.
 *
 * Each value is encrypted for the device's own key (RSA-OAEP, SHA-256, 2048 bits) and begins with the hotspot's
 * password and a colon. A value without the right password is refused and changes nothing. So is a repeated value,
 * because an eavesdropper could have recorded it, and write it again later or elsewhere. Values are processed in
 * order. There is a limit of values per minute and one of waiting values, and each phone has a share of both. No error
 * contains a value.
 */

import { Buffer } from "node:buffer";
import { createHash, timingSafeEqual } from "node:crypto";
import { SerialQueue } from "../../base/async/serial_queue.ts";
import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { Secret } from "../../base/secret.ts";
import type { ProvisioningSubmissions } from "../portal/submissions.ts";
import type { Written } from "./values.ts";

export interface SealedCharacteristicsParts {
  readonly submissions: ProvisioningSubmissions;
  readonly clock: Clock;
  /** The hotspot's present password. */
  readonly password: () => Secret;
  /** Opens pairing with phones, or closes it. */
  readonly unlock: (open: boolean) => void;
}

const KEY_BITS = 2048;
export const SEALED_BYTES = KEY_BITS / 8;
const KEY = { name: "RSA-OAEP", hash: "SHA-256" } as const;
/** Limits of waiting values: of all phones, and of one. A phone writes eight values at a time. */
const WAITING_MAX = 32;
const WAITING_OF_PHONE_MAX = 10;
const VALUES_PER_MINUTE = 800;
const VALUES_OF_PHONE_PER_MINUTE = 80;
const MINUTE_MS = 60_000;
/** Limit of accepted values per key; a key that reaches it is replaced at the next offer. */
const ACCEPTED_MAX = 2_000;
/** After this many accepted values a new key is due; people write few. */
const ACCEPTED_MANY = 200;

export class SealedCharacteristics {
  readonly #values = new Map<Written, Secret>();
  readonly #queue = new SerialQueue();
  /** The phones of the waiting values. */
  #waiting: string[] = [];
  /** The values of the last minute. */
  #taken: { readonly phone: string; readonly ms: number }[] = [];
  /**
   * Hashes of the accepted values. Values with a wrong password are not remembered: they have no effect when they are
   * repeated.
   */
  readonly #accepted = new Set<string>();

  private constructor(
    private readonly parts: SealedCharacteristicsParts,
    private readonly keys: CryptoKeyPair,
    /** SubjectPublicKeyInfo, DER. */
    readonly publicKey: Buffer,
  ) {}

  /** Generates a new key. */
  static async make(parts: SealedCharacteristicsParts): Promise<SealedCharacteristics> {
    const algorithm = { ...KEY, modulusLength: KEY_BITS, publicExponent: new Uint8Array([1, 0, 1]) };
    const keys = await crypto.subtle.generateKey(algorithm, false, ["encrypt", "decrypt"]);
    return new SealedCharacteristics(
      parts,
      keys,
      Buffer.from(await crypto.subtle.exportKey("spki", keys.publicKey)),
    );
  }

  /** Whether a new key is due: the present one has opened many values. */
  get isWorn(): boolean {
    return this.#accepted.size >= ACCEPTED_MANY;
  }

  /** Takes a value of a phone; `exit_provisioning` submits all of them. Throws the problem. */
  async write(name: Written, sealed: Uint8Array, phone: string): Promise<void> {
    if (this.#isTooMuch(phone)) {
      throw new SvcError("resource_exhausted", "too many values in one minute; wait a little");
    }
    this.#waiting.push(phone);
    try {
      await this.#queue.run(async () => this.#keep(name, await this.#open(sealed)));
    } finally {
      this.#waiting.splice(this.#waiting.indexOf(phone), 1);
    }
  }

  forget(): void {
    this.#values.clear();
  }

  #isTooMuch(phone: string): boolean {
    const nowMs = this.parts.clock.monotonicMs();
    this.#taken = this.#taken.filter(({ ms }) => nowMs - ms < MINUTE_MS);
    const waiting = this.#waiting.filter((one) => one === phone).length;
    const taken = this.#taken.filter((one) => one.phone === phone).length;
    if (this.#waiting.length >= WAITING_MAX || waiting >= WAITING_OF_PHONE_MAX) return true;
    if (this.#taken.length >= VALUES_PER_MINUTE || taken >= VALUES_OF_PHONE_PER_MINUTE) return true;
    this.#taken.push({ phone, ms: nowMs });
    return false;
  }

  async #open(sealed: Uint8Array): Promise<string> {
    const opened = await crypto.subtle.decrypt(KEY, this.keys.privateKey, new Uint8Array(sealed))
      .catch(() => {
        throw new SvcError("invalid_argument", "the value is not encrypted for this device's key");
      });
    const bytes = Buffer.from(opened);
    const wanted = Buffer.from(`${this.parts.password().reveal()}:`);
    const hashOf = (text: Uint8Array) => createHash("sha256").update(text).digest();
    if (!timingSafeEqual(hashOf(bytes.subarray(0, wanted.length)), hashOf(wanted))) {
      throw new SvcError("permission_denied", "the password of the device's hotspot is wrong");
    }
    this.#accept(createHash("sha256").update(sealed).digest("base64"));
    return bytes.subarray(wanted.length).toString("utf8");
  }

  /** Encryption is randomized, so only an eavesdropper can send the same bytes twice. */
  #accept(hash: string): void {
    if (this.#accepted.has(hash)) {
      throw new SvcError("permission_denied", "the value was written before; encrypt it anew");
    }
    if (this.#accepted.size >= ACCEPTED_MAX) {
      throw new SvcError("resource_exhausted", "this device's key is used up; connect again");
    }
    this.#accepted.add(hash);
  }

  #keep(name: Written, value: string): void {
    const { submissions, unlock } = this.parts;
    submissions.userSeen();
    if (name === "unlock_pairing") return unlock(booleanOf(value));
    if (name === "exit_provisioning") return this.#submit();
    this.#values.set(name, new Secret(value));
  }

  #submit(): void {
    const { submissions } = this.parts;
    const of = (name: Written) => this.#values.get(name)?.reveal() ?? "";
    const [ssid, psk, id, secret] = [of("ssid"), of("psk"), of("id"), of("secret")];
    const [key, address] = [of("api_key"), of("app_address")];
    this.forget();
    submissions.forget();
    if (ssid !== "") submissions.network(ssid, psk);
    const apiKey = apiKeyOf(key);
    if (id !== "" || secret !== "" || apiKey) {
      const cloud = {
        id,
        app_address: address,
        ...secret === "" ? {} : { secret },
        ...apiKey && { api_key: apiKey },
      };
      submissions.credentials(JSON.stringify({ cloud }));
    }
    submissions.submit();
  }
}

/** Parses the spellings of Go's `strconv.ParseBool`, which the published agent uses for this value. */
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
