/**
 * The identity provider: where people sign in elsewhere, by OpenID Connect with the authorization code flow and PKCE.
 *
 * The published library checks the answers; this file bounds them in size and time, refuses addresses without TLS
 * other than this computer's, and says in words why an answer is refused. The library is loaded at the first visit.
 */

import { Buffer } from "node:buffer";
import type * as OAuth from "oauth4webapi";
import { type Clock, deadline, race } from "../../base/clock.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import { escapedLine, withoutEnd } from "../../base/escape.ts";
import { bytesUpTo } from "../../base/files/byte_reader.ts";
import { isObject } from "../../base/schema/schema.ts";
import type { Secret } from "../../base/secret.ts";
import type { ProviderSubject } from "./provider_links.ts";
import type { VisitProof } from "./provider_visits.ts";

export interface ProviderOptions {
  /** `https://accounts.example.com`; `http` only on this computer. */
  readonly issuer: string;
  readonly clientId: string;
  /** Absent for a public client. */
  readonly clientSecret?: Secret;
  /** How the page calls it. */
  readonly name: string;
  /** The domains of e-mail addresses that may sign in; none allows all. */
  readonly domains?: readonly string[];
  /** The public address of this control plane. */
  readonly publicUrl: string;
  /** Limit of one answer. */
  readonly timeoutMs?: number;
}

export interface ProviderPerson extends ProviderSubject {
  /** The address that the provider has verified, in lower case. */
  readonly email?: string;
}

/** The page to which the provider sends people back. */
export const RETURN_PAGE = "/account/provider-return";
const ANSWER_MS = 10_000;
const ANSWER_BYTES_MAX = 512 * 1024;
/** How long the provider's description and its keys are kept. */
const KNOWN_MS = 3600 * 1000;
const TOLERANCE_S = 30;
const SUBJECT_CHARS_MAX = 255;
const REASON_CHARS_MAX = 300;
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;

interface Known {
  readonly server: OAuth.AuthorizationServer;
  readonly atMs: number;
}

export class IdentityProvider {
  #known: Known | undefined;
  #asking: Promise<Known> | undefined;

  /** Throws `invalid_argument` for an address of the provider that is not safe. */
  constructor(private readonly options: ProviderOptions, private readonly clock: Clock) {
    if (isSafe(options.issuer)) return;
    throw new SvcError(
      "invalid_argument",
      `the issuer: found ${JSON.stringify(options.issuer)}, wanted https://…; http:// only on this computer`,
    );
  }

  get name(): string {
    return this.options.name;
  }

  /** As links have it: with or without a slash at its end is the same one. */
  get issuer(): string {
    return withoutEnd(this.options.issuer, "/");
  }

