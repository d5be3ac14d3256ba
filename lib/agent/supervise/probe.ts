/**
 * What a running runtime says of itself: whether it answers, and whether it may be restarted now.
 *
 * It tells where it serves in a file that the agent names to it; one that does not is looked for where runtimes serve
 * by default. Nothing is read out of its log.
 */

import { Health, HealthCheckResponse_ServingStatus as Serving } from "../../../proto/gen/health_pb.ts";
import type { ReadFiles } from "../../base/files/files.ts";
import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { isObject } from "../../base/schema/schema.ts";
import { client } from "../../wire/channel.ts";
import { connectGrpc } from "../../wire/grpc/grpc_channel.ts";
import { getPage } from "../../wire/port/http_get.ts";

export interface RestartStatus {
  readonly restartAllowed: boolean;
  /** Its machine has a maintenance window; with `restartAllowed` it is open. One that does not say has none. */
  readonly inWindow: boolean;
  /** It leaves orders of the cloud to restart to the agent. */
  readonly handledByAgent: boolean;
}

export interface Probe {
  /** Where it serves, if it answers there. */
  serving(signal?: AbortSignal): Promise<string | undefined>;
  /** Nothing, where it does not answer. */
  restartStatus(signal?: AbortSignal): Promise<RestartStatus | undefined>;
}

export const ANSWER_MS = 5_000;
const DEFAULT_URLS = ["http://127.0.0.1:8080", "https://127.0.0.1:8080"];
/** An answer too: of a runtime that is there, but does not let everybody ask. */
const REFUSALS = ["unimplemented", "unauthenticated", "permission_denied"];

export class RuntimeProbe implements Probe {
  constructor(
    private readonly host: ReadFiles,
    private readonly clock: Clock,
    /** Where the runtime tells `{"url": …}`. */
    private readonly servingFile: string,
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
        // Nobody is there, or somebody else.
      }
    }
    return undefined;
  }

  async #urls(): Promise<readonly string[]> {
    try {
      const json: unknown = JSON.parse(await this.host.readTextFile(this.servingFile));
      if (isObject(json) && typeof json.url === "string") return byNumber(json.url);
    } catch {
      // It has not told yet, or is one that does not.
    }
    return DEFAULT_URLS;
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

/** Where a URL of this computer is also to be found: a system that does not know its own name has a runtime, too. */
function byNumber(url: string): string[] {
  return [url, ...["127.0.0.1", "[::1]"].map((host) => url.replace("//localhost:", `//${host}:`))]
    .filter((one, at, all) => all.indexOf(one) === at);
}
