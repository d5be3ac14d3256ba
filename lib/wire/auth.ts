/**
 * Who is calling: credentials are exchanged for a token once (`proto.rpc.v1.AuthService`), and every other call
 * carries the token.
 *
 * Tokens are JWTs, signed with a key that lives as long as the process unless one is given. Owns what a token says
 * and when it is believed. Codes and wording of refusals are the published ones.
 */

import { Buffer } from "node:buffer";
import {
  createHash,
  createPublicKey,
  generateKeyPairSync,
  type JsonWebKey,
  type KeyObject,
  randomUUID,
  sign,
  timingSafeEqual,
  verify,
} from "node:crypto";
import { AuthService } from "../../proto/gen/auth_pb.ts";
import type { Clock } from "../base/clock.ts";
import { messageOf, SvcError } from "../base/error.ts";
import { isHashOf, isKeyHash } from "../base/key_hash.ts";
import { type CallContext, type Interceptor, type Service, service } from "./service.ts";

export interface AuthOptions {
  readonly handlers: {
    /** Key or its hash (`key_hash.ts`) by key id, or who tells whether a key is that of the id. */
    readonly apiKeys?: Readonly<Record<string, string>> | ((id: string, key: string) => Promise<boolean>);
    /** Secrets that speak for any of the server's names. */
    readonly locationSecrets?: readonly string[];
    /** Public keys (RSA, with `kid`) of somebody else who may issue tokens for this server. */
    readonly externalKeys?: readonly JsonWebKey[];
  };
  /** Who shows a verified certificate of one of these names needs no token. */
  readonly certificateNames?: readonly string[];
  /** The names of this server, its own one first: whom tokens are for. */
  readonly audience: readonly string[];
  /** Ed25519; with the same one, tokens outlive the process and are good at its twins. */
  readonly signingKey?: KeyObject;
  readonly clock: Clock;
}

export interface Auth {
  readonly service: Service;
  /** Refuses calls without a good token, and says on the context whose token it is. */
  readonly interceptor: Interceptor;
  /** Whose token it is. Throws `unauthenticated`. */
  entityOf(token: string): string;
}

const API_KEY = "api-key";
const LOCATION_SECRET = "robot-location-secret";
const EXTERNAL = "external";
const AUTHENTICATE = `/${AuthService.typeName}/${AuthService.method.authenticate.name}`;
const PREFIX = "Bearer ";
/** Good tokens that are remembered, so that a call costs a look-up and not a signature. */
const REMEMBERED_TOKENS = 1024;
const LONGEST_TOKEN = 16 * 1024;
const RSA_HASHES: Record<string, string> = { RS256: "sha256", RS384: "sha384", RS512: "sha512" };

interface Claims {
  readonly sub?: string;
  readonly aud?: string | readonly string[];
  readonly iss?: string;
  readonly iat?: number;
  readonly jti?: string;
  /** Seconds since 1970; our own tokens have none. */
  readonly exp?: number;
  readonly nbf?: number;
  readonly rpc_creds_type?: string;
}

export function auth(options: AuthOptions): Auth {
  const tokens = new Tokens(options);
  const credentials = new Credentials(options);
  return {
    service: service(AuthService, {
      async authenticate({ entity, credentials: given }, ctx) {
        if (ctx.requestHeader.get("authorization") !== undefined) {
          throw new SvcError("invalid_argument", "already authenticated; cannot re-authenticate");
        }
        if (!given) throw new SvcError("invalid_argument", "credentials required");
        await credentials.check(entity, given.type, given.payload);
        return { accessToken: tokens.issue(entity, given.type) };
      },
    }),
    entityOf: (token) => tokens.entityOf(token),
    interceptor(ctx) {
      const known = ctx.peer.certificateNames?.find((name) => options.certificateNames?.includes(name));
      if (known !== undefined) return void (ctx.entity = known);
      // Callers over other transports have shown who they are before their first call.
      if (ctx.peer.kind === "grpc" && ctx.path !== AUTHENTICATE) ctx.entity = tokens.entityOf(tokenOf(ctx));
    },
  };
}

function tokenOf(ctx: CallContext): string {
  const values = ctx.requestHeader.all("authorization");
  if (values.length !== 1) throw unauthenticated("authentication required");
  if (!values[0].startsWith(PREFIX)) throw unauthenticated(`expected Authorization: ${PREFIX}`);
  return values[0].slice(PREFIX.length);
}

function unauthenticated(message: string): SvcError {
  return new SvcError("unauthenticated", message);
}

class Credentials {
  readonly #isKey: (id: string, key: string) => boolean | Promise<boolean>;

  constructor(private readonly options: AuthOptions) {
    const { apiKeys = {} } = options.handlers;
    this.#isKey = typeof apiKeys === "function" ? apiKeys : among(new Map(Object.entries(apiKeys)));
  }

  /** Returns if the secret is the entity's. */
  async check(entity: string, type: string, secret: string): Promise<void> {
    if (!isKnown(this.options, type)) throw unknownType(type);
    if (type === EXTERNAL) {
      throw new SvcError("unimplemented", `direct authentication not supported for "${type}"`);
    }
    const good = type === API_KEY ? await this.#isKey(entity, secret) : this.#isSecret(entity, secret);
    if (!good) throw unauthenticated("invalid credentials");
  }

  #isSecret(entity: string, secret: string): boolean {
    const { handlers: { locationSecrets = [] }, audience } = this.options;
    const matches = locationSecrets.map((wanted) => wanted !== "" && isSame(secret, wanted));
    return matches.includes(true) && audience.includes(entity);
  }
}

