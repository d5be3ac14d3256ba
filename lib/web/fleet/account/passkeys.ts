/** Passkeys by the browser's own interface (WebAuthn), whose bytes travel in base64url. */

import { AccountRefusal, askAccount } from "./account_pages.ts";
import type { NamedCredential, PasskeyOrigin } from "./passkey_options.ts";

/** Why this browser cannot use passkeys here; `undefined` if it can. */
export function passkeyProblem({ origin, reason }: PasskeyOrigin): string | undefined {
  if (origin === null) return reason ?? "passkeys cannot be used here";
  if (location.origin !== origin) {
    return `passkeys work at ${origin} alone, and this page is ${location.origin}`;
  }
  return "credentials" in navigator && "PublicKeyCredential" in window
    ? undefined
    : "this browser has no passkeys";
}

/** Adds a passkey to the account. Throws `AccountRefusal`, or why the browser has made none. */
export async function addPasskey(name: string, password: string): Promise<void> {
  const { options } = await askAccount("passkey-add", { name, password });
  const { user, challenge, excludeCredentials, ...rest } = options;
  const made = await byBrowser(() =>
    navigator.credentials.create({
      publicKey: {
        ...rest as Omit<PublicKeyCredentialCreationOptions, "challenge" | "user">,
        challenge: decoded(challenge),
        user: { ...user, id: decoded(user.id) },
        excludeCredentials: excludeCredentials.map(named),
      },
    })
  );
  const { clientDataJSON, attestationObject } = made.response as AuthenticatorAttestationResponse;
  const response = {
    clientDataJSON: encoded(clientDataJSON),
    attestationObject: encoded(attestationObject),
  };
  await askAccount("passkey-finish", { answer: { id: made.id, response } });
}

/** Signs in by passkey: any of here, or with an e-mail address by those of its account. Throws as `addPasskey` does. */
export async function signInByPasskey(email: string, stays: boolean): Promise<void> {
  const { options } = await askAccount("passkey-sign-in", { email, stays });
  const { challenge, allowCredentials, ...rest } = options;
  const used = await byBrowser(() =>
    navigator.credentials.get({
      publicKey: {
        ...rest,
        challenge: decoded(challenge),
        allowCredentials: allowCredentials.map(named),
      },
    })
  );
  const { clientDataJSON, authenticatorData, signature, userHandle } = used
    .response as AuthenticatorAssertionResponse;
  const response = {
    clientDataJSON: encoded(clientDataJSON),
    authenticatorData: encoded(authenticatorData),
    signature: encoded(signature),
    userHandle: userHandle && encoded(userHandle),
  };
  await askAccount("passkey-finish", { answer: { id: used.id, response } });
}

/** Browsers say little about why, so that pages learn nothing about other people's passkeys. */
const REASONS: Readonly<Record<string, string>> = {
  NotAllowedError:
    "the browser has used no passkey: it was cancelled, took too long, or there is none for here",
  InvalidStateError: "this device has a passkey of the account already",
  SecurityError: "the browser allows no passkeys at this address",
  NotSupportedError: "this device makes no passkey of the wanted kind",
};

async function byBrowser(work: () => Promise<Credential | null>): Promise<PublicKeyCredential> {
  try {
    const credential = await work();
    if (credential instanceof PublicKeyCredential) return credential;
  } catch (error) {
    if (error instanceof AccountRefusal || !(error instanceof DOMException)) throw error;
    throw new Error(REASONS[error.name] ?? error.message);
  }
  throw new Error("the browser has used no passkey");
}

function named({ type, id }: NamedCredential): PublicKeyCredentialDescriptor {
  return { type, id: decoded(id) };
}

function decoded(text: string): Uint8Array<ArrayBuffer> {
  const bytes = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(bytes, (one) => one.charCodeAt(0));
}

function encoded(buffer: ArrayBuffer): string {
  const bytes = Array.from(new Uint8Array(buffer), (one) => String.fromCharCode(one)).join("");
  return btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
