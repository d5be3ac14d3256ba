/**
 * A control plane of one part, for tests: real calls over a real port, scripted answers.
 */

import { type CloudConfigSchema, RobotService } from "../../proto/gen/robot_config_pb.ts";
import { toDuration } from "../../lib/api/shared/time.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { auth } from "../../lib/wire/auth/auth.ts";
import { openPort, type Port } from "../../lib/wire/port/port.ts";
import type { TlsFiles } from "../../lib/wire/port/tls.ts";
import type { MessageInitShape } from "../../lib/wire/rpc/proto.ts";
import { service, ServiceTable } from "../../lib/wire/rpc/service.ts";
import { robotConfigMessage } from "../../lib/cloud/config/config_message.ts";

const clock = new SystemClock();

export const PART_ID = "part-1";
export const KEY_ID = "11111111-2222-3333-4444-555555555555";
export const KEY = "the-key";

export class FakeControlPlane {
  /** The configuration of the part; an error is its answer. */
  config: JsonObject | SvcError = {};
  cloud: MessageInitShape<typeof CloudConfigSchema> = {};
  certificate: { tlsCertificate: string; tlsPrivateKey: string } | SvcError = {
    tlsCertificate: "",
    tlsPrivateKey: "",
  };
  mustRestart = false;
  /** Interval of the questions whether to restart. */
  restartCheckMs = 0;
  /** The received calls, as `Config part-1`. */
  readonly calls: string[] = [];
  readonly logs: string[] = [];
  #port: Port | undefined;
  #number = 0;
  #waiting: (() => void)[] = [];

  get url(): string {
    return `http://127.0.0.1:${this.#number}`;
  }

  /** Opens the port, the same one as before if there was one; earlier tokens become invalid. */
  async open(tls?: TlsFiles): Promise<void> {
    const guard = auth({ handlers: { apiKeys: { [KEY_ID]: KEY } }, audience: ["app"], clock });
    const table = new ServiceTable(clock, [guard.gate]);
    table.add(guard.service);
    table.add(this.#robot());
    this.#port = await openPort({ table, clock, tls, bind: { host: "127.0.0.1", port: this.#number } });
    this.#number = this.#port.port;
  }

  async close(): Promise<void> {
    await this.#port?.close(0);
    this.#port = undefined;
  }

  /** Resolves at the next call of `method`. */
  async called(method: string): Promise<void> {
    const before = this.calls.length;
    while (!this.calls.slice(before).some((call) => call.startsWith(`${method} `))) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  #note(method: string, id: string): void {
    this.calls.push(`${method} ${id}`);
    for (const wake of this.#waiting.splice(0)) wake();
    if (id !== PART_ID) throw new SvcError("permission_denied", `this key is not that of ${id}`);
  }

  #robot() {
    return service(RobotService, {
      config: ({ id }) => {
        this.#note("Config", id);
        if (this.config instanceof SvcError) throw this.config;
        const { revision = "" } = this.config;
        const cloud = { id, ...this.cloud };
        return { config: { ...robotConfigMessage(this.config), revision: String(revision), cloud } };
      },
      certificate: ({ id }) => {
        this.#note("Certificate", id);
        if (this.certificate instanceof SvcError) throw this.certificate;
        return { id, ...this.certificate };
      },
      needsRestart: ({ id }) => {
        this.#note("NeedsRestart", id);
        const restartCheckInterval = toDuration(this.restartCheckMs);
        return { id, mustRestart: this.mustRestart, restartCheckInterval };
      },
      log: ({ id, logs }) => {
        this.#note("Log", id);
        for (const { message } of logs) this.logs.push(message);
        return {};
      },
    });
  }
}
