/**
 * A certificate and its private key in two files, which other programs replace while this one runs.
 */

import { X509Certificate } from "node:crypto";
import type { ReadFiles, WatchFiles } from "../../base/files/files.ts";
import type { Clock } from "../../base/clock.ts";
import type { TlsFiles } from "./tls.ts";

export interface TlsPaths {
  readonly certFile: string;
  readonly keyFile: string;
}

/** Programs replace the two files one after the other. */
const STILL_MS = 500;
/** The system does not announce every change, for example on a network file system. */
const LOOK_MS = 60_000;

/** Reads both. An unreadable file is the host's error. */
export async function readTlsFiles({ certFile, keyFile }: TlsPaths, host: ReadFiles): Promise<TlsFiles> {
  const [certPem, keyPem] = [await host.readTextFile(certFile), await host.readTextFile(keyFile)];
  return { certPem, keyPem, certName: certFile, keyName: keyFile };
}

/** The self-signed authorities of a chain of certificates (PEM); `undefined` if there are none. */
export function authoritiesIn(chainPem: string): string | undefined {
  const all = chainPem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  const authorities = all.filter((pem) => {
    try {
      const certificate = new X509Certificate(pem);
      return certificate.ca && certificate.checkIssued(certificate);
    } catch {
      return false;
    }
  });
  return authorities.length > 0 ? authorities.join("\n") : undefined;
}

/**
 * Calls `look` once the files have changed and are stable again, and every minute in any case; the returned function
 * stops it. It follows the present links to the files: call it again after each look.
 */
export function followTlsFiles(
  { certFile, keyFile }: TlsPaths,
  { host, clock }: { readonly host: WatchFiles; readonly clock: Clock },
  look: () => void,
): () => void {
  let callOff = clock.after(LOOK_MS, look);
  const changed = () => {
    callOff();
    callOff = clock.after(STILL_MS, look);
  };
  const unwatch = [...new Set([certFile, keyFile])].map((path) =>
    host.watchFile(path, changed, { promptly: false })
  );
  return () => {
    callOff();
    for (const end of unwatch) end();
  };
}