function among(
  apiKeys: ReadonlyMap<string, string>,
): (id: string, key: string) => boolean | Promise<boolean> {
  const hashed = [...apiKeys.values()].some(isKeyHash);
  return (id, key) => {
    const wanted = apiKeys.get(id);
    if (hashed && (wanted === undefined || isKeyHash(wanted))) return isHashOf(wanted, key);
    // An unknown id costs the same time as a wrong key.
    return isSame(key, wanted ?? "") && wanted !== undefined && wanted !== "";
  };
}

function isKnown({ handlers }: AuthOptions, type: string | undefined): boolean {
  if (type === API_KEY) return handlers.apiKeys !== undefined;
  if (type === LOCATION_SECRET) return handlers.locationSecrets !== undefined;
  return type === EXTERNAL && handlers.externalKeys !== undefined;
}

function unknownType(type: string): SvcError {
  return new SvcError("invalid_argument", `do not know how to handle credential type "${type}"`);
}

/** Compares in a time that says nothing about where the two differ. */
function isSame(a: string, b: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}

/** Issues tokens, and tells whose a token is. */
class Tokens {
  readonly #privateKey: KeyObject;
  readonly #publicKey: KeyObject;
  readonly #keyId: string;
  readonly #externalKeys = new Map<string, KeyObject>();
  readonly #remembered = new Map<string, Claims>();

  constructor(private readonly options: AuthOptions) {
    this.#privateKey = options.signingKey ?? generateKeyPairSync("ed25519").privateKey;
    this.#publicKey = createPublicKey(this.#privateKey.export({ format: "pem", type: "pkcs8" }));
    this.#keyId = this.#publicKey.export({ format: "jwk" }).x!;
    for (const key of options.handlers.externalKeys ?? []) {
      this.#externalKeys.set(String(key.kid), createPublicKey({ key, format: "jwk" }));
    }
  }

  issue(entity: string, type: string): string {
    const { audience, clock } = this.options;
    const claims: Claims = {
      sub: entity,
      aud: audience,
      iss: audience[0],
      iat: Math.floor(clock.nowMs() / 1000),
      jti: randomUUID(),
      rpc_creds_type: type,
    };
    const signed = `${encoded({ alg: "EdDSA", kid: this.#keyId, typ: "JWT" })}.${encoded(claims)}`;
    return `${signed}.${sign(null, Buffer.from(signed), this.#privateKey).toString("base64url")}`;
  }

  /** The entity of a token that is good for this server. */
  entityOf(token: string): string {
    const claims = this.#remembered.get(token) ?? this.#verify(token);
    const seconds = this.options.clock.nowMs() / 1000;
    if (claims.exp !== undefined && seconds >= claims.exp) {
      throw unauthenticated("unauthenticated: token is expired");
    }
    if (claims.nbf !== undefined && seconds < claims.nbf) {
      throw unauthenticated("unauthenticated: token is not valid yet");
    }
    return claims.sub!;
  }

  #verify(token: string): Claims {
    let claims: Claims;
    try {
      claims = this.#signedClaims(token);
    } catch (error) {
      throw unauthenticated(`unauthenticated: ${messageOf(error)}`);
    }
    const audience = [claims.aud].flat();
    if (!this.options.audience.some((name) => audience.includes(name))) {
      throw unauthenticated("invalid audience");
    }
    if (!claims.sub) throw unauthenticated("expected entity (sub) in claims");
    if (this.#remembered.size >= REMEMBERED_TOKENS) {
      this.#remembered.delete(this.#remembered.keys().next().value!);
    }
    this.#remembered.set(token, claims);
    return claims;
  }

  #signedClaims(token: string): Claims {
    const parts = token.split(".");
    if (parts.length !== 3 || token.length > LONGEST_TOKEN) throw new Error("token is malformed");
    const header = decoded(parts[0]) as { alg?: string; kid?: string };
    const claims = decoded(parts[1]) as Claims;
    const type = claims.rpc_creds_type ?? "";
    if (!isKnown(this.options, type)) throw unknownType(type);
    const { key, alg, hash } = this.#key(type, header);
    if (header.alg !== alg) throw new Error(`unexpected signing method "${header.alg}"`);
    const signature = Buffer.from(parts[2], "base64url");
    if (!verify(hash, Buffer.from(`${parts[0]}.${parts[1]}`), key, signature)) {
      throw new Error("signature is invalid");
    }
    return claims;
  }

  #key(type: string, { alg = "", kid = "" }: { alg?: string; kid?: string }) {
    const key = type === EXTERNAL
      ? this.#externalKeys.get(kid)
      : kid === this.#keyId
      ? this.#publicKey
      : undefined;
    if (!key) throw new Error(`this server knows no key with id "${kid}"`);
    if (type !== EXTERNAL) return { key, alg: "EdDSA", hash: null };
    const hash = Object.hasOwn(RSA_HASHES, alg) ? RSA_HASHES[alg] : undefined;
    return { key, alg: hash ? alg : "RS256", hash: hash ?? "sha256" };
  }
}

function encoded(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

function decoded(part: string): unknown {
  try {
    const value = JSON.parse(Buffer.from(part, "base64url").toString());
    if (typeof value === "object" && value !== null) return value;
  } catch {
    // Falls through to the one complaint.
  }
  throw new Error("token is malformed");
}
