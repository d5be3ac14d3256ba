/**
 * Authentication: a caller exchanges credentials for a token once (`proto.rpc.v1.AuthService`), and every other call
 * carries the token.
 *
 * Owns the decision about who may call. A token names the generation of its credentials; it and the calls that it has
 * begun end when the credentials do. The settings may change while the port is open. Codes and wording of refusals are
 * the published ones.
 *
 * The room owns authentication: credentials, tokens and the keys that sign them, and the rate limit for wrong keys.
 */

import { createHmac, generateKeyPairSync, type JsonWebKey, type KeyObject, randomBytes } from "node:crypto";
import { AuthService } from "../../../proto/gen/auth_pb.ts";
import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { fingerprintOf, isHashOf, isKeyHash } from "../../base/key_hash.ts";
import { LinkedList } from "../../base/collections/linked_list.ts";
import { isSameText } from "../../base/same_text.ts";
import { addressOf, type Attempt, KeyRateLimiter, type KeyRateLimits } from "./rate_limit.ts";
import { type CallContext, type Gate, type Peer, type Service, service } from "../rpc/service.ts";
import {
  API_KEY,
  type Claims,
  EXTERNAL,
  LOCATION_SECRET,
  ROBOT_SECRET,
  SESSION,
  Tokens,
  unauthenticated,
  unknownType,
} from "./tokens.ts";

/**
 * A store of API keys or of robots' secrets. Each key of an id has its own generation, which reveals nothing about the
 * key.
 */
export interface KeySource {
  /** The generation of the key if it is the key of this id; `peer` is the caller. */
  check(id: string, key: string, peer: Peer): Promise<string | undefined>;
  /** Whether a generation is valid now. */
  isCurrent(id: string, generation: string): Promise<boolean>;
  /**
   * Whether a generation was valid a moment ago, without a look at the store. If a source has this, the gate lets such
   * a call in at once, and the server calls `recheck` before it serves the call.
   */
  wasCurrent?(id: string, generation: string): boolean;
}

/** The settings that decide who may call. */
export interface AuthSettings {
  readonly handlers: {
    /** Keys or their hashes (`key_hash.ts`) by key id, or a store of keys. */
    readonly apiKeys?: Readonly<Record<string, string>> | KeySource;
    /** Secrets of robots by the robot's id. */
    readonly robotSecrets?: KeySource;
    /** Sessions of people, by the id of their account. Their tokens come from `Auth.issue` alone. */
    readonly sessions?: Pick<KeySource, "isCurrent" | "wasCurrent">;
    /** Secrets, or their hashes, that speak for any of the server's names. */
    readonly locationSecrets?: readonly string[];
    /**
     * Public keys (RSA, with `kid`) of outside issuers of tokens for this server. A token that names the generation of
     * a key is valid for as long as `apiKeys` lists the hash of that key.
     */
    readonly externalKeys?: readonly JsonWebKey[];
  };
  /** A caller with a verified certificate for one of these names needs no token. */
  readonly certificateNames?: readonly string[];
  /** The names of this server, for which its tokens are valid; its own name first. */
  readonly audience: readonly string[];
  /** Limits of wrong keys and secrets for the listed ones; without them, attempts are unlimited. */
  readonly limits?: KeyRateLimits;
}

export interface AuthOptions extends AuthSettings {
  /**
   * Ed25519 keys: the first one signs, all of them verify. With the same keys, tokens outlive the process and are valid
   * in others; by default the process makes a key of its own.
   */
  readonly signingKeys?: () => readonly KeyObject[];
  /**
   * Hides keys that are listed in clear in their generations: with the same salt, tokens of such a key outlive the
   * process. By default the process makes a salt of its own.
   */
  readonly salt?: () => Uint8Array;
  /** Called when a caller tries too many wrong keys, once per series of attempts. */
  readonly tooManyTries?: (attempt: Attempt) => void;
  readonly clock: Clock;
}

type Awaitable<T> = T | Promise<T>;

/** When a token is checked: as its call enters, later (its age no longer counts), or without a call. */
type Moment = "entering" | "begun" | "presented";

export interface Auth {
  readonly service: Service;
  /** Refuses calls without a valid token, and stores the token's entity in the context. */
  readonly gate: Gate;
  /**
   * Checks a call that the gate has let in: throws if the gate would refuse it now for a reason other than the age of
   * its token.
   */
  recheck(ctx: CallContext): Awaitable<void>;
  /** The entity of a token. Throws `unauthenticated`. */
  entityOf(token: string): Awaitable<string>;
  /** A token for the session of this generation of an account. */
  issue(accountId: string, generation: string): string;
  /** Applies new settings, and ends calls in progress that they do not allow. */
  change(settings: AuthSettings): void;
  /** Calls `leave` when an admitted peer loses its access; call the returned function when the peer has gone. */
  stay(peer: Peer, leave: (reason: SvcError) => void): () => void;
}