  /** The address at the provider to which a person goes. */
  async addressFor({ state, nonce, verifier }: VisitProof): Promise<string> {
    return await this.#inWords(async (oauth) => {
      const server = await this.#server(oauth);
      const url = new URL(this.#endpoint(server, "authorization_endpoint"));
      const fields = {
        client_id: this.options.clientId,
        redirect_uri: this.#redirectUri,
        response_type: "code",
        scope: "openid email",
        ...{ state, nonce },
        code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
        code_challenge_method: "S256",
      };
      for (const [name, value] of Object.entries(fields)) url.searchParams.set(name, value);
      return url.href;
    });
  }

  /**
   * The person with whom the provider has answered (`query` is that of the address to which it sent the browser).
   * Throws `unauthenticated` for an answer that proves nothing, and `unavailable` if the provider does not answer.
   */
  async fetchPerson(query: URLSearchParams, { state, nonce, verifier }: VisitProof): Promise<ProviderPerson> {
    return await this.#inWords(async (oauth) => {
      const server = await this.#server(oauth);
      this.#endpoint(server, "token_endpoint");
      this.#endpoint(server, "jwks_uri");
      const client: OAuth.Client = {
        client_id: this.options.clientId,
        [oauth.clockTolerance]: TOLERANCE_S,
      };
      // Compares `state`, and the issuer that the answer names.
      const checked = oauth.validateAuthResponse(server, client, query, state);
      const options = this.#requests(oauth);
      const response = await oauth.authorizationCodeGrantRequest(
        server,
        client,
        this.#authentication(oauth, server),
        checked,
        this.#redirectUri,
        verifier,
        options,
      );
      const tokens = await oauth.processAuthorizationCodeResponse(server, client, response, {
        expectedNonce: nonce,
        requireIdToken: true,
      });
      await oauth.validateApplicationLevelSignature(server, response, options);
      const claims = oauth.getValidatedIdTokenClaims(tokens)!;
      if (claims.sub.length > SUBJECT_CHARS_MAX) throw new Error("the subject is too long");
      const shown = await this.#shownEmail(oauth, server, client, tokens, claims);
      const who = { issuer: this.issuer, subject: claims.sub };
      return this.#requireDomain({ ...who, email: shown });
    });
  }

  get #redirectUri(): string {
    return `${this.options.publicUrl}${RETURN_PAGE}`;
  }

  /** The verified address: in the token itself, or where some providers have it. */
  async #shownEmail(
    oauth: typeof OAuth,
    server: OAuth.AuthorizationServer,
    client: OAuth.Client,
    tokens: OAuth.TokenEndpointResponse,
    claims: OAuth.IDToken,
  ): Promise<string | undefined> {
    if (claims.email !== undefined || !server.userinfo_endpoint) return verifiedEmail(claims);
    this.#endpoint(server, "userinfo_endpoint");
    const options = this.#requests(oauth);
    const response = await oauth.userInfoRequest(server, client, tokens.access_token, options);
    return verifiedEmail(await oauth.processUserInfoResponse(server, client, claims.sub, response));
  }

  #requireDomain(person: ProviderPerson): ProviderPerson {
    const { domains = [] } = this.options;
    const domain = person.email?.slice(person.email.lastIndexOf("@") + 1);
    if (domains.length === 0 || (domain !== undefined && domains.includes(domain))) return person;
    throw new SvcError(
      "permission_denied",
      `${this.name} names no verified e-mail address of ${domains.join(", ")}`,
    );
  }

  #authentication(oauth: typeof OAuth, server: OAuth.AuthorizationServer): OAuth.ClientAuth {
    const { clientSecret } = this.options;
    if (!clientSecret) return oauth.None();
    // What a provider offers that says nothing of it is Basic.
    const offered = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
    const isBasic = offered.includes("client_secret_basic") || !offered.includes("client_secret_post");
    const secret = clientSecret.reveal();
    return isBasic ? oauth.ClientSecretBasic(secret) : oauth.ClientSecretPost(secret);
  }

  /** An address in the provider's description. */
  #endpoint(
    server: OAuth.AuthorizationServer,
    field: "authorization_endpoint" | "token_endpoint" | "jwks_uri" | "userinfo_endpoint",
  ): string {
    const found = server[field];
    if (typeof found === "string" && isSafe(found)) return found;
    throw new Error(`its ${field} is ${JSON.stringify(found) ?? "missing"}, wanted https://…`);
  }

  /** Callers that come at once share one request. */
  async #server(oauth: typeof OAuth): Promise<OAuth.AuthorizationServer> {
    if (this.#known && this.clock.monotonicMs() - this.#known.atMs < KNOWN_MS) return this.#known.server;
    this.#asking ??= this.#discover(oauth).finally(() => this.#asking = undefined);
    this.#known = await this.#asking;
    return this.#known.server;
  }

  async #discover(oauth: typeof OAuth): Promise<Known> {
    const issuer = new URL(this.options.issuer);
    const response = await oauth.discoveryRequest(issuer, { algorithm: "oidc", ...this.#requests(oauth) });
    const named = await issuerIn(response.clone());
    const server = await oauth.processDiscoveryResponse(this.#expected(named), response);
    return { server, atMs: this.clock.monotonicMs() };
  }

  /** Authentik's name of itself ends with a slash, Keycloak's does not, and people lose or add one as they copy. */
  #expected(named: string | undefined): URL {
    const { issuer } = this.options;
    if (named === undefined) return new URL(issuer);
    const isOurs = withoutEnd(named, "/") === this.issuer || URL.parse(named)?.href === new URL(issuer).href;
    if (isOurs) return new URL(named);
    throw new Error(`the issuer is ${JSON.stringify(named)} by its own description, wanted ${issuer}`);
  }

  #requests(oauth: typeof OAuth) {
    return {
      [oauth.customFetch]: (url: string, init: OAuth.CustomFetchOptions<string, unknown>) =>
        this.#fetch(url, init as unknown as RequestInit),
      [oauth.allowInsecureRequests]: new URL(this.issuer).protocol === "http:",
    };
  }

  /** One request, whose answer is read whole, within the limits. */
  async #fetch(url: string, init: RequestInit): Promise<Response> {
    const { timeoutMs = ANSWER_MS } = this.options;
    const late = deadline(
      this.clock,
      timeoutMs,
      () => new SvcError("deadline_exceeded", `no answer in ${timeoutMs / 1000} s`),
    );
    try {
      const answer = await fetch(url, { ...init, redirect: "manual", signal: late.signal });
      const read = bytesUpTo(answer.body ?? emptyBody(), ANSWER_BYTES_MAX);
      const bytes = await race(read, late.signal);
      if (!bytes) {
        throw new SvcError("invalid_argument", `its answer has more than ${ANSWER_BYTES_MAX} bytes`);
      }
      const isBare = [101, 204, 205, 304].includes(answer.status);
      return new Response(isBare ? null : Buffer.from(bytes), {
        status: answer.status === 101 ? 502 : answer.status,
        headers: answer.headers,
      });
    } catch (cause) {
      if (cause instanceof SvcError && cause.code === "invalid_argument") throw cause;
      const reason = late.signal.aborted ? late.signal.reason : cause;
      throw new SvcError("unavailable", reasonOf(reason), { cause });
    } finally {
      late.done();
    }
  }

  async #inWords<T>(work: (oauth: typeof OAuth) => Promise<T>): Promise<T> {
    const oauth = await import("oauth4webapi");
    try {
      return await work(oauth);
    } catch (cause) {
      const { name } = this;
      if (cause instanceof SvcError && cause.code === "permission_denied") throw cause;
      if (cause instanceof SvcError && cause.code === "unavailable") {
        throw new SvcError(
          "unavailable",
          `${name} does not answer: ${cause.message}. Try again later, or sign in with a password`,
          { cause },
        );
      }
      if (cause instanceof oauth.AuthorizationResponseError) {
        throw new SvcError("unauthenticated", `${name} has not signed you in: ${reasonOf(cause.error)}`, {
          cause,
        });
      }
      throw new SvcError("unauthenticated", `${name} does not prove who you are: ${reasonOf(cause)}`, {
        cause,
      });
    }
  }
}

/** Whether nobody between can read or change what goes to an address. */
function isSafe(address: string): boolean {
  const url = URL.parse(address);
  if (!url || url.username !== "" || url.password !== "" || url.hash !== "") return false;
  return url.protocol === "https:" || (url.protocol === "http:" && LOOPBACK.test(url.hostname));
}

/** The name that a provider's description gives it; `undefined` if there is none. */
async function issuerIn(description: Response): Promise<string | undefined> {
  const json: unknown = await description.json().catch(() => undefined);
  return isObject(json) && typeof json.issuer === "string" ? json.issuer : undefined;
}

/** Cognito and Apple write the claim as a text. */
function verifiedEmail(claims: { readonly [name: string]: unknown }): string | undefined {
  const { email, email_verified: verified } = claims;
  const isVerified = verified === true || verified === "true";
  return typeof email === "string" && isVerified && email.length < SUBJECT_CHARS_MAX
    ? email.toLowerCase()
    : undefined;
}

function reasonOf(cause: unknown): string {
  const text = typeof cause === "string" ? cause : messageOf(cause);
  return escapedLine(text).slice(0, REASON_CHARS_MAX);
}

async function* emptyBody(): AsyncGenerator<Uint8Array> {}
