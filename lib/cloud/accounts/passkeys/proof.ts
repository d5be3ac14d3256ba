/**
 * Proofs by passkey: what a browser is asked for, and whether its answer proves anything (WebAuthn level 2).
 *
 * The published library checks origin, relying party, challenge, user verification, counter and signature. This file
 * bounds the answers, and removes what nobody has asked for before the library sees it: attestations, whose
 * certificates could lead the library to addresses of the caller's choice. The library is loaded at the first answer.
 */

import type { AuthenticatorTransportFuture } from "@simplewebauthn/server";
import { messageOf, SvcError } from "../../../base/error.ts";
import { escapedLine } from "../../../base/escape.ts";
import type { Addresses } from "../../addresses/addresses.ts";
import type { Peer } from "../../../wire/rpc/service.ts";
import type { Passkey } from "./passkeys.ts";

/** The control plane, as authenticators know it. */
export interface RelyingParty {
  /** A host name. */
  readonly id: string;
  /** The public address. */
  readonly origin: string;
}

export interface NewCredential {
  readonly id: string;
  /** In COSE form, base64url. */
  readonly publicKey: string;
  readonly counter: number;
}

/** Limits of an answer's parts, in characters of base64url: the longest id has 1023 bytes. */
const ID_CHARS_MAX = 1364;
const PART_CHARS_MAX = 8 * 1024;
/** An RSA key of 4096 bits has 550. */
const PUBLIC_KEY_BYTES_MAX = 1024;
const REASON_CHARS_MAX = 200;
const BASE64URL = /^[\w-]+$/;
/** ES256, EdDSA, RS256: what authenticators have. */
const ALGORITHMS = [-7, -8, -257];
const LOCAL = /(?:^|\.)localhost$/;
const IP_ADDRESS = /^(?:\[.*\]|\d+(?:\.\d+){3})$/;

/**
 * The relying party for a caller: the configured public address with the caller's host, else the main one. Throws
 * `failed_precondition` with the reason for which browsers make no passkeys there.
 */
export function relyingPartyOf(addresses: Addresses, peer: Peer): RelyingParty {
  const origin = addresses.configuredFor(peer);
  if (origin === undefined) {
    throw unusable(
      "this control plane does not know its name: start svc-cloud serve with --public-url https://…",
    );
  }
  const { hostname: id, protocol } = new URL(origin);
  if (IP_ADDRESS.test(id)) {
    throw unusable(
      `browsers bind passkeys to a host name, and the public address ${origin} has an IP address: start svc-cloud ` +
        "serve with a --public-url that has a name",
    );
  }
  if (protocol === "https:" || LOCAL.test(id)) return { id, origin };
  throw unusable(
    `browsers make passkeys only over TLS, and the public address is ${origin}: start svc-cloud serve with a ` +
      "--public-url that begins with https://",
  );
}

function unusable(reason: string): SvcError {
  return new SvcError("failed_precondition", `passkeys cannot be used here: ${reason}`);
}

/** What `navigator.credentials.create` is asked for, in WebAuthn's JSON form. */
export function creationOptions(
  { id }: RelyingParty,
  challenge: string,
  person: { readonly id: string; readonly email: string; readonly name: string },
  present: readonly Passkey[],
  timeout: number,
) {
  return {
    challenge,
    timeout,
    rp: { id, name: id },
    user: {
      id: encoded(new TextEncoder().encode(person.id)),
      name: person.email,
      displayName: person.name,
    },
    pubKeyCredParams: ALGORITHMS.map((alg) => ({ type: "public-key", alg })),
    excludeCredentials: present.map((one) => ({ type: "public-key", id: one.id })),
    authenticatorSelection: {
      residentKey: "preferred",
      requireResidentKey: false,
      userVerification: "required",
    },
    attestation: "none",
  };
}

/** What `navigator.credentials.get` is asked for, in WebAuthn's JSON form; without ids, for any passkey of here. */
export function requestOptions(
  { id }: RelyingParty,
  challenge: string,
  ids: readonly string[],
  timeout: number,
) {
  return {
    challenge,
    timeout,
    rpId: id,
    allowCredentials: ids.map((one) => ({ type: "public-key", id: one })),
    userVerification: "required",
  };
}

/** The credential that a browser has made. Throws `unauthenticated` for an answer that proves nothing. */
export async function checkedCreation(
  answer: unknown,
  challenge: string,
  party: RelyingParty,
): Promise<NewCredential> {
  const { id, part } = partsOf(answer);
  const clientDataJSON = part("clientDataJSON");
  requireOwnFrame(clientDataJSON);
  return await inWords(async () => {
    const { verifyRegistrationResponse } = await import("@simplewebauthn/server");
    const { verified, registrationInfo } = await verifyRegistrationResponse({
      response: {
        id,
        rawId: id,
        type: "public-key",
        response: { clientDataJSON, attestationObject: await unattested(part("attestationObject")) },
        clientExtensionResults: {},
      },
      ...expected(challenge, party),
      supportedAlgorithmIDs: ALGORITHMS,
    });
    if (!verified || !registrationInfo) throw new Error("it is not verified");
    const { credential } = registrationInfo;
    if (credential.id !== id) throw new Error("it names two credentials");
    if (credential.publicKey.length > PUBLIC_KEY_BYTES_MAX) {
      throw new Error(`its public key has more than ${PUBLIC_KEY_BYTES_MAX} bytes`);
    }
    return { id, publicKey: encoded(credential.publicKey), counter: credential.counter };
  });
}