export const AUTHENTICATE = `/${AuthService.typeName}/${AuthService.method.authenticate.name}`;
const PREFIX = "Bearer ";
const UNLIMITED: KeyRateLimits = {
  wrongKeysPerAddress: Infinity,
  wrongKeysPerKey: Infinity,
  keyChecksAtOnce: Infinity,
};

export function auth(options: AuthOptions): Auth {
  return new Guard(options);
}

class Guard implements Auth {
  readonly service: Service;
  readonly #clock: Clock;
  readonly #signingKeys: () => readonly KeyObject[];
  readonly #calls = new LinkedList<CallContext>();
  readonly #stays = new LinkedList<{ readonly peer: Peer; readonly leave: (reason: SvcError) => void }>();
  readonly #salt: () => Uint8Array;
  readonly #attempts: KeyRateLimiter;
  #settings: AuthSettings;
  #credentials: Credentials;
  #tokens: Tokens;

  constructor(options: AuthOptions) {
    this.#clock = options.clock;
    const own = [generateKeyPairSync("ed25519").privateKey];
    this.#signingKeys = options.signingKeys ?? (() => own);

    const salt = randomBytes(32);
    this.#salt = options.salt ?? (() => salt);
    this.#attempts = new KeyRateLimiter({
      stored: {
        find: (attempt) => {
          const form = this.#credentials.storedForm(attempt);
          // A machine has one owner, so wrong keys for an id delay only callers at the same address.
          return Promise.resolve(
            form === undefined ? undefined : { form, owner: `address ${attempt.address}` },
          );
        },
        generation: (_form, attempt) => this.#credentials.generation(attempt),
      },
      limits: () => this.#settings.limits ?? UNLIMITED,
      clock: options.clock,
      limitExceeded: (attempt) => Promise.resolve(options.tooManyTries?.(attempt)),
    });
    this.#settings = options;
    [this.#credentials, this.#tokens] = this.#adopted(options);
    this.service = service(AuthService, {
      authenticate: async ({ entity, credentials: given }, ctx) => ({
        accessToken: await this.#authenticate(entity, given, ctx),
      }),
    });
  }

  readonly gate: Gate = {
    authenticate: (ctx) => {
      const checked = this.#check(ctx, "entering");
      const begun = () => {
        const link = this.#calls.add(ctx);
        return () => void this.#calls.delete(link);
      };
      return checked instanceof Promise ? checked.then(begun) : begun();
    },
  };

  recheck(ctx: CallContext): Awaitable<void> {
    return this.#check(ctx, "begun");
  }

  entityOf(token: string): Awaitable<string> {
    return this.#entityOf(token, "presented");
  }

  issue(accountId: string, generation: string): string {
    return this.#tokens.issue(accountId, SESSION, generation);
  }

  change(settings: AuthSettings): void {
    this.#settings = settings;
    [this.#credentials, this.#tokens] = this.#adopted(settings);
    for (const ctx of this.#calls.values()) {
      refusing(() => this.#check(ctx, "begun"), (error) => ctx.cancel(error));
    }
    for (const { peer, leave } of this.#stays.values()) {
      refusing(() => this.#entityOfPeer(peer, "begun"), leave);
    }
  }

  stay(peer: Peer, leave: (reason: SvcError) => void): () => void {
    const link = this.#stays.add({ peer, leave });
    return () => void this.#stays.delete(link);
  }

  #adopted(settings: AuthSettings): [Credentials, Tokens] {
    const { handlers, audience } = settings;
    const credentials = new Credentials(settings, this.#salt(), this.#attempts);
    const tokens = new Tokens({
      types: credentials.types,
      audience,
      signingKeys: this.#signingKeys,
      externalKeys: handlers.externalKeys ?? [],
      clock: this.#clock,
    });
    return [credentials, tokens];
  }

  async #authenticate(
    entity: string,
    given: { readonly type: string; readonly payload: string } | undefined,
    ctx: CallContext,
  ): Promise<string> {
    if (ctx.requestHeader.get("authorization") !== undefined) {
      throw new SvcError("invalid_argument", "already authenticated; cannot re-authenticate");
    }
    if (!given) throw new SvcError("invalid_argument", "credentials required");
    const generation = await this.#credentials.check(entity, given.type, given.payload, ctx.peer);
    return this.#tokens.issue(entity, given.type, generation);
  }

  #check(ctx: CallContext, moment: Moment): Awaitable<void> {
    if (ctx.peer.kind === "memory") return;
    const known = this.#knownByCertificate(ctx.peer);
    if (known !== undefined) return void (ctx.entity = known);
    if (ctx.path === AUTHENTICATE) return;
    const entity = ctx.peer.kind === "webrtc"
      ? this.#entityOfPeer(ctx.peer, moment)
      : this.#entityOf(tokenOf(ctx), moment);
    if (entity instanceof Promise) return entity.then((found) => void (ctx.entity = found));
    ctx.entity = entity;
  }

  /**
   * The entity of a WebRTC peer, which has shown its token to signaling, or for which another signaling server vouches.
   */
  #entityOfPeer(peer: Peer, moment: Moment): Awaitable<string> {
    const known = this.#knownByCertificate(peer);
    if (known !== undefined) return known;
    if (peer.token) return this.#entityOf(peer.token.reveal(), moment);
    if (peer.entity === undefined) throw unauthenticated("authentication required");
    if (!this.#credentials.lists(peer.entity, peer.generation)) {
      throw unauthenticated(
        "unauthenticated: the key of this caller does not open this server, or no longer exists",
      );
    }
    return peer.entity;
  }

  #knownByCertificate({ certificateNames }: Peer): string | undefined {
    return certificateNames?.find((name) => this.#settings.certificateNames?.includes(name));
  }

  #entityOf(token: string, moment: Moment): Awaitable<string> {
    const claims = this.#tokens.read(token);
    if (moment !== "begun") this.#tokens.checkTime(claims);
    const good = this.#credentials.isCurrent(claims, moment === "entering");
    const entity = (good: boolean) => {
      if (good) return claims.sub!;
      throw unauthenticated("unauthenticated: the key of this token has been replaced or no longer exists");
    };
    return good instanceof Promise ? good.then(entity) : entity(good);
  }
}

