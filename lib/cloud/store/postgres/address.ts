/**
 * The URL of a PostgreSQL database: its address, our credentials, and how the server proves its identity.
 *
 * Accepts only the documented parameters, because a session parameter such as `options` or `search_path` would change
 * the meaning of statements. An impostor of the server would get the password and all stored data, so a remote server
 * is verified unless the URL explicitly says otherwise.
 */

import { isIP } from "node:net";
import { SvcError } from "../../../base/error.ts";

export interface PostgresAddress {
  /** In the order in which they are tried. */
  readonly servers: readonly ServerAddress[];
  readonly database: string;
  /** Absent means `PGUSER` and `PGPASSWORD`. */
  readonly user?: string;
  readonly password?: string;
  /** A server whose sessions are read-only by default does not count, as with `target_session_attrs=read-write`. */
  readonly wantsReadWrite: boolean;
}

/** The address of one server, in the form of the published driver. */
export interface ServerAddress {
  readonly host: string;
  readonly port: number;
  /** The socket of a server on this computer; takes precedence. */
  readonly path?: string;
  readonly ssl: false | PostgresTls;
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
const PASSWORD = "give the password in PGPASSWORD, or with the user's name in the URL";
const LIMITS = "svc-cloud has its own: leave the parameter out";
/** What a URL for PostgreSQL's own programs often has, and what to do instead. */
const OTHER_PARAMETERS: { readonly [name: string]: string } = {
  passfile: PASSWORD,
  password: PASSWORD,
  user: "give the name before the host, as postgres://user@host/database",
  service: "svc-cloud reads no service files: write the address into the URL",
  options: "svc-cloud chooses the settings of its sessions: set others with ALTER ROLE … SET in PostgreSQL",
  load_balance_hosts: "svc-cloud always uses the one server that takes writes: leave the parameter out",
  channel_binding: "svc-cloud binds no channels: leave the parameter out, and use sslmode=verify-full",
  sslcert: "svc-cloud signs in by password: leave the parameter out",
  sslkey: "svc-cloud signs in by password: leave the parameter out",
  hostaddr: "give the address as the host",
  port: "give the port after the host, as host:port",
  dbname: "give the database after the host, as postgres://host/database",
  connect_timeout: LIMITS,
  application_name: LIMITS,
  keepalives: LIMITS,
};
/** All need a server that takes writes, so `any` is `primary` here. */
const SESSIONS = ["read-write", "primary", "any"];
/** The modes of TLS, those that prevent impersonation of the server first. */
const TLS_MODES = ["verify-full", "verify-ca", "require", "disable"];
const WANTED = "wanted postgres://user:password@host:port/database?sslmode=verify-full";

/** The address in a URL. `rootCertificate` is the content of the file that `rootCertificateFile` names. */
export function postgresAddress(url: string, rootCertificate?: string): PostgresAddress {
  const { userInfo, hosts: named, database, parameters } = partsOf(url);
  const [user, password] = userInfo;
  const session = parameters.get("target_session_attrs") ?? "any";
  if (!SESSIONS.includes(session)) {
    const wanted = `wanted one of ${SESSIONS.join(", ")}: svc-cloud writes`;
    throw refusal(`found target_session_attrs=${session}, ${wanted}`);
  }
  return {
    servers: serversOf(named, parameters, rootCertificate),
    database,
    user: user || undefined,
    password,
    wantsReadWrite: session === "read-write",
  };
}

function serversOf(named: string, parameters: URLSearchParams, ca: string | undefined): ServerAddress[] {
  const socket = parameters.get("host") ?? undefined;
  if (socket !== undefined && !socket.startsWith("/")) {
    throw refusal(`the parameter host is "${socket}", wanted the folder of the server's socket`);
  }
  if (socket === undefined && named === "") throw refusal(`it names no host, ${WANTED}`);
  const hosts = named === "" ? [] : named.split(",").map(hostIn);
  if (socket !== undefined) {
    const [{ host, port } = { host: "localhost", port: PORT }] = hosts;
    return [{ host, port, path: `${socket}/.s.PGSQL.${port}`, ssl: false }];
  }
  const mode = tlsModeOf(parameters, hosts.map(({ host }) => host));
  return hosts.map(({ host, port }) => ({ host, port, ssl: tlsOf(mode, host, ca) }));
}

/** The file with the certificates of the authorities that may have issued the server's certificate. */
export function rootCertificateFile(url: string): string | undefined {
  const file = partsOf(url).parameters.get("sslrootcert");
  return file === "system" || file === null ? undefined : file;
}

function partsOf(url: string) {
  const found = URL_PARTS.exec(url);
  if (!found) throw refusal(`it has another form, ${WANTED}`);
  const [, who = "", hosts = "", database = "", query = ""] = found;
  if (database === "") throw refusal(`it names no database, ${WANTED}`);
  const parameters = new URLSearchParams(query);
  for (const name of parameters.keys()) {
    const isTwice = parameters.getAll(name).length > 1;
    if (PARAMETERS.includes(name) && !isTwice) continue;
    const instead = Object.hasOwn(OTHER_PARAMETERS, name) ? `: ${OTHER_PARAMETERS[name]}` : "";
    throw refusal(
      `found the parameter ${name}${isTwice ? " twice" : ""}, wanted at most ${
        PARAMETERS.join(", ")
      }${instead}`,
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
  const [, host, port = `${PORT}`] = text.includes("%") ? [] : HOST.exec(text) ?? [];
  if (host !== undefined && Number(port) >= 1 && Number(port) <= 65_535) {
    return { host: host.replace(/^\[|\]$/g, ""), port: Number(port) };
  }
  if (text.startsWith("%2F") || text.startsWith("%2f")) {
    throw refusal(`found the socket "${text}" as a host, wanted postgres:///database?host=FOLDER`);
  }
  throw refusal(`found the host "${text}", ${WANTED}`);
}

function tlsModeOf(parameters: URLSearchParams, hosts: readonly string[]): string {
  const given = parameters.get("sslmode") ?? undefined;
  if (parameters.get("sslrootcert") === "system") {
    // Anybody gets a certificate of one of the system's authorities, for a name of their own.
    if (given === undefined || given === "verify-full") return "verify-full";
    throw refusal(`found sslmode=${given} with sslrootcert=system, wanted verify-full`);
  }
  const mode = given ?? (hosts.every(isLoopback) ? "disable" : undefined);
  if (mode !== undefined && TLS_MODES.includes(mode)) return mode;
  const found = mode === undefined ? "found no sslmode for a server elsewhere" : `found sslmode=${mode}`;
  const wanted = `wanted one of ${TLS_MODES.join(", ")}`;
  throw refusal(`${found}, ${wanted}: only verify-full proves that the server is the one that you named`);
}

function tlsOf(mode: string, host: string, ca: string | undefined): false | PostgresTls {
  if (mode === "disable") return false;
  // As with PostgreSQL's own programs: certificates of authorities make "require" verify.
  if (mode === "require" && ca === undefined) return { rejectUnauthorized: false };
  if (mode !== "verify-full") return { rejectUnauthorized: true, ca, checkServerIdentity: () => undefined };
  return { rejectUnauthorized: true, ca, host, servername: isIP(host) === 0 ? host : undefined };
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

function refusal(why: string): SvcError {
  return new SvcError("invalid_argument", `the URL of the database cannot be used: ${why}`);
}