/** The id of the credential that a browser uses. Throws `unauthenticated` for a malformed answer. */
export function credentialIdOf(answer: unknown): string {
  return partsOf(answer).id;
}

/**
 * The new counter of a passkey's authenticator. Throws `unauthenticated` for an answer that does not prove that this
 * browser has the passkey just now.
 */
export async function checkedUse(
  answer: unknown,
  challenge: string,
  party: RelyingParty,
  passkey: Passkey,
  isNamed: boolean,
): Promise<number> {
  const { id, part } = partsOf(answer);
  const clientDataJSON = part("clientDataJSON");
  requireOwnFrame(clientDataJSON);
  const handle = part("userHandle", true);
  // An authenticator that was told which credential to use may leave it out.
  if (handle === undefined ? !isNamed : handle !== encoded(new TextEncoder().encode(passkey.accountId))) {
    throw refusal("it is another person's");
  }
  return await inWords(async () => {
    const { verifyAuthenticationResponse } = await import("@simplewebauthn/server");
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response: {
        id,
        rawId: id,
        type: "public-key",
        response: {
          clientDataJSON,
          authenticatorData: part("authenticatorData"),
          signature: part("signature"),
        },
        clientExtensionResults: {},
      },
      ...expected(challenge, party),
      credential: {
        id: passkey.id,
        publicKey: decoded(passkey.publicKey),
        counter: passkey.counter,
        transports: [] as AuthenticatorTransportFuture[],
      },
    });
    if (!verified) throw new Error("its signature is wrong");
    return authenticationInfo.newCounter;
  });
}

/** What every answer must prove. */
function expected(challenge: string, { id, origin }: RelyingParty) {
  return {
    expectedChallenge: challenge,
    expectedOrigin: origin,
    expectedRPID: id,
    requireUserVerification: true,
  };
}

interface AnswerParts {
  readonly id: string;
  part(name: string): string;
  part(name: string, isOptional: true): string | undefined;
}

/** The parts of an answer that are looked at, each a text of base64url within its limit. */
function partsOf(answer: unknown): AnswerParts {
  const { id, response } = fieldsOf(answer);
  const parts = fieldsOf(response);
  const checked = (name: string, value: unknown, charsMax: number) => {
    if (typeof value === "string" && value.length <= charsMax && BASE64URL.test(value)) return value;
    throw refusal(`its ${name} is no text in base64url of at most ${charsMax} characters`);
  };
  const part = (name: string, isOptional = false) => {
    const value = parts[name];
    if (isOptional && (value === undefined || value === null || value === "")) return undefined;
    return checked(name, value, PART_CHARS_MAX);
  };
  return { id: checked("id", id, ID_CHARS_MAX), part: part as AnswerParts["part"] };
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? value as Record<string, unknown> : {};
}

/** The library does not look at frames: no page of another site may have the browser answer. */
function requireOwnFrame(clientDataJSON: string): void {
  let isOwn = false;
  try {
    const { crossOrigin } = fieldsOf(JSON.parse(new TextDecoder().decode(decoded(clientDataJSON))));
    isOwn = crossOrigin === undefined || crossOrigin === false;
  } catch {
    throw refusal("its clientDataJSON is no JSON");
  }
  if (!isOwn) throw refusal("it was made in a frame of another site");
}

/** An attestation object without its statement. */
async function unattested(attestationObject: string): Promise<string> {
  const { decodeAttestationObject, isoCBOR } = await import("@simplewebauthn/server/helpers");
  const authData = decodeAttestationObject(decoded(attestationObject)).get("authData");
  if (!(authData instanceof Uint8Array)) throw new Error("it has no authenticator data");
  const plain = new Map<string, string | Uint8Array | Map<string, string>>([
    ["fmt", "none"],
    ["attStmt", new Map()],
    ["authData", authData],
  ]);
  return encoded(isoCBOR.encode(plain));
}

async function inWords<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    throw refusal(escapedLine(messageOf(cause)).slice(0, REASON_CHARS_MAX), cause);
  }
}

function refusal(reason: string, cause?: unknown): SvcError {
  return new SvcError("unauthenticated", `the passkey's answer proves nothing: ${reason}`, { cause });
}

function encoded(bytes: Uint8Array): string {
  return bytes.toBase64({ alphabet: "base64url", omitPadding: true });
}

function decoded(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.fromBase64(text, { alphabet: "base64url" });
}
