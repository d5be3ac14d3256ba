/**
 * The control plane's own certificate: from two files, or from its own authority.
 *
 * A program that runs for years always shows a valid certificate: it reads replaced files again, and renews a
 * certificate of the authority when a third of its life is left, another authority signs, its names change, or a clock
 * that was ahead is set back.
 */

import { SerialQueue } from "../../base/async/serial_queue.ts";
import type { ReadFiles, WatchFiles } from "../../base/files/files.ts";
import type { Clock } from "../../base/clock.ts";
import { chainOf } from "../../base/error.ts";
import type { Logger } from "../../base/log/log.ts";
import type { Port } from "../../wire/port/port.ts";
import type { TlsFiles } from "../../wire/port/tls.ts";
import { followTlsFiles, readTlsFiles, type TlsPaths } from "../../wire/port/tls_files.ts";
import type { Authority, Certificate } from "../store/secrets/authority.ts";

/**
 * Interval of the check for a new certificate of the authority, which is how long a new location waits for its
 * names.
 */
const LOOK_MS = 60_000;

export interface PortCertificateParts {
  /** From these files, or for the present `names` from the authority. */
  readonly from: TlsPaths | {
    readonly authority: Authority;
    readonly names: () => Promise<readonly string[]>;
  };
  readonly host: ReadFiles & WatchFiles;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class PortCertificate {
  #shown: TlsFiles | undefined;
  #issued: Certificate | undefined;
  /** The names of the issued certificate. */
  #names = "";
  #problem = "";
  #ended = false;
  #unfollow = () => {};
  readonly #work = new SerialQueue();

  constructor(private readonly parts: PortCertificateParts) {}

  /** The current certificate. */
  async read(): Promise<TlsFiles> {
    return this.#shown = await this.#current();
  }

  /** Keeps the certificate of `port` current; the returned function stops it. */
  keep(port: Pick<Port, "renew">): () => Promise<void> {
    this.#follow(port);
    return async () => {
      this.#ended = true;
      this.#unfollow();
      await this.#work.idle();
    };
  }

  /** Updates the certificate at once, after changes by this program itself. */
  async refresh(port: Pick<Port, "renew">): Promise<void> {
    await this.#work.run(() => this.#look(port));
  }

  #follow(port: Pick<Port, "renew">): void {
    this.#unfollow();
    if (this.#ended) return;
    const { from, clock } = this.parts;
    const look = () => void this.#work.run(() => this.#look(port));
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
    const { from, host } = this.parts;
    if (!("authority" in from)) return await readTlsFiles(from, host);
    const { authority } = from;
    const names = await from.names();
    const isGood = this.#issued && authority.isCurrent(this.#issued) && this.#names === names.join(" ");
    if (!isGood) {
      this.#issued = await authority.issue(names);
      this.#names = names.join(" ");
    }
    const { certificate: certPem, privateKey: keyPem } = this.#issued!;
    return { certPem, keyPem };
  }
}