/** Passes the error of `check` to `refuse`, if it fails. */
function refusing(check: () => Awaitable<unknown>, refuse: (error: SvcError) => void): void {
  const refused = (error: unknown) => refuse(SvcError.from(error));
  try {
    const checked = check();
    if (checked instanceof Promise) checked.catch(refused);
  } catch (error) {
    refused(error);
  }
}

function tokenOf(ctx: CallContext): string {
  const [value, ...more] = ctx.requestHeader.all("authorization");
  if (value === undefined || more.length > 0) throw unauthenticated("authentication required");
  if (!value.startsWith(PREFIX)) throw unauthenticated(`expected Authorization: ${PREFIX}`);
  return value.slice(PREFIX.length);
}

/** The valid credentials, and the generation of each. */
class Credentials {
  /** The accepted types. */
  readonly types: readonly string[];
  readonly #keys: KeySource | undefined;
  /** The listed keys and their generations, by id. */
  readonly #listed: ReadonlyMap<string, string>;
  readonly #generations: ReadonlyMap<string, string>;
  readonly #secrets: ReadonlySet<string>;

  constructor(
    private readonly settings: AuthSettings,
    private readonly salt: Uint8Array,
    private readonly attempts: KeyRateLimiter,
  ) {
    const { apiKeys, robotSecrets, locationSecrets, externalKeys, sessions } = settings.handlers;
    this.types = [
      ...apiKeys ? [API_KEY] : [],
      ...robotSecrets ? [ROBOT_SECRET] : [],
      ...locationSecrets ? [LOCATION_SECRET] : [],
      ...externalKeys ? [EXTERNAL] : [],
      ...sessions ? [SESSION] : [],
    ];
    this.#keys = apiKeys && isSource(apiKeys) ? apiKeys : undefined;

    const listed = apiKeys && !isSource(apiKeys) ? Object.entries(apiKeys) : [];
    this.#listed = new Map(listed);
    this.#generations = new Map(listed.map(([id, key]) => [id, this.#generation(id, key)]));
    this.#secrets = new Set(locationSecrets?.map((secret) => this.#generation("", secret)));
  }

