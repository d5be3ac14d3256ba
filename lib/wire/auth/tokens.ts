/**
 * Tokens: JWTs that state who showed which credentials, when, and how long the token is valid.
 *
 * Owns the claims and the signature of a token. `auth.ts` checks at every call whether the credentials behind a token
 * are still valid. Wording of refusals is the published one.
 */

import { Buffer } from "node:buffer";
import {
  createHash,
  createPublicKey,
  type JsonWebKey,
  type KeyObject,
  randomUUID,
  sign,
  verify,
} from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import { assert, messageOf, SvcError } from "../../base/error.ts";
import { fromBase64url } from "../../base/key_hash.ts";

export const API_KEY = "api-key";
export const ROBOT_SECRET = "robot-secret";
export const LOCATION_SECRET = "robot-location-secret";
export const EXTERNAL = "external";
/**
 * The type of a person who has signed in. The program itself issues such tokens, never in exchange for credentials.
 */
export const SESSION = "session";

/**
 * Lifetime of a token. Published clients of a control plane request a token when they connect and never again
 * (docs/keys.md), so this limits how long such a program runs. To end a token earlier, revoke its key.
 */
export const TOKEN_MS = 30 * 24 * 3600 * 1000;
/**
 * Limits of remembered valid tokens, whose calls cost a look-up instead of a signature check: as many as a control
 * plane has connections, because each machine has its own. With fewer, the calls of many machines would be checked anew
 * each time.
 */
const REMEMBERED_TOKENS = 20_000;
const LONGEST_REMEMBERED = 2 * 1024;
const LONGEST_TOKEN = 16 * 1024;
const RSA_HASHES: Record<string, string> = { RS256: "sha256", RS384: "sha384", RS512: "sha512" };

export interface Claims {
  readonly sub?: string;
  readonly aud?: string | readonly string[];
  readonly iss?: string;
  readonly iat?: number;
  readonly jti?: string;
  /** Seconds since 1970. */
  readonly exp?: number;
  readonly nbf?: number;
  readonly rpc_creds_type?: string;
  /** The generation of the credentials; some outside issuers leave it out. */
  readonly svc_gen?: string;
}

export interface TokenOptions {
  /** The accepted types of credentials. */
  readonly types: readonly string[];
  /** The names of this server, for which tokens are valid; its own name first. */
  readonly audience: readonly string[];
  /** Ed25519 keys. The first one signs, all of them verify. */
  readonly signingKeys: () => readonly KeyObject[];
  /** Keys of outside issuers of tokens for this server, with a `kid`. */
  readonly externalKeys: readonly JsonWebKey[];
  readonly clock: Clock;
}

interface Remembered {
  readonly claims: Claims;
  readonly key: KeyObject;
}

interface Verifier {
  readonly key: KeyObject;
  readonly alg: string;
  readonly hash: string | null;
}

export class Tokens {
  readonly #externalKeys: ReadonlyMap<string, KeyObject>;
  readonly #publicKeys = new WeakMap<KeyObject, { readonly key: KeyObject; readonly id: string }>();
  readonly #remembered = new Map<string, Remembered>();

