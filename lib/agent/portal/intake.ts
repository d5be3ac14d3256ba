/**
 * What people hand in to set a device up: a network to join, the machine's credentials.
 *
 * Owns what was handed in and is not in use yet, and what went wrong since somebody last looked. The page, the app's
 * service and Bluetooth are three ways to the one intake, so all of them take and refuse the same.
 *
 * The room owns the ways by which a person sets up a device that is on no network.
 */

import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { Secret } from "../../base/secret.ts";
import { parseCredentials } from "../settings/credentials.ts";
import { isPassphrase, SSID_BYTES_MAX } from "../settings/settings_rows.ts";

/** A Wi-Fi network in range, or one that was. */
export interface SeenNetwork {
  readonly ssid: string;
  /** `WPA2`, `WPA1 WPA2`; empty for an open network. */
  readonly security: string;
  /** 0 to 100. */
  readonly signal: number;
  readonly connected: boolean;
  /** Why the last attempt to join it failed; empty if it did not. */
  readonly lastError: string;
}

/** What the device tells of itself. */
export interface DeviceView {
  readonly manufacturer: string;
  readonly model: string;
  readonly fragmentId: string;
  readonly agentVersion: string;
  readonly configured: boolean;
  readonly online: boolean;
  /** The strongest first. */
  readonly networks: readonly SeenNetwork[];
  /** The network that was tried last. */
  readonly lastTried?: SeenNetwork;
}

/** Handed in as a whole. */
export interface HandedIn {
  readonly network?: { readonly ssid: string; readonly psk: Secret };
  /** The text of a credentials file. */
  readonly credentials?: Secret;
}

const ERRORS_MAX = 20;
const CREDENTIALS_CHARS_MAX = 16 * 1024;

export class Intake {
  #network: HandedIn["network"];
  #credentials: HandedIn["credentials"];
  #errors: string[] = [];
  #userMs: number | undefined;

  /** `take` gets what was handed in, once for each time that somebody says that it is all. */
  constructor(
    private readonly clock: Clock,
    readonly device: () => DeviceView,
    private readonly take: (handedIn: HandedIn) => void,
  ) {}

  /** When a person last did something, by the clock that never goes back. */
  get userMs(): number | undefined {
    return this.#userMs;
  }

  /** A person does something. */
  used(): void {
    this.#userMs = this.clock.monotonicMs();
  }

  /** Keeps a network to join. An empty passphrase is that of an open network. Throws `invalid_argument`. */
  network(ssid: string, psk: string): void {
    this.used();
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

  /** Keeps the text of a credentials file. Throws `invalid_argument`, which shows nothing of it. */
  credentials(text: string): void {
    this.used();
    if (text.length > CREDENTIALS_CHARS_MAX) {
      throw wrong(`the credentials have ${text.length} characters, wanted at most ${CREDENTIALS_CHARS_MAX}`);
    }
    parseCredentials(new TextEncoder().encode(text), "the machine's credentials");
    this.#credentials = new Secret(text);
  }

  /** What was kept is all. Throws `failed_precondition` if something is missing that the device needs. */
  done(): void {
    this.used();
    const { configured, online } = this.device();
    if (!configured && !this.#credentials) {
      throw new SvcError("failed_precondition", "the machine's credentials are missing");
    }
    if (!online && !this.#network) throw new SvcError("failed_precondition", "a network to join is missing");
    const handedIn = { network: this.#network, credentials: this.#credentials };
    this.forget();
    this.#errors = [];
    this.take(handedIn);
  }

  /** Forgets what was kept and is not in use: whoever comes next begins anew. */
  forget(): void {
    [this.#network, this.#credentials] = [undefined, undefined];
  }

  /** Tells the person something that went wrong, when they look next. */
  tell(error: string): void {
    this.#errors = [...this.#errors.filter((one) => one !== error), error].slice(-ERRORS_MAX);
  }

  /** What went wrong since somebody last looked; it stays for whoever looks next. */
  get recentErrors(): readonly string[] {
    return this.#errors;
  }

  /** What went wrong since somebody last looked. */
  errors(): readonly string[] {
    const errors = this.#errors;
    this.#errors = [];
    return errors;
  }
}

function wrong(message: string): SvcError {
  return new SvcError("invalid_argument", message);
}