  /** The generation of these credentials. Throws if they are not the entity's. */
  async check(entity: string, type: string, secret: string, peer: Peer): Promise<string> {
    if (!this.types.includes(type)) throw unknownType(type);
    if (type === EXTERNAL || type === SESSION) {
      throw new SvcError("unimplemented", `direct authentication not supported for "${type}"`);
    }
    const source = type === ROBOT_SECRET ? this.settings.handlers.robotSecrets : this.#keys;
    const found = source
      ? await source.check(entity, secret, peer)
      : await this.attempts.check({ type, id: entity, key: secret, address: addressFor(peer) });
    if (found === undefined) throw unauthenticated("invalid credentials");
    return found;
  }

  /** The listed form of these credentials (`KeyBook`). */
  storedForm({ type, id }: Attempt): string | undefined {
    const { handlers: { locationSecrets = [] }, audience } = this.settings;
    if (type !== LOCATION_SECRET) return this.#listed.get(id) || undefined;
    return audience.includes(id) ? JSON.stringify(locationSecrets) : undefined;
  }

  /** The generation of these credentials, if they are listed here. */
  async generation({ type, id, key }: Attempt): Promise<string | undefined> {
    if (type === LOCATION_SECRET) return await this.#ofLocationSecret(id, key);
    return await isListed(this.#listed, id, key) ? this.#generations.get(id) : undefined;
  }

  /** Whether the credentials behind a token are still valid; for a call that enters, whether they were a moment ago. */
  isCurrent(
    { sub = "", rpc_creds_type: type, svc_gen: generation }: Claims,
    isEntering: boolean,
  ): Awaitable<boolean> {
    if (type === EXTERNAL) return generation === undefined || this.#isOfListed(sub, generation);
    if (generation === undefined) return false;
    if (type === LOCATION_SECRET) return this.#secrets.has(generation);
    const source = this.#sourceOf(type);
    if (source) {
      return isEntering && source.wasCurrent?.(sub, generation) || source.isCurrent(sub, generation);
    }
    return this.#generations.get(sub) === generation;
  }

  /**
   * Whether the key of a caller, for which a signaling server vouches, is listed. If the server names no generation,
   * any key of this id counts.
   */
  lists(id: string, generation: string | undefined): boolean {
    return generation === undefined ? this.#listed.has(id) : this.#isOfListed(id, generation);
  }

  /** Whether the generation, from an issuer that stores the same hashes, is that of the listed key. */
  #isOfListed(id: string, generation: string): boolean {
    const hash = this.#listed.get(id);
    return hash !== undefined && isKeyHash(hash) && fingerprintOf(hash) === generation;
  }

  #sourceOf(type: string | undefined): Pick<KeySource, "isCurrent" | "wasCurrent"> | undefined {
    const { robotSecrets, sessions } = this.settings.handlers;
    if (type === SESSION) return sessions;
    return type === ROBOT_SECRET ? robotSecrets : this.#keys;
  }

  /** The generation of the secret, which is valid for each of the server's names and for no other entity. */
  async #ofLocationSecret(entity: string, secret: string): Promise<string | undefined> {
    const { handlers: { locationSecrets = [] }, audience } = this.settings;
    const isRight = (wanted: string) =>
      isKeyHash(wanted) ? isHashOf(wanted, secret) : wanted !== "" && isSameText(secret, wanted);
    const matches = await Promise.all(locationSecrets.map(isRight));
    const found = locationSecrets[matches.indexOf(true)];
    return found !== undefined && audience.includes(entity) ? this.#generation("", found) : undefined;
  }

  #generation(id: string, secret: string): string {
    return createHmac("sha256", this.salt).update(`${id}\n${secret}`).digest("base64url").slice(0, 22);
  }
}

/** The address for counting a caller's wrong keys; for a caller through another signaling service, its own key. */
function addressFor({ kind, remoteAddress, signaledFrom, entity }: Peer): string {
  if (kind !== "webrtc") return addressOf(remoteAddress);
  return signaledFrom === undefined && entity !== undefined ? `key ${entity}` : addressOf(signaledFrom);
}

function isSource(keys: NonNullable<AuthSettings["handlers"]["apiKeys"]>): keys is KeySource {
  return typeof keys.check === "function";
}

function isListed(
  apiKeys: ReadonlyMap<string, string>,
  id: string,
  key: string,
): boolean | Promise<boolean> {
  const wanted = apiKeys.get(id);
  const hashed = [...apiKeys.values()].some(isKeyHash);
  if (hashed && (wanted === undefined || isKeyHash(wanted))) return isHashOf(wanted, key);
  // An unknown id costs the same time as a wrong key.
  return isSameText(key, wanted ?? "") && wanted !== undefined && wanted !== "";
}
