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

/** Trusts these certificates (PEM) beside those that the process trusts already. */
export function trustAlso(certificates: readonly string[]): void {
  const { setDefaultCACertificates, getCACertificates, rootCertificates } = tls as DefaultAuthorities;
  const known = getCACertificates?.("default") ?? rootCertificates;
  setDefaultCACertificates?.([...known, ...certificates]);
  const client = Deno.createHttpClient({ caCerts: [...certificates] });
  const direct = globalThis.fetch;
  globalThis.fetch = (input: RequestInfo | URL, init?: RequestInit & { client?: Deno.HttpClient }) =>
    direct(input, { client, ...init });
}
