/**
 * The signed word of a control plane that a version is the current one of a channel or range. It expires, so that
 * nobody can hold a device at an old version by repeating an old word: the timestamp role of The Update Framework,
 * reduced to one statement (docs/decisions/update_freshness.md).
 */

import { SvcError } from "../error.ts";
import { type ReleaseKey, signedBy, type SignedRelease, verifiedBy } from "./signature.ts";

export interface ChannelStatement {
  readonly name: string;
  /** `stable`, `dev`, `latest`, or a range such as `^1.2`. */
  readonly wanted: string;
  /** The platform that was asked for: `linux/amd64`. */
  readonly platform: string;
  /** The version that it means now, and the SHA-256 of its content. */
  readonly version: string;
  readonly sha256: string;
  /** Milliseconds since 1970. */
  readonly issued_ms: number;
  readonly expires_ms: number;
}

/** The content of a `.channel` file. */
export type SignedChannel = Omit<SignedRelease, "statement"> & { readonly statement: ChannelStatement };

const FORMAT = "svc-channel-1";
const HOUR_MS = 3600_000;
/** Time for which a word holds. */
export const VALID_MS = 7 * 24 * HOUR_MS;
/** The longest validity that a device accepts. */
const VALID_MAX_MS = 31 * 24 * HOUR_MS;
/** Clocks may differ by this much. */
const SKEW_MS = 24 * HOUR_MS;

/** Signs the present meaning of a channel, as of the last full hour. */
export function signChannel(
  current: Omit<ChannelStatement, "issued_ms" | "expires_ms">,
  nowMs: number,
  privateKeyPem: string,
): SignedChannel {
  const issued_ms = Math.floor(nowMs / HOUR_MS) * HOUR_MS;
  const statement = { ...current, issued_ms, expires_ms: issued_ms + VALID_MS };
  return { statement, ...signedBy(FORMAT, { ...statement }, privateKeyPem) };
}

/** The statement of a `.channel` file, as `verifyRelease`. */
export function verifyChannel(sig: unknown, keys: readonly ReleaseKey[]): ChannelStatement {
  const { statement, key, signature } = (sig ?? {}) as { [key: string]: unknown };
  const { name, wanted, platform, version, sha256, issued_ms, expires_ms } = (statement ?? {}) as {
    [key: string]: unknown;
  };
  const texts = [key, signature, name, wanted, platform, version, sha256];
  const isWhole = texts.every((one) => typeof one === "string") &&
    [issued_ms, expires_ms].every((one) => Number.isSafeInteger(one));
  if (!isWhole) {
    const members = "{name, wanted, platform, version, sha256, issued_ms, expires_ms}";
    const found = "the control plane's word for the channel is broken";
    throw new SvcError(
      "data_loss",
      `${found}, wanted an object with statement ${members}, key and signature`,
    );
  }

  const whole = { name, wanted, platform, version, sha256, issued_ms, expires_ms } as ChannelStatement;
  const what = `the word for "${whole.wanted}" of ${whole.name}`;
  verifiedBy(
    FORMAT,
    what,
    { statement: { ...whole }, key: key as string, signature: signature as string },
    keys,
  );

  return whole;
}

/**
 * Why a word does not count now; `undefined` if it does. A clock that is behind the word's own date was never set: then
 * it cannot tell that the word has expired, and the word counts.
 */
export function staleness({ wanted, name, issued_ms, expires_ms }: ChannelStatement, nowMs: number) {
  const what = `the control plane's word for "${wanted}" of ${name}`;
  if (expires_ms - issued_ms > VALID_MAX_MS) return `${what} is for more than 31 days`;
  if (nowMs <= expires_ms + SKEW_MS) return undefined;
  const clock = `the clock of this device says ${dateOf(nowMs)}`;
  return `${what} expired on ${
    dateOf(expires_ms)
  }, and ${clock}: either somebody withholds newer versions, or the ` +
    "clock is wrong; what is installed stays";
}

function dateOf(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? "no date" : date.toISOString().slice(0, 10);
}
