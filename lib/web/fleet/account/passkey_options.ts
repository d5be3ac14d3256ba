/** What the control plane and the browser say to each other about passkeys. */

export interface NamedCredential {
  readonly type: "public-key";
  readonly id: string;
}

/** What `navigator.credentials` is asked for, in WebAuthn's JSON form. */
export interface CreationOptions {
  readonly challenge: string;
  readonly user: { readonly id: string; readonly name: string; readonly displayName: string };
  readonly excludeCredentials: readonly NamedCredential[];
}

export interface RequestOptions {
  readonly challenge: string;
  readonly allowCredentials: readonly NamedCredential[];
}

/** Where passkeys can be used. */
export interface PasskeyOrigin {
  /** The public address; `null` if there are none, for `reason`. */
  readonly origin: string | null;
  readonly reason?: string;
}