  constructor(private readonly options: TokenOptions) {
    this.#externalKeys = new Map(
      options.externalKeys.map((key) => [String(key.kid), createPublicKey({ key, format: "jwk" })]),
    );
  }

  issue(entity: string, type: string, generation: string): string {
    const { audience, clock, signingKeys } = this.options;
    const [key] = signingKeys();
    assert(key, "there is no key that signs tokens");
    const iat = Math.floor(clock.nowMs() / 1000);
    const claims: Claims = {
      sub: entity,
      aud: audience,
      iss: audience[0],
      iat,
      exp: iat + TOKEN_MS / 1000,
      jti: randomUUID(),
      rpc_creds_type: type,
      svc_gen: generation,
    };
    const signed = `${encoded({ alg: "EdDSA", kid: this.#public(key).id, typ: "JWT" })}.${encoded(claims)}`;
    return `${signed}.${sign(null, Buffer.from(signed), key).toString("base64url")}`;
  }

  /** The claims of a token for this server, even if it has expired. Throws `unauthenticated`. */
  read(token: string): Claims {
    const known = this.#remembered.get(token);
    if (known && this.#isTrusted(known.key)) return known.claims;
    return this.#verify(token);
  }

  /** Throws `unauthenticated` if a token has expired or is not valid yet. */
  checkTime({ exp, nbf }: Claims): void {
    const seconds = this.options.clock.nowMs() / 1000;
    if (exp !== undefined && seconds >= exp) throw unauthenticated("unauthenticated: token is expired");
    if (nbf !== undefined && seconds < nbf) throw unauthenticated("unauthenticated: token is not valid yet");
  }

  /** Rotation removes keys while their tokens are remembered. */
  #isTrusted(key: KeyObject): boolean {
    return this.options.signingKeys().some((one) => this.#public(one).key === key) ||
      [...this.#externalKeys.values()].includes(key);
  }

  #verify(token: string): Claims {
    this.#remembered.delete(token);
    let found: Remembered;
    try {
      found = this.#signedClaims(token);
    } catch (error) {
      throw unauthenticated(`unauthenticated: ${messageOf(error)}`);
    }

    const { claims } = found;
    const audience = [claims.aud].flat();
    if (!this.options.audience.some((name) => audience.includes(name))) {
      throw unauthenticated("invalid audience");
    }
    if (!claims.sub) throw unauthenticated("expected entity (sub) in claims");

    if (token.length > LONGEST_REMEMBERED) return claims;
    if (this.#remembered.size >= REMEMBERED_TOKENS) {
      this.#remembered.delete(this.#remembered.keys().next().value!);
    }
    this.#remembered.set(token, found);
    return claims;
  }

  #signedClaims(token: string): Remembered {
    const parts = token.split(".");
    if (parts.length !== 3 || token.length > LONGEST_TOKEN) throw new Error("token is malformed");
    const [headerPart = "", claimsPart = "", signaturePart = ""] = parts;
    const header = decoded(headerPart) as { alg?: string; kid?: string };
    const claims = decoded(claimsPart) as Claims;
    const type = claims.rpc_creds_type ?? "";
    if (!this.options.types.includes(type)) throw unknownType(type);
    const { key, alg, hash } = this.#verifier(type, header);
    if (header.alg !== alg) throw new Error(`unexpected signing method "${header.alg}"`);
    const signature = fromBase64url(signaturePart);
    if (!signature || !verify(hash, Buffer.from(`${headerPart}.${claimsPart}`), key, signature)) {
      throw new Error("signature is invalid");
    }
    return { claims, key };
  }

  #verifier(type: string, { alg = "", kid = "" }: { alg?: string; kid?: string }): Verifier {
    const own = () => this.options.signingKeys().map((one) => this.#public(one)).find(({ id }) => id === kid);
    const key = type === EXTERNAL ? this.#externalKeys.get(kid) : own()?.key;
    if (!key) throw new Error(`this server knows no key with id "${kid}"`);
    if (type !== EXTERNAL) return { key, alg: "EdDSA", hash: null };
    const hash = Object.hasOwn(RSA_HASHES, alg) ? RSA_HASHES[alg] : undefined;
    return { key, alg: hash ? alg : "RS256", hash: hash ?? "sha256" };
  }

  #public(privateKey: KeyObject): { readonly key: KeyObject; readonly id: string } {
    const known = this.#publicKeys.get(privateKey);
    if (known) return known;
    const key = createPublicKey(privateKey.export({ format: "pem", type: "pkcs8" }));
    const made = { key, id: key.export({ format: "jwk" }).x! };
    this.#publicKeys.set(privateKey, made);
    return made;
  }
}

/** The claims of a token that one server issues for another. */
export interface ExternalClaims {
  readonly entity: string;
  /** The names of the server for which the token is valid. */
  readonly audience: readonly string[];
  readonly issuer: string;
  /** The generation of the caller's key: at servers that know the key, the token ends with it. */
  readonly generation: string;
}

/** A token for another server, which verifies it with the `publicJwk` of this RSA key. */
export function externalToken(claims: ExternalClaims, key: KeyObject, nowMs: number): string {
  const { entity, audience, issuer, generation } = claims;
  const iat = Math.floor(nowMs / 1000);
  const content: Claims = {
    sub: entity,
    aud: audience,
    iss: issuer,
    iat,
    exp: iat + TOKEN_MS / 1000,
    jti: randomUUID(),
    rpc_creds_type: EXTERNAL,
    svc_gen: generation,
  };
  const { alg, kid } = publicJwk(key);
  const signed = `${encoded({ alg, kid, typ: "JWT" })}.${encoded(content)}`;
  return `${signed}.${sign("sha256", Buffer.from(signed), key).toString("base64url")}`;
}

/** The public half of an RSA key, named by its thumbprint (RFC 7638). */
export function publicJwk(
  key: KeyObject,
): { kty: "RSA"; alg: "RS256"; use: "sig"; kid: string; n: string; e: string } {
  const { n = "", e = "" } = createPublicKey(key.export({ format: "pem", type: "pkcs8" })).export({
    format: "jwk",
  });
  const kid = createHash("sha256").update(JSON.stringify({ e, kty: "RSA", n })).digest("base64url");
  return { kty: "RSA", alg: "RS256", use: "sig", kid, n, e };
}

/** The type of credentials in a token. Not verified. */
export function credentialsType(token: string): string | undefined {
  try {
    return (decoded(token.split(".")[1] ?? "") as Claims).rpc_creds_type;
  } catch {
    return undefined;
  }
}

/** The lifetime of a token by its own claims; `undefined` if they do not give it. Not verified. */
export function lifetimeMs(token: string): number | undefined {
  try {
    const { iat, exp } = decoded(token.split(".")[1] ?? "") as Claims;
    return typeof iat === "number" && typeof exp === "number" ? (exp - iat) * 1000 : undefined;
  } catch {
    return undefined;
  }
}

export function unauthenticated(message: string): SvcError {
  return new SvcError("unauthenticated", message);
}

export function unknownType(type: string): SvcError {
  return new SvcError("invalid_argument", `do not know how to handle credential type "${type}"`);
}

function encoded(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

function decoded(part: string): unknown {
  try {
    const value = JSON.parse(fromBase64url(part)?.toString() ?? "");
    if (typeof value === "object" && value !== null) return value;
  } catch {
    // Falls through to the common error.
  }
  throw new Error("token is malformed");
}
