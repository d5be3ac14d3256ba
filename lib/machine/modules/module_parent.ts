/**
 * Where modules reach the machine: a socket of its own for calls without a key, as modules have full trust.
 *
 * Owns the folder of all modules' sockets, which only our user may enter. The socket opens when the first module
 * starts. Modules in TCP mode get an address on this computer alone, which opens with the first of them.
 */

import { join } from "node:path";
import type { WriteFiles } from "../../base/files/files.ts";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log/log.ts";
import { openPort, openUnixPort, type Port } from "../../wire/port/port.ts";
import type { ServiceTable } from "../../wire/service.ts";

/** How long calls of modules under way may take at the end: by then the modules have ended. */
const DRAIN_MS = 1_000;
const LOOPBACK = "127.0.0.1";
/** Published names. */
const FOLDER_PREFIX = "viam-module-";
const PARENT_SOCKET = "parent.sock";

export interface ModuleParentParts {
  /** All services of the machine. */
  readonly table: () => ServiceTable;
  readonly host: Pick<WriteFiles, "temporaryFolder" | "removeTree">;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class ModuleParent {
  #table: ServiceTable | undefined;
  #socket: Promise<{ readonly folder: string; readonly port: Port }> | undefined;
  #tcp: Promise<Port> | undefined;

  constructor(private readonly parts: ModuleParentParts) {}

  /** The folder of the modules' sockets, and where a module reaches the machine. */
  async open(tcpMode: boolean): Promise<{ readonly folder: string; readonly address: string }> {
    this.#socket ??= this.#openSocket().catch((error) => {
      this.#socket = undefined;
      throw error;
    });
    const { folder, port } = await this.#socket;
    if (!tcpMode) return { folder, address: port.host };
    this.#tcp ??= openPort({ ...this.#serving, bind: { host: LOOPBACK, port: 0 } }).catch((error) => {
      this.#tcp = undefined;
      throw error;
    });
    const { host, port: number } = await this.#tcp;
    return { folder, address: `${host}:${number}` };
  }

  /** An address of this computer that nobody listens on. */
  async freeAddress(): Promise<string> {
    const port = await openPort({ ...this.#serving, bind: { host: LOOPBACK, port: 0 } });
    await port.close(0);
    return `${LOOPBACK}:${port.port}`;
  }

  /** Idempotent. */
  async close(): Promise<void> {
    const [socket, tcp] = [await this.#socket, await this.#tcp];
    this.#socket = this.#tcp = undefined;
    await Promise.all([socket?.port.close(DRAIN_MS), tcp?.close(DRAIN_MS)]);
    if (socket) await this.parts.host.removeTree(socket.folder);
  }

  get #serving() {
    const { table, clock, logger } = this.parts;
    return { table: this.#table ??= table(), clock, logger };
  }

  async #openSocket() {
    const folder = await this.parts.host.temporaryFolder(FOLDER_PREFIX);
    return { folder, port: await openUnixPort({ ...this.#serving, path: join(folder, PARENT_SOCKET) }) };
  }
}
