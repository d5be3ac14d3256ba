/**
 * The way of a program to other hosts: the authorities that it trusts and the proxies that it uses, for itself and for
 * the programs that it starts.
 *
 * Opened once, before the first connection. The authorities of the system count, of `SSL_CERT_FILE` and `SSL_CERT_DIR` as
 * well, and those of one more file (`SVC_CA_FILE`), such as the authority of one's own control plane. Where the runtime
 * and other programs take a single file only, this file writes one with all of them. A program that runs for years
 * follows these files: an authority that is added counts for the next connection.
 */

import { basename, dirname, join } from "node:path";
import { chainOf, SvcError } from "./error.ts";
import { SerialQueue } from "./async/serial_queue.ts";
import type { Clock } from "./clock.ts";
import type { ReadFiles, WatchFiles, WriteFiles } from "./files/files.ts";
import type { Environment, Platform } from "./host.ts";
import type { Logger } from "./log/log.ts";
import { furtherTrust } from "./native/trust.ts";
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

/** Programs write a file in more than one step, and several files one after the other. */
const STILL_MS = 500;
/** The system does not announce every change, for example within a folder. */
const LOOK_MS = 60_000;
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

/** Sets the process's environment, and makes it trust the authorities. */
export async function openWayOut(
  host: WayOutHost,
  paths: WayOutPaths,
  own: WayOutProcess = { set: setProcessEnv, trust: furtherTrust() },
): Promise<WayOut> {
  if (!host.env("DENO_TLS_CA_STORE")) own.set("DENO_TLS_CA_STORE", "system,mozilla");
  openProxies(host, own.set);
  const way = new WayOut(host, paths, own);
  await way.refresh();
  return way;
}

/** A program's trust in authorities. */
export class WayOut {
  #problems: readonly string[] = [];
  /** The trusted certificates, as comparable text. */
  #trusted = "";
  /** The programs that this one starts use the bundle. */
  #isShared = false;
  readonly #given: ReadonlyMap<string, string>;
  readonly #work = new SerialQueue();

  constructor(
    private readonly host: WayOutHost,
    private readonly paths: WayOutPaths,
    private readonly own: WayOutProcess,
  ) {
    // As found at the start: this program sets some of them itself.
    const names = [...BUNDLE_VARIABLES, "SSL_CERT_DIR", RUNTIME_VARIABLE, FURTHER_VARIABLE];
    this.#given = new Map(names.map((name) => [name, host.env(name) ?? ""]));
  }

  /** What is wrong with the files; programs work in spite of it. */
  get problems(): readonly string[] {
    return this.#problems;
  }

  /** Trusts authorities that are added to the files from now on; the returned function stops it. */
  follow(host: WatchFiles, clock: Clock, logger: Logger): () => Promise<void> {
    let ended = false;
    let callOff = () => {};
    const lookAfter = (ms: number) => {
      callOff();
      if (!ended) callOff = clock.after(ms, () => void this.#work.run(look));
    };
    const look = async () => {
      if (ended) return;
      const [trusted, problems] = [this.#trusted, this.#problems.join()];
      await this.refresh();
      if (this.#trusted !== trusted) logger.info("the trusted authorities have changed");
      if (this.#problems.join() !== problems) { for (const problem of this.#problems) logger.warn(problem); }
      lookAfter(LOOK_MS);
    };

    const unwatch = this.#sources().map((path) =>
      host.watchFile(path, () => lookAfter(STILL_MS), { promptly: false })
    );
    lookAfter(LOOK_MS);

    return async () => {
      ended = true;
      callOff();
      for (const end of unwatch) end();
      await this.#work.idle();
    };
  }

  /** Reads the files again and trusts what they hold. */
  async refresh(): Promise<void> {
    const { host, paths: { authorities }, own } = this;
    const problems: string[] = [];
    this.#problems = problems;
    const further = await certificatesIn(host, authorities, true, problems);
    const isUsual = further.length === 0 && !this.#given.get("SSL_CERT_DIR") &&
      !this.#given.get("SSL_CERT_FILE");
    // The runtime itself has read the system's store.
    if (isUsual && this.#trusted === "") return;

    const known = await knownCertificates(host, this.#given, problems);
    const runtimeFile = this.#given.get(RUNTIME_VARIABLE);
    const ofRuntime = runtimeFile ? await certificatesIn(host, runtimeFile, true, problems) : [];
    const all = [...new Set([...known, ...ofRuntime, ...further])];
    const text = all.map((one) => `${one}\n`).join("");
    // A file that is unusable for now ends no trust.
    if (all.length === 0 || (problems.length > 0 && this.#trusted !== "")) return;

    if (text !== this.#trusted) own.trust(all);
    this.#trusted = text;
    await this.#share(text, further.length > 0, problems);
  }

  /** Hands the authorities to the programs that this one starts. */
  async #share(text: string, hasFurther: boolean, problems: string[]): Promise<void> {
    const { host, paths: { authorities, bundle }, own } = this;
    const given = (name: string) => this.#given.get(name) !== "";
    if (!hasFurther && !given("SSL_CERT_DIR") && !this.#isShared) return;

    if (hasFurther) own.set(AUTHORITIES_VARIABLE, authorities);
    try {
      const before = await host.readTextFile(bundle).catch(() => "");
      if (before !== text) {
        await host.makeFolder(dirname(bundle));
        await host.writeFile(bundle, text, { mode: 0o644 });
      }
    } catch (error) {
      const sources = [hasFurther && authorities, given("SSL_CERT_DIR") && "SSL_CERT_DIR"].filter(Boolean);
      problems.push(
        `programs that this one starts do not trust the authorities of ${sources.join(" and ")}: ${
          chainOf(error)
        }`,
      );
      return;
    }

    this.#isShared = true;
    for (const name of BUNDLE_VARIABLES) if (name === "SSL_CERT_FILE" || !given(name)) own.set(name, bundle);
    if (hasFurther && !given(FURTHER_VARIABLE)) own.set(FURTHER_VARIABLE, authorities);
  }

  /** The files and folders whose changes matter. */
  #sources(): string[] {
    const { authorities } = this.paths;
    const [file, folder] = [this.#given.get("SSL_CERT_FILE"), this.#given.get("SSL_CERT_DIR")];
    const folders = foldersIn(folder ?? "", this.host);
    return [authorities, ...(file ? [file] : []), ...folders];
  }
}

function foldersIn(folders: string, host: Platform): string[] {
  return folders.split(host.platform().os === "windows" ? ";" : ":").filter(Boolean);
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
async function knownCertificates(
  host: WayOutHost,
  given: ReadonlyMap<string, string>,
  problems: string[],
): Promise<string[]> {
  const named = given.get("SSL_CERT_FILE") ?? "";
  const inFolder: string[] = [];
  for (const path of foldersIn(given.get("SSL_CERT_DIR") ?? "", host)) {
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
