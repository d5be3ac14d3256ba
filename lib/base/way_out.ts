/**
 * The way of a program to other hosts: the authorities that it trusts and the proxies that it uses, for itself and for
 * the programs that it starts.
 *
 * Runs once, before the first connection. The authorities of the system count, of `SSL_CERT_FILE` and `SSL_CERT_DIR` as
 * well, and those of one more file (`SVC_CA_FILE`), such as the authority of one's own control plane. Where the runtime
 * and other programs take a single file only, this file writes one with all of them.
 */

import { basename, dirname, join } from "node:path";
import { chainOf, SvcError } from "./error.ts";
import type { ReadFiles, WriteFiles } from "./files/files.ts";
import type { Environment, Platform } from "./host.ts";
import { trustAlso } from "./native/trust.ts";
import { allProxyOf, setProcessEnv } from "./native/environment.ts";

export type WayOutHost = Environment & Platform & ReadFiles & WriteFiles;

export interface WayOutPaths {
  /** The file of further authorities (PEM), which may be missing; the variable `SVC_CA_FILE` names another. */
  readonly authorities: string;
  /** Written by this program if it needs a file with all authorities. */
  readonly bundle: string;
}

/** The process whose way it is. */
export interface WayOutProcess {
  readonly set: (name: string, value: string) => void;
  readonly trust: (certificates: readonly string[]) => void;
}

/** The variable that names the file of further authorities. */
export const AUTHORITIES_VARIABLE = "SVC_CA_FILE";

/** Where systems keep the authorities that they trust. */
const SYSTEM_BUNDLES = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/ca-bundle.pem",
  "/etc/ssl/cert.pem",
];
/** Variables by which libraries of other languages find the authorities. */
const BUNDLE_VARIABLES = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"];
/** The runtime's own variable for further authorities: what is trusted explicitly is trusted in its place. */
const RUNTIME_VARIABLE = "DENO_CERT";
/** Node takes further authorities, and has its own for the rest. */
const FURTHER_VARIABLE = "NODE_EXTRA_CA_CERTS";
const PEM_BYTES_MAX = 8 * 1024 ** 2;
const DIR_FILES_MAX = 2000;
const CERTIFICATE = /-----BEGIN (?:TRUSTED )?CERTIFICATE-----[\s\S]*?-----END (?:TRUSTED )?CERTIFICATE-----/g;
/** Reached without a proxy by every program. */
const OWN_HOSTS = ["localhost", "127.0.0.1", "::1"];
const PROXY_VARIABLES = ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "SOCKS_PROXY"];

/** The file of further authorities beside a file of credentials, unless the environment names another. */
export function authoritiesBeside(folder: string, { env }: Pick<Environment, "env">): string {
  return env(AUTHORITIES_VARIABLE) || join(folder, "svc-ca.pem");
}

/** Sets the process's environment. Returns the problems; programs work in spite of them. */
export async function openWayOut(
  host: WayOutHost,
  { authorities, bundle }: WayOutPaths,
  { set, trust }: WayOutProcess = { set: setProcessEnv, trust: trustAlso },
): Promise<readonly string[]> {
  if (!host.env("DENO_TLS_CA_STORE")) set("DENO_TLS_CA_STORE", "system,mozilla");
  openProxies(host, set);

  const problems: string[] = [];
  const further = await certificatesIn(host, authorities, true, problems);
  const folder = host.env("SSL_CERT_DIR") ?? "";
  if (further.length === 0 && folder === "" && !host.env("SSL_CERT_FILE")) return problems;

  if (further.length > 0) set(AUTHORITIES_VARIABLE, authorities);
  const known = await knownCertificates(host, folder, problems);
  const own = host.env(RUNTIME_VARIABLE);
  const ofRuntime = own ? await certificatesIn(host, own, true, problems) : [];
  const all = [...new Set([...known, ...ofRuntime, ...further])];
  if (all.length > 0) trust(all);

  if (further.length === 0 && folder === "") return problems;
  const text = all.map((one) => `${one}\n`).join("");
  try {
    const before = await host.readTextFile(bundle).catch(() => "");
    if (before !== text) {
      await host.makeFolder(dirname(bundle));
      await host.writeFile(bundle, text, { mode: 0o644 });
    }
  } catch (error) {
    const sources = [further.length > 0 && authorities, folder !== "" && "SSL_CERT_DIR"].filter(Boolean);
    problems.push(
      `programs that this one starts do not trust the authorities of ${sources.join(" and ")}: ${
        chainOf(error)
      }`,
    );
    return problems;
  }

  for (const name of BUNDLE_VARIABLES) if (name === "SSL_CERT_FILE" || !host.env(name)) set(name, bundle);
  if (further.length > 0 && !host.env(FURTHER_VARIABLE)) set(FURTHER_VARIABLE, authorities);
  return problems;
}

/** A proxy for everything, and none for this computer, in the notation of the runtime. */
function openProxies({ env }: Environment, set: (name: string, value: string) => void): void {
  const valueOf = (name: string) => env(name) || env(name.toLowerCase()) || "";
  if (!PROXY_VARIABLES.some((name) => valueOf(name) !== "")) return;
  const all = allProxyOf(env);
  if (all !== undefined) set("ALL_PROXY", all);
  const direct = valueOf("NO_PROXY").split(/[\s,]+/).filter((one) => one !== "");
  const list = [...new Set([...direct, ...OWN_HOSTS])].join(",");
  for (const name of ["NO_PROXY", "no_proxy"]) set(name, list);
}

/** Those of the system, or of the variables in their place. */
async function knownCertificates(host: WayOutHost, folder: string, problems: string[]): Promise<string[]> {
  const named = host.env("SSL_CERT_FILE") ?? "";
  const inFolder: string[] = [];
  for (const path of folder.split(host.platform().os === "windows" ? ";" : ":").filter(Boolean)) {
    const names = await host.readFolder(path).catch((error) => {
      problems.push(`SSL_CERT_DIR: ${chainOf(error)}`);
      return [];
    });
    for (const name of names.slice(0, DIR_FILES_MAX)) {
      if (/\.(pem|crt|cer|\d+)$/i.test(basename(name))) {
        inFolder.push(...await certificatesIn(host, join(path, name), true, []));
      }
    }
  }

  if (named !== "") return [...await certificatesIn(host, named, false, problems), ...inFolder];
  if (inFolder.length > 0) return inFolder;

  for (const path of SYSTEM_BUNDLES) {
    const found = await certificatesIn(host, path, true, []);
    if (found.length > 0) return found;
  }

  return [];
}

/** The certificates in a file; none, with a problem, if it is unusable. */
async function certificatesIn(
  host: ReadFiles,
  path: string,
  mayMiss: boolean,
  problems: string[],
): Promise<string[]> {
  try {
    const found = await host.findFile(path);
    if (!found && mayMiss) return [];
    if (!found) throw new SvcError("not_found", "there is no such file");
    if (found.sizeBytes > PEM_BYTES_MAX) {
      throw new SvcError("invalid_argument", `found ${found.sizeBytes} bytes`);
    }
    const certificates = (await host.readTextFile(path)).match(CERTIFICATE) ?? [];
    if (certificates.length > 0) return [...certificates];
    throw new SvcError(
      "invalid_argument",
      "found no certificate, wanted some in PEM (-----BEGIN CERTIFICATE-----)",
    );
  } catch (error) {
    problems.push(`the authorities in ${path} are not trusted: ${chainOf(error)}`);
    return [];
  }
}
