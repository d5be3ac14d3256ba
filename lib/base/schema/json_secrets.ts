/**
 * Finds the secrets in a JSON document, and compares two documents without revealing them.
 *
 * Attributes belong to models, some of which this program does not know. So a setting is secret by its name or by the
 * form of its value: users, passwords and signatures in URLs, and private keys, anywhere. Every part that prints, logs or compares
 * configurations uses these functions. A test makes sure that the settings which are secret in a schema (`secret.ts`)
 * have such names.
 */

import { replaceUrlSecretsIn } from "../log/shown_url.ts";
import { isObject, type Json, type JsonObject } from "./schema.ts";

export const STARS = "******";

const SECRET = /passw|passphrase|passcode|pwd|secret|token|psk|credential|bearer|cookie/i;
const WHOLE = /^(?:pass|payload)$/i;
const KEY = /(?:^|[_.-])[Kk][Ee][Yy][Ss]?$|[a-z0-9]Keys?$/;
/** Names that end like a key and are not secret: names of readings, and public values. */
const NO_KEY = /public|allowed/i;
/** Objects with environment variables: all of them may be secret. */
const ENVIRONMENT = /(?:^|_)env(?:iron(?:ment)?)?(?:_?var(?:iable)?s)?$/i;

/** The keys that may call a machine, by id: `auth.handlers[].config`. */
const HANDLERS = "handlers";
const HANDLER_KEYS = "config";

/** A password in an address with characters that end an address in a text. */
const URL_PASSWORD = /([a-z][a-z0-9+.-]{0,20}:\/\/)([^\s/:@"']*:[^\s/@"']+)@/gi;
const PRIVATE_KEY =
  /-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|$)/g;

const LINES_MAX = 500;
const VALUE_CHARS_MAX = 500;

/** Whether a setting of this name holds a secret. */
export function isSecretName(name: string): boolean {
  return SECRET.test(name) || WHOLE.test(name) || (KEY.test(name) && !NO_KEY.test(name));
}

/** The same document with stars in place of its secrets. */
export function starred<T extends Json>(value: T): T {
  return masked(value, [], false) as T;
}

/** A secret in a document. */
export interface FoundSecret {
  /** The names and indices that lead to its value. */
  readonly path: readonly (string | number)[];
  /** Whether only parts of the text are secret (`replaceSecretParts`). */
  readonly isPartly?: boolean;
}

/** Finds all secrets that `starred` hides. */
export function secretsIn(value: Json): FoundSecret[] {
  const found: FoundSecret[] = [];
  const visit = (one: Json, path: readonly (string | number)[], keys: readonly string[], secret: boolean) => {
    if (Array.isArray(one)) {
      for (const [at, member] of one.entries()) visit(member, [...path, at], keys, secret);
    } else if (isObject(one)) {
      for (const [name, member] of Object.entries(one as JsonObject)) {
        const inside = [...keys, name];
        visit(member, [...path, name], inside, secret || hidesAt(inside, member));
      }
    } else if (secret && one !== null) found.push({ path });
    else if (typeof one === "string" && secretParts(one).length > 0) found.push({ path, isPartly: true });
  };
  visit(value, [], [], false);
  return found;
}

/** The secrets in a text: users, passwords and signatures of addresses, and private keys. */
export function secretParts(text: string): string[] {
  const parts: string[] = [];
  replaceSecretParts(text, (part) => {
    parts.push(part);
    return STARS;
  });
  return parts;
}

/** The text with `hide` applied to each secret in it. */
export function replaceSecretParts(text: string, hide: (part: string) => string): string {
  if (!text.includes("://") && !text.includes("-----BEGIN")) return text;
  return replaceUrlSecretsIn(text.replace(PRIVATE_KEY, hide), hide)
    .replace(URL_PASSWORD, (_, scheme: string, user: string) => `${scheme}${hide(user)}@`);
}

/**
 * What changes, one line a setting, with secrets as stars: `~ components.motor1.attributes.max_rpm: 100 -> 200`,
 * `+ path: value`, `- path: value`. Lists of things with names are compared by name. At most 500 lines.
 */
export function jsonDiff(before: Json | undefined, after: Json | undefined): string[] {
  const lines = differences(before, after, [], [], false);
  const more = lines.length - LINES_MAX;
  return more > 0 ? [...lines.slice(0, LINES_MAX), `and ${more} more`] : lines;
}

/**
 * `shown`: the path as people see it. `keys`: the names of the settings on the path, without names of list entries.
 */
function differences(
  before: Json | undefined,
  after: Json | undefined,
  shown: readonly string[],
  keys: readonly string[],
  secret: boolean,
): string[] {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  const path = shown.join(".");
  const [old, now] = [membersOf(before), membersOf(after)];
  if (old && now && old.kind === now.kind) {
    const lines = [...new Set([...old.members.keys(), ...now.members.keys()])].flatMap((name) => {
      const [one, other] = [old.members.get(name), now.members.get(name)];
      const inside = old.kind === "settings" ? [...keys, name] : keys;
      const hides = secret || (old.kind === "settings" && hidesAt(inside, one, other));
      return differences(one, other, [...shown, name], inside, hides);
    });
    return lines.length > 0 ? lines : [`~ ${path}: in another order`];
  }

  const [was, is] = [before, after].map((one) => textOf(one, keys, secret));
  if (before === undefined) return [`+ ${path}: ${is}`];
  if (after === undefined) return [`- ${path}: ${was}`];

  return [`~ ${path}: ${was} -> ${is}`];
}

interface Members {
  readonly kind: "settings" | "things";
  readonly members: ReadonlyMap<string, Json>;
}

/** The settings of an object; the entries of a list if every entry has a unique name. */
function membersOf(value: Json | undefined): Members | undefined {
  if (isObject(value)) return { kind: "settings", members: new Map(Object.entries(value as JsonObject)) };
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const entries = value.flatMap((one) =>
    isObject(one) && typeof one.name === "string" && one.name !== "" ? [[one.name, one] as const] : []
  );
  const members = new Map<string, Json>(entries);
  return members.size === value.length ? { kind: "things", members } : undefined;
}

function hidesAt(keys: readonly string[], ...values: readonly (Json | undefined)[]): boolean {
  const name = keys.at(-1) ?? "";
  if (isSecretName(name)) return true;
  if (name === HANDLER_KEYS && keys.includes(HANDLERS)) return true;
  return ENVIRONMENT.test(name) && values.some((one) => typeof one === "object");
}

function masked(value: Json, keys: readonly string[], secret: boolean): Json {
  if (Array.isArray(value)) return value.map((one) => masked(one, keys, secret));
  if (isObject(value)) {
    const entries = Object.entries(value as JsonObject).map(([name, one]) => {
      const inside = [...keys, name];
      return [name, masked(one, inside, secret || hidesAt(inside, one))] as const;
    });
    return Object.fromEntries(entries);
  }
  if (secret && value !== null) return STARS;
  return typeof value === "string" ? replaceSecretParts(value, () => STARS) : value;
}

function textOf(value: Json | undefined, keys: readonly string[], secret: boolean): string {
  if (value === undefined) return "";
  if (secret) return STARS;
  const text = JSON.stringify(masked(value, keys, false));
  return text.length > VALUE_CHARS_MAX ? `${text.slice(0, VALUE_CHARS_MAX)}…` : text;
}
