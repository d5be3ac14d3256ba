/**
 * The URL of a PostgreSQL database: its address, our credentials, and how the server proves its identity.
 *
 * Accepts only the documented parameters, because a session parameter such as `options` or `search_path` would change
 * the meaning of statements. An impostor of the server would get the password and all stored data, so a remote server
 * is verified unless the URL explicitly says otherwise.
 */

import { isIP } from "node:net";
import { SvcError } from "../../../base/error.ts";

/** An address in the form of the published driver. */
export interface PostgresAddress {
  readonly host: string[];
  readonly port: number[];
  /** The socket of a server on this computer; takes precedence. */
  readonly path?: string;
  readonly database: string;
  /** Absent means `PGUSER` and `PGPASSWORD`. */
  readonly user?: string;
  readonly password?: string;
  readonly ssl: false | PostgresTls;
  readonly targetSession?: string;
}

export interface PostgresTls {
  readonly rejectUnauthorized: boolean;
  readonly host?: string;
  readonly servername?: string;
  readonly ca?: string;
  readonly checkServerIdentity?: () => undefined;
}

const PORT = 5432;
const URL_PARTS = /^postgres(?:ql)?:\/\/(?:([^/?#]*)@)?([^@/?#]*)(?:\/([^/?#]*))?(?:\?([^#]*))?$/;
const HOST = /^(\[[0-9a-f:.]+\]|[^:[\]\s]+)(?::(\d{1,5}))?$/i;
const PARAMETERS = ["sslmode", "sslrootcert", "host", "target_session_attrs"];
/** The modes of TLS, those that prevent impersonation of the server first. */
const TLS_MODES = ["verify-full", "verify-ca", "require", "disable"];
const WANTED = "wanted postgres://user:password@host:port/database?sslmode=verify-full";

/** The address in a URL. `rootCertificate` is the content of the file that `rootCertificateFile` names. */
export function postgresAddress(url: string, rootCertificate?: string): PostgresAddress {
  const { userInfo, hosts: named, database, parameters } = partsOf(url);
  const socket = parameters.get("host") ?? undefined;
  if (socket !== undefined && !socket.startsWith("/")) {
    throw refusal(`the parameter host is "${socket}", wanted the folder of the server's socket`);
  }
  if (socket === undefined && named === "") throw refusal(`it names no host, ${WANTED}`);
  const hosts = named === "" ? [] : named.split(",").map(hostIn);
  const [{ port } = { port: PORT }] = hosts;
  const [user, password] = userInfo;
  return {
    host: hosts.map(({ host }) => host),
    port: hosts.map(({ port }) => port),
    path: socket === undefined ? undefined : `${socket}/.s.PGSQL.${port}`,
    database,
    user: user || undefined,
    password,
    ssl: socket === undefined && tlsOf(parameters, hosts.map(({ host }) => host), rootCertificate),
    targetSession: parameters.get("target_session_attrs") ?? undefined,
  };
}

/** The file with the certificates of the authorities that may have issued the server's certificate. */
export function rootCertificateFile(url: string): string | undefined {
  const file = partsOf(url).parameters.get("sslrootcert");
  return file === "system" || file === null ? undefined : file;
}

function partsOf(url: string) {
  const found = URL_PARTS.exec(url);
  if (!found) throw refusal(`it has another form, ${WANTED}`);
  const [, who = "", hosts, database = "", query = ""] = found;
  if (database === "") throw refusal(`it names no database, ${WANTED}`);
  const parameters = new URLSearchParams(query);
  for (const name of parameters.keys()) {
    const isTwice = parameters.getAll(name).length > 1;
    if (PARAMETERS.includes(name) && !isTwice) continue;
    throw refusal(
      `found the parameter ${name}${isTwice ? " twice" : ""}, wanted at most ${PARAMETERS.join(", ")}`,
    );
  }
  const colon = who.indexOf(":");
  const userInfo = colon < 0 ? [who] : [who.slice(0, colon), who.slice(colon + 1)];
  return { userInfo: userInfo.map(decoded), hosts, database: decoded(database), parameters };
}

function decoded(text: string): string {
  try {
    const found = decodeURIComponent(text);
    if (!found.includes("\0")) return found;
  } catch {
    // Reported below, without the text, which may be the password.
  }
  throw refusal("a part of it is not percent-encoded UTF-8");
}

function hostIn(text: string): { host: string; port: number } {
  const [, host, port = `${PORT}`] = HOST.exec(text) ?? [];
  if (host !== undefined && Number(port) >= 1 && Number(port) <= 65_535) {
    return { host: host.replace(/^\[|\]$/g, ""), port: Number(port) };
  }
  throw refusal(`found the host "${text}", ${WANTED}`);
}

function tlsOf(
  parameters: URLSearchParams,
  hosts: readonly string[],
  ca: string | undefined,
): false | PostgresTls {
  const mode = parameters.get("sslmode") ?? (hosts.every(isLoopback) ? "disable" : undefined);
  if (mode === undefined || !TLS_MODES.includes(mode)) {
    const found = mode === undefined ? "found no sslmode for a server elsewhere" : `found sslmode=${mode}`;
    const wanted = `wanted one of ${TLS_MODES.join(", ")}`;
    throw refusal(`${found}, ${wanted}: only verify-full proves that the server is the one that you named`);
  }
  if (mode === "disable") return false;
  // As with PostgreSQL's own programs: certificates of authorities make "require" verify.
  if (mode === "require" && ca === undefined) return { rejectUnauthorized: false };
  if (mode !== "verify-full") return { rejectUnauthorized: true, ca, checkServerIdentity: () => undefined };
  if (new Set(hosts).size > 1) {
    throw refusal("found several hosts with sslmode=verify-full, wanted one, or verify-ca with sslrootcert");
  }
  const [host] = hosts;
  return { rejectUnauthorized: true, ca, host, servername: isIP(host) === 0 ? host : undefined };
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

function refusal(why: string): SvcError {
  return new SvcError("invalid_argument", `the URL of the database cannot be used: ${why}`);
}
