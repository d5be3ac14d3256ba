/**
 * The address at which modules reach the machine: a socket of its own for calls without a key, because modules are
 * fully trusted.
 *
 * Owns the folder of all modules' sockets, which only our user may enter. The socket opens with the first module that
 * uses it, and the address on the loopback interface with the first module in TCP mode. That address serves programs of
 * our user and of modules alone, although every user of the computer reaches it. A folder that a killed
 * svc-server left behind is removed by the next one.
 */

import { dirname, join } from "node:path";
import { RobotService } from "../../../proto/gen/robot_pb.ts";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import type { LoopbackEnds, LoopbackPeers } from "../../base/host.ts";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log/log.ts";
import { messageOf, SvcError } from "../../base/error.ts";
import { client } from "../../wire/rpc/channel.ts";
import { connectGrpc } from "../../wire/grpc/grpc_channel.ts";
import { openPort, openUnixPort, type Port } from "../../wire/port/port.ts";
import { noSite } from "../../wire/port/sites.ts";
import type { ServiceTable } from "../../wire/rpc/service.ts";
import { socketPath } from "./launch.ts";

/** Time for modules' calls under way at the end, when the modules have ended already. */
const DRAIN_MS = 1_000;
const LOOPBACK = "127.0.0.1";
/** Published names. */
const FOLDER_PREFIX = "viam-module-";
const PARENT_SOCKET = "parent.sock";
/** Marks our folders once their socket serves: other programs have folders with the same names. */
const MARK = "svc-server";
/** Time limit for an answer from a folder's server. */
const ANSWER_MS = 2_000;

export interface ModuleParentParts {
  /** All services of the machine. */
  readonly table: () => ServiceTable;
  readonly host:
    & Pick<WriteFiles, "temporaryFolder" | "createFile" | "removeTree">
    & Pick<ReadFiles, "readFolder" | "stat">
    & LoopbackPeers;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class ModuleParent {
  #table: ServiceTable | undefined;
  #socket: Promise<{ readonly folder: string; readonly port: Port }> | undefined;
  #tcp: Promise<Port> | undefined;
  #sweeping: Promise<void> | undefined;
  readonly #closing = new AbortController();

  constructor(private readonly parts: ModuleParentParts) {}

  /** The address at which the module of this name is to serve, and the machine's address for it. */
  async addresses(
    name: string,
    tcpMode: boolean,
  ): Promise<{ readonly own: string; readonly parent: string }> {
    return tcpMode ? await this.#onLoopback() : await this.#inFolder(name);
  }

  async #inFolder(name: string) {
    this.#socket ??= this.#openSocket().catch((error) => {
      this.#socket = undefined;
      throw error;
    });
    const { folder, port } = await this.#socket;
    return { own: socketPath(folder, name), parent: port.host };
  }

  /** Without a Unix socket, which Windows would not open. */
  async #onLoopback() {
    const { host: peers } = this.parts;
    const admit = (ends: LoopbackEnds) => peers.checkLoopback(ends);
    this.#tcp ??= openPort({ ...this.#serving, admit, bind: { host: LOOPBACK, port: 0 } }).catch((error) => {
      this.#tcp = undefined;
      throw error;
    });
    const { host, port } = await this.#tcp;
    return { own: await this.#freeAddress(), parent: `${host}:${port}` };
  }

  /** A free port on the loopback interface; whoever takes it before the module is not taken for the module. */
  async #freeAddress(): Promise<string> {
    const port = await openPort({ ...this.#serving, bind: { host: LOOPBACK, port: 0 } });
    await port.close(0);
    return `${LOOPBACK}:${port.port}`;
  }

  /** Idempotent. */
  async close(): Promise<void> {
    this.#closing.abort(new SvcError("canceled", "the machine is shutting down"));
    const [socket, tcp] = [await this.#socket, await this.#tcp];
    this.#socket = this.#tcp = undefined;
    await Promise.all([socket?.port.close(DRAIN_MS), tcp?.close(DRAIN_MS), this.#sweeping]);
    if (socket) await this.parts.host.removeTree(socket.folder);
  }

  get #serving() {
    const { table, clock, logger } = this.parts;
    return { table: this.#table ??= table(), clock, logger, sites: noSite };
  }

  async #openSocket() {
    const { host } = this.parts;
    const folder = await host.temporaryFolder(FOLDER_PREFIX, "sockets");
    const port = await openUnixPort({ ...this.#serving, path: join(folder, PARENT_SOCKET) });
    await host.createFile(join(folder, MARK), "");
    this.#sweeping = this.#sweep(dirname(folder));
    return { folder, port };
  }

  /** Removes folders of killed svc-servers. Never rejects. */
  async #sweep(temporary: string): Promise<void> {
    const { host, logger } = this.parts;
    try {
      for (const name of await host.readFolder(temporary)) {
        const folder = join(temporary, name);
        // Everybody may make folders here, with servers that let one wait.
        if (this.#closing.signal.aborted) return;
        if (!name.startsWith(FOLDER_PREFIX) || !await this.#isLeft(folder)) continue;
        await host.removeTree(folder);
        logger.debug("removed the sockets of a killed svc-server", { folder });
      }
    } catch (error) {
      logger.debug(`cannot remove what killed svc-servers have left: ${messageOf(error)}`);
    }
  }

  /** Whether a folder is ours and without a server. */
  async #isLeft(folder: string): Promise<boolean> {
    const { host, clock } = this.parts;
    const facts = await host.stat(folder, { links: true });
    // Folders of other users cannot be read.
    const isOurs = facts?.kind === "folder" && await host.stat(join(folder, MARK)).catch(() => undefined);
    if (!isOurs) return false;

    const channel = connectGrpc(`unix:${join(folder, PARENT_SOCKET)}`, { clock });
    try {
      await client(RobotService, channel).getVersion({}, {
        timeoutMs: ANSWER_MS,
        signal: this.#closing.signal,
      });
      return false;
    } catch (error) {
      return SvcError.from(error).code === "unavailable";
    } finally {
      channel.close();
    }
  }
}
