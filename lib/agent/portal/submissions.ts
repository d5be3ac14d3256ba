/**
 * A user's submissions for setup: a network to join, the machine's credentials.
 *
 * Owns the submissions that are not in use yet, and the problems since a user last looked. The page, the app's service
 * and Bluetooth all submit here, so all of them accept and refuse the same values.
 *
 * The room owns the setup of a device without a network by a person.
 */

import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { Secret } from "../../base/secret.ts";
import { parseCredentials } from "../settings/credentials.ts";
import { isPassphrase, SSID_BYTES_MAX } from "../settings/settings_fields.ts";

/** A Wi-Fi network that is or was in range. */
export interface SeenNetwork {
  readonly ssid: string;
  /** `WPA2`, `WPA1 WPA2`, `OWE` (encrypted without a password); empty for an open network. */
  readonly security: string;
  /** 0 to 100. */
  readonly signal: number;
  readonly connected: boolean;
  /** Why the last attempt to join it failed; empty if it did not. */
  readonly lastError: string;
}

/** Whether nobody needs a password to join a network with this security. */
export function isWithoutPassword(security: string): boolean {
  return security.split(" ").every((word) => ["", "OWE", "OWE-TM"].includes(word));
}

/** Enhanced open: joined with encryption. Beside others, as in transition mode (OWE-TM), the device joins without. */
export function isOnlyOwe(security: string): boolean {
  return security === "OWE";
}

/** The device's facts about itself. */
export interface DeviceView {
  readonly manufacturer: string;
  readonly model: string;
  readonly fragmentId: string;
  readonly agentVersion: string;
  readonly configured: boolean;
  readonly online: boolean;
  /** Strongest first. */
  readonly networks: readonly SeenNetwork[];
  /** The network of the last try. */
  readonly lastTried?: SeenNetwork;
}

/** A complete submission. */
export interface ProvisioningSubmission {
  readonly network?: { readonly ssid: string; readonly psk: Secret };
  /** The text of a credentials file. */
  readonly credentials?: Secret;
}

const ERRORS_MAX = 20;
const CREDENTIALS_CHARS_MAX = 16 * 1024;

export class ProvisioningSubmissions {
  #network: ProvisioningSubmission["network"];
  #credentials: ProvisioningSubmission["credentials"];
  #errors: string[] = [];
  #userMs: number | undefined;
  #lookMs: number | undefined;

  /** `take` gets each complete submission once. */
  constructor(
    private readonly clock: Clock,
    readonly device: () => DeviceView,
    private readonly take: (submitted: ProvisioningSubmission) => void,
  ) {}

  /** When a person did something last, on the clock that never goes back. */
  get userMs(): number | undefined {
    return this.#userMs;
  }

  /** When an app has looked last, on the same clock. */
  get lookMs(): number | undefined {
    return this.#lookMs;
  }

  /** Records that a person did something. */
  userSeen(): void {
    this.#userMs = this.clock.monotonicMs();
  }

  /** Records that an app has looked, which apps repeat by themselves. */
  looked(): void {
    this.#lookMs = this.clock.monotonicMs();
  }

  /** Stores a network to join. An empty passphrase means an open network. Throws `invalid_argument`. */
  network(ssid: string, psk: string): void {
    this.userSeen();
    const bytes = new TextEncoder().encode(ssid).length;
    if (bytes === 0) throw wrong("choose a network, or enter the name of one");
    if (bytes > SSID_BYTES_MAX) {
      throw wrong(`the network's name has ${bytes} bytes, and no network has more than ${SSID_BYTES_MAX}`);
    }
    if (psk !== "" && !isPassphrase(psk)) {
      throw wrong("a Wi-Fi password has 8 to 63 characters, or 64 hexadecimal digits");
    }
    this.#network = { ssid, psk: new Secret(psk) };
  }

  /** Stores the text of a credentials file. Throws `invalid_argument`, which shows nothing of it. */
  credentials(text: string): void {
    this.userSeen();
    if (text.length > CREDENTIALS_CHARS_MAX) {
      throw wrong(`the credentials have ${text.length} characters, wanted at most ${CREDENTIALS_CHARS_MAX}`);
    }
    parseCredentials(new TextEncoder().encode(text), "the machine's credentials");
    this.#credentials = new Secret(text);
  }

  /** Submits the stored values. Throws `failed_precondition` if something that the device needs is missing. */
  submit(): void {
    this.userSeen();
    const { configured, online } = this.device();
    if (!configured && !this.#credentials) {
      throw new SvcError("failed_precondition", "the machine's credentials are missing");
    }
    if (!online && !this.#network) throw new SvcError("failed_precondition", "a network to join is missing");
    const submitted = { network: this.#network, credentials: this.#credentials };
    this.forget();
    this.#errors = [];
    this.take(submitted);
  }

  /** Drops unused values, so that the next user starts from scratch. */
  forget(): void {
    [this.#network, this.#credentials] = [undefined, undefined];
  }

  /** Stores a problem for the user's next look. */
  report(error: string): void {
    this.#errors = [...this.#errors.filter((one) => one !== error), error].slice(-ERRORS_MAX);
  }

  /** The problems since a user last looked; keeps them for the next look. */
  get recentErrors(): readonly string[] {
    return this.#errors;
  }

  /** Returns and clears the problems since a user last looked. */
  errors(): readonly string[] {
    const errors = this.#errors;
    this.#errors = [];
    return errors;
  }
}

function wrong(message: string): SvcError {
  return new SvcError("invalid_argument", message);
}
