/**
 * Addresses as people may see them: without a user and password, and with signatures and keys in the query shortened.
 *
 * Every address that a program logs, reports, or keeps in a file of its state goes through here. Pure.
 */

/** Names in a query whose values give access to what the address leads to. */
const SECRET_NAME =
  /(^|[-_.])(sig|signature|token|jwt|key|apikey|secret|password|passwd|pwd|pass|auth|authorization|credentials?|code|hmac|policy)([-_.\d]|$)|^(accesskey|accesstoken|authkey|authtoken|sessiontoken)/i;
const SECRET_WORD = /[a-z](Token|Signature|Key|Secret|Password|Credential)$/;
/** What is left of such a value, to tell two of them apart. */
const SHOWN_CHARS = 4;
const SHORTENED = "…";
/** An address in a text ends at white space, quotes and brackets. */
const URLS = /\b[a-z][a-z0-9+.-]{0,30}:\/\/[^\s"'`<>\\^{}|]+/gi;
/** A longer text is logged with whatever it has. */
const TEXT_CHARS_MAX = 64 * 1024;

/** One address as people may see it. A text that is no address loses what stands before an @. */
export function shownUrl(text: string): string {
  const [, scheme, authority, rest] = /^([a-z][a-z0-9+.-]*:\/\/)([^/?#]*)(.*)$/is.exec(text) ?? [];
  if (scheme === undefined) return text.replace(/^[^/?#]*@/, "");
  const host = authority.slice(authority.lastIndexOf("@") + 1);
  const [, path, query = "", hash = ""] = /^([^?#]*)(\?[^#]*)?(#.*)?$/s.exec(rest)!;
  return `${scheme}${host}${path}${shownPairs(query)}${shownPairs(hash)}`;
}

/** A text with each address in it as people may see it. */
export function shownUrlsIn(text: string): string {
  if (!text.includes("://") || text.length > TEXT_CHARS_MAX) return text;
  return text.replace(URLS, (url) => {
    // Punctuation after an address belongs to the sentence.
    const end = /[),.;:\]]*$/.exec(url)![0];
    return shownUrl(url.slice(0, url.length - end.length)) + end;
  });
}

/** A query or the part after #, with the values of secret names shortened. */
function shownPairs(text: string): string {
  return text.replace(/([?&#;])([^=&;]*)=([^&;]*)/g, (whole, before: string, name: string, value: string) => {
    if (value === "" || !(SECRET_NAME.test(name) || SECRET_WORD.test(name))) return whole;
    // A short value would be half known by its beginning.
    const shown = value.length >= 4 * SHOWN_CHARS ? value.slice(0, SHOWN_CHARS) : "";
    return `${before}${name}=${shown}${SHORTENED}`;
  });
}
