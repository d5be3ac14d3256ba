/**
 * Addresses as people may see them: without a user and password, and with signatures and keys in the query shortened.
 *
 * Every address that a program logs, reports, or keeps in a file of its state goes through here. Pure.
 */

import { withoutEnd } from "../escape.ts";

/** Names in a query whose values give access to what the address leads to. */
const SECRET_NAME =
  /(^|[-_.])(sig|signature|token|jwt|key|apikey|secret|password|passwd|pwd|pass|loginpas|auth|authorization|credentials?|code|hmac|hdn(?:ts|ea|tl)|policy)([-_.\d]|$)|^(accesskey|accesstoken|authkey|authtoken|sessiontoken)/i;
const SECRET_WORD = /[a-z](Token|Signature|Key|Secret|Password|Credential)$/;
/** The id of a key opens nothing. */
const KEY_ID = /key[-_.]?id$/i;
/** What is left of such a value, to tell two of them apart. */
const SHOWN_CHARS = 4;
const SHORTENED = "…";
/** An address in a text ends at white space, quotes and brackets. */
const URLS = /\b[a-z][a-z0-9+.-]{0,30}:\/\/[^\s"'`<>\\^{}|]+/gi;
const WHOLE_URL = /^[a-z][a-z0-9+.-]{0,30}:\/\/\S*$/i;
/** A longer value that has an address in it counts as secret. */
const VALUE_CHARS_MAX = 2_000;
/** A longer text is logged with whatever it has. */
const TEXT_CHARS_MAX = 64 * 1024;

/** One address as people may see it. A text that is no address loses what stands before an @. */
export function shownUrl(text: string): string {
  return withoutUrlSecrets(text, (secret, isUser) => {
    if (isUser) return "";
    // A short value would be half known by its beginning.
    return `${secret.length >= 4 * SHOWN_CHARS ? secret.slice(0, SHOWN_CHARS) : ""}${SHORTENED}`;
  });
}

/** A text with each address in it as people may see it. */
export function shownUrlsIn(text: string): string {
  if (!text.includes("://") || text.length > TEXT_CHARS_MAX) return text;
  return text.replace(URLS, (url) => {
    // Punctuation after an address belongs to the sentence.
    const address = withoutEnd(url, "),.;:]");
    return shownUrl(address) + url.slice(address.length);
  });
}

/** The same text with `hide` applied to each secret of each address in it, and to nothing else. */
export function replaceUrlSecretsIn(text: string, hide: (secret: string) => string): string {
  if (!text.includes("://")) return text;
  const replaced = (url: string) =>
    withoutUrlSecrets(url, (secret, isUser) => isUser ? `${hide(secret.slice(0, -1))}@` : hide(secret));
  // An address alone may have characters that would end it in a sentence.
  return WHOLE_URL.test(text) ? replaced(text) : text.replace(URLS, replaced);
}

/** `hide` gets the user and password with the @ after them, and the values of secret names. */
function withoutUrlSecrets(text: string, hide: (secret: string, isUser: boolean) => string): string {
  const [, scheme, after = ""] = /^([a-z][a-z0-9+.-]*:\/\/)(.*)$/is.exec(text) ?? [];
  if (scheme === undefined) return text.replace(/^[^/?#]*@/, (user) => hide(user, true));
  const user = after.slice(0, userEnd(after));
  const [, path = "", query = "", hash = ""] = /^([^?#]*)(\?[^#]*)?(#.*)?$/s.exec(after.slice(user.length))!;
  const pairs = (one: string) => replaceSecretPairs(one, (secret) => hide(secret, false));
  return `${scheme}${user === "" ? "" : hide(user, true)}${pairs(path)}${pairs(query)}${pairs(hash)}`;
}

/** Where the host begins. A password may have the characters that end an authority, if nobody has encoded them. */
function userEnd(after: string): number {
  const [authority] = /^[^/?#]*/.exec(after)!;
  const at = authority.lastIndexOf("@");
  // No host is followed by a fragment in which another @ comes before a path.
  const [more = ""] = at < 0 ? [] : /^#[^/?]*@/.exec(after.slice(authority.length)) ?? [];
  if (at >= 0) return (more === "" ? at : authority.length + more.length - 1) + 1;
  const hasPassword = authority.includes(":") && !/:\d{0,5}$|^\[[^\]]*\]$/.test(authority);
  return hasPassword ? after.lastIndexOf("@") + 1 : 0;
}

/** A query, the part after #, or the path, where many cameras have them, with the values of secret names replaced. */
function replaceSecretPairs(text: string, hide: (secret: string) => string): string {
  return text.replace(
    /([/?&#;])([^=&;?#/]*)=([^&;]*)/g,
    (whole, before: string, name: string, value: string) => {
      if (value === "" || !(isSecretPair(decoded(name)) || hasUrlSecret(decoded(value)))) return whole;
      return `${before}${name}=${hide(value)}`;
    },
  );
}

function isSecretPair(name: string): boolean {
  return (SECRET_NAME.test(name) || SECRET_WORD.test(name)) && !KEY_ID.test(name);
}

/** Whether a value is an address that has secrets itself, as one to go to afterwards may have. */
function hasUrlSecret(value: string): boolean {
  return value.includes("://") && (value.length > VALUE_CHARS_MAX || shownUrl(value) !== value);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
