/**
 * The certificate that the control plane itself shows: from two files, or of its own authority.
 *
 * Promises that a program that runs for years shows one that is good: files that others have replaced are read anew,
 * and a certificate of the authority is issued anew when a third of its life is left or another authority signs.
 */

import type { ReadFiles, WatchFiles } from "../base/files/files.ts";
import type { Clock } from "../base/clock.ts";
import { chainOf } from "../base/error.ts";
import type { Logger } from "../base/log/log.ts";
import type { Port, TlsFiles } from "../wire/port/port.ts";
import { followTlsFiles, readTlsFiles, type TlsPaths } from "../wire/port/tls_files.ts";
import type { Authority, Certificate } from "./store/authority.ts";

/** How often it is looked whether the authority's certificate is still the one to show. */
const LOOK_MS = 3_600_000;

export interface PortCertificateParts {
  /** In these files, or for `names` of the authority. */
  readonly from: TlsPaths | { readonly authority: Authority; readonly names: readonly string[] };
  readonly host: ReadFiles & WatchFiles;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class PortCertificate {
  #shown: TlsFiles | undefined;
  #issued: Certificate | undefined;
  #problem = "";
  #ended = false;
  #unfollow = () => {};
  #work = Promise.resolve();

  constructor(private readonly parts: PortCertificateParts) {}

  /** The certificate as it is now. */
  async read(): Promise<TlsFiles> {
    return this.#shown = await this.#current();
  }

  /** Shows on `port` what becomes of it; the returned function ends that. */
  keep(port: Pick<Port, "renew">): () => Promise<void> {
    this.#follow(port);
    return async () => {
      this.#ended = true;
      this.#unfollow();
      await this.#work;
    };
  }

  #follow(port: Pick<Port, "renew">): void {
    this.#unfollow();
    if (this.#ended) return;
    const { from, clock } = this.parts;
    const look = () => void (this.#work = this.#work.then(() => this.#look(port)));
    this.#unfollow = "authority" in from
      ? clock.after(LOOK_MS, look)
      : followTlsFiles(from, this.parts, look);
  }

  async #look(port: Pick<Port, "renew">): Promise<void> {
    const { logger } = this.parts;
    this.#follow(port);
    try {
      const tls = await this.#current();
      if (this.#ended) return;
      if (JSON.stringify(tls) !== JSON.stringify(this.#shown)) {
        port.renew(tls);
        this.#shown = tls;
        logger.info("the port has another certificate", { file: tls.certName });
      }
      this.#problem = "";
    } catch (error) {
      const problem = `the certificate is the same as before: ${chainOf(error)}`;
      if (problem !== this.#problem) logger.error(problem);
      this.#problem = problem;
    }
  }

  async #current(): Promise<TlsFiles> {
    const { from, host, clock } = this.parts;
    if (!("authority" in from)) return await readTlsFiles(from, host);
    const { authority, names } = from;
    const isGood = this.#issued && authority.hasSigned(this.#issued) &&
      clock.nowMs() < this.#issued.renewMs;
    if (!isGood) this.#issued = await authority.issue(names);
    const { certificate: certPem, privateKey: keyPem } = this.#issued!;
    return { certPem, keyPem };
  }
}
