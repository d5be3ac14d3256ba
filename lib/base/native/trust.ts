/**
 * Makes this process trust further authorities, for sockets with TLS and for `fetch`.
 *
 * The runtime reads the variables for this before or during the start of a program, whichever comes first (measured: in
 * one of four starts from source they came too late), so a program that sets them for itself cannot rely on that.
 */

import * as tls from "node:tls";

/** Absent in older runtimes and in the runtime's types. */
interface DefaultAuthorities {
  readonly setDefaultCACertificates?: (certificates: readonly string[]) => void;
  readonly getCACertificates?: (kind: "default") => readonly string[];
  readonly rootCertificates: readonly string[];
}

/**
 * A function that makes this process trust the given certificates (PEM), beside those that it trusts now; each call
 * replaces the certificates of the one before. New connections are checked with them, open ones stay.
 */
export function furtherTrust(): (certificates: readonly string[]) => void {
  const { setDefaultCACertificates, getCACertificates, rootCertificates } = tls as DefaultAuthorities;
  const direct = globalThis.fetch;
  let known: readonly string[] | undefined;
  return (certificates) => {
    // Reading them takes some milliseconds, and most programs never trust further ones.
    known ??= getCACertificates?.("default") ?? rootCertificates;
    setDefaultCACertificates?.([...known, ...certificates]);
    const client = Deno.createHttpClient({ caCerts: [...certificates] });
    globalThis.fetch = (input: RequestInfo | URL, init?: RequestInit & { client?: Deno.HttpClient }) =>
      direct(input, { client, ...init });
  };
}
