/**
 * TLS of a port: its certificate, and the handshakes of clients.
 */

import type { Buffer } from "node:buffer";
import { createPrivateKey, createPublicKey, X509Certificate } from "node:crypto";
import type { Socket } from "node:net";
import { createServer, type Server as TlsServer } from "node:tls";
import { messageOf, SvcError } from "../../base/error.ts";
import { holdBelowTls } from "../flow/round_robin.ts";
import { answerAndEnd, TLS_HANDSHAKE } from "./endpoint.ts";
import { refusal } from "./http1.ts";

const NOT_TLS = refusal("400 Bad Request", "this port speaks TLS: use https:// in place of http://\n");

export interface TlsFiles {
  readonly certPem: string;
  readonly keyPem: string;
  /** Their names in errors: usually their paths. */
  readonly certName?: string;
  /** Clients are asked for certificates; one of the authorities in `certPem` must have issued them. */
  readonly asksClients?: boolean;
  readonly keyName?: string;
}

interface TlsHooks {
  /** Serves a socket after its handshake. */
  begin(socket: Socket): void;
  debug(message: string): void;
}

/** Creates the server of handshakes, which never listens itself. Throws `invalid_argument` for unusable files. */
export function createTlsServer(tls: TlsFiles, hooks: TlsHooks): TlsServer {
  // An unverified certificate counts as none; the call's own credentials decide.
  const asked = tls.asksClients && { requestCert: true, rejectUnauthorized: false, ca: [tls.certPem] };
  const server = createServer({
    ...checked(tls),
    ...asked,
    ALPNProtocols: ["h2", "http/1.1"],
    minVersion: "TLSv1.2",
  });
  server.on("secureConnection", (socket: Socket) => {
    holdBelowTls(socket);
    hooks.begin(socket);
  });
  server.on("tlsClientError", (error: Error, socket: Socket) => {
    hooks.debug(`TLS handshake failed: ${error.message}`);
    socket.destroy();
  });

  return server;
}

/** Input that is not TLS gets a readable answer, if it resembles HTTP. */
export function beginTls(
  socket: Socket,
  tls: TlsServer,
  debug: (message: string) => void,
  client: string,
): void {
  socket.on("error", (error) => debug(`connection of ${client}: ${error.message}`));
  socket.once("readable", () => {
    const bytes = socket.read() as Buffer | null;
    if (bytes?.[0] !== TLS_HANDSHAKE) {
      debug(`${client} does not begin with TLS, which is on here`);
      if (bytes && /^[A-Z]/.test(bytes.toString("latin1"))) answerAndEnd(socket, NOT_TLS);
      else socket.destroy();
      return;
    }
    socket.unshift(bytes);
    tls.emit("connection", socket);
  });
}

/** Certificate and key, fully checked. */
function checked(tls: TlsFiles): { cert: string; key: string } {
  const certName = tls.certName ?? "the certificate", keyName = tls.keyName ?? "the private key";
  const certificate = parsed(
    `cannot read ${certName}: wanted a PEM certificate`,
    () => new X509Certificate(tls.certPem),
  );
  const key = parsed(`cannot read ${keyName}: wanted a PEM private key`, () => createPrivateKey(tls.keyPem));
  const form = { type: "spki", format: "pem" } as const;
  if (createPublicKey(key).export(form) !== certificate.publicKey.export(form)) {
    const problem = `${keyName} is not the key of ${certName}; give the two files that were made together`;
    throw new SvcError("invalid_argument", problem);
  }
  return { cert: tls.certPem, key: tls.keyPem };
}

function parsed<T>(problem: string, parse: () => T): T {
  try {
    return parse();
  } catch (cause) {
    throw new SvcError("invalid_argument", `${problem}, found ${messageOf(cause)}`, { cause });
  }
}
