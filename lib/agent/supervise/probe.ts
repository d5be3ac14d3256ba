/**
 * Asks a running runtime whether it answers, and whether it allows a restart now.
 *
 * The agent gives the runtime the path of a file, and the runtime writes its URL there. A runtime that does not do so
 * is probed at the default port, unless another program listens there. The probe never reads the runtime's log.
 */

import { Health, HealthCheckResponse_ServingStatus as Serving } from "../../../proto/gen/health_pb.ts";
import type { ReadFiles } from "../../base/files/files.ts";
import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { isObject } from "../../base/schema/schema.ts";
import { client } from "../../wire/rpc/channel.ts";
import { connectGrpc } from "../../wire/grpc/grpc_channel.ts";
import { getPage } from "../../wire/port/http_get.ts";

export interface RestartStatus {
  readonly restartAllowed: boolean;
  /**
   * Whether its machine has a maintenance window, so that `restartAllowed` means that the window is open. `false` if
   * the runtime does not report it.
   */
  readonly inWindow: boolean;
  /** Whether it leaves the cloud's restart orders to the agent. */
  readonly handledByAgent: boolean;
}

export interface Probe {
  /** The URL at which it answers, if it answers. */
  serving(signal?: AbortSignal): Promise<string | undefined>;
  /** `undefined` if it does not answer. */
  restartStatus(signal?: AbortSignal): Promise<RestartStatus | undefined>;
}

export const ANSWER_MS = 5_000;
const DEFAULT_PORT = 8080;
/** A refusal is an answer, too: the runtime runs, but does not serve everybody. */
const REFUSALS = ["unimplemented", "unauthenticated", "permission_denied"];

export class RuntimeProbe implements Probe {
  constructor(
    private readonly host: ReadFiles,
    private readonly clock: Clock,
    /** The file to which the runtime writes `{"url": …}`. */
    private readonly servingFile: string,
    /** Whether the runtime listens on a port of this computer; `undefined` if the system does not tell. */
    private readonly listens: (port: number) => Promise<boolean | undefined>,
    private readonly defaultPort = DEFAULT_PORT,
  ) {}

  async serving(signal?: AbortSignal): Promise<string | undefined> {
    const urls = await this.#urls();
    const answers = await Promise.all(urls.map((url) => this.#answers(url, signal)));
    return urls.find((_, index) => answers[index]);
  }

  async restartStatus(signal?: AbortSignal): Promise<RestartStatus | undefined> {
    for (const url of await this.#urls()) {
      try {
        const { status, body } = await getPage(`${url}/restart_status`, this.clock, ANSWER_MS, signal);
        const json: unknown = status === 200 ? JSON.parse(body) : undefined;
        if (isObject(json) && typeof json.restart_allowed === "boolean") {
          return {
            restartAllowed: json.restart_allowed,
            inWindow: json.maintenance_window === true,
            handledByAgent: json.does_not_handle_needs_restart === true,
          };
        }
      } catch {
        // No server, or another program.
      }
    }
    return undefined;
  }

  async #urls(): Promise<readonly string[]> {
    try {
      const json: unknown = JSON.parse(await this.host.readTextFile(this.servingFile));
      if (isObject(json) && typeof json.url === "string") return byNumber(json.url);
    } catch {
      // The runtime has not written the file yet, or never does.
    }
    const { defaultPort: port } = this;
    if (await this.listens(port) === false) return [];
    return [`http://127.0.0.1:${port}`, `https://127.0.0.1:${port}`];
  }

  async #answers(url: string, signal?: AbortSignal): Promise<boolean> {
    const { protocol, host } = new URL(url);
    const tls = protocol === "https:" ? { insecureSkipVerify: true } : undefined;
    const channel = connectGrpc(host, { clock: this.clock, tls });
    try {
      const { check } = client(Health, channel);
      const { status } = await check({}, { timeoutMs: ANSWER_MS, signal });
      return status === Serving.SERVING;
    } catch (error) {
      return REFUSALS.includes(SvcError.from(error).code);
    } finally {
      channel.close();
    }
  }
}

/** The same URL with loopback addresses, for a system that cannot resolve its own name. */
function byNumber(url: string): string[] {
  return [url, ...["127.0.0.1", "[::1]"].map((host) => url.replace("//localhost:", `//${host}:`))]
    .filter((one, at, all) => all.indexOf(one) === at);
}
