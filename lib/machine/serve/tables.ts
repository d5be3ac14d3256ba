/**
 * The services of one machine, in tables: one for the machine's own calls, one for each open port.
 *
 * Calls pass the same interceptors on every way; a port adds its guard.
 */

import type { Environment } from "../../base/host.ts";
import type { Logger } from "../../base/log/log.ts";
import type { AnyApi } from "../../resource/registry.ts";
import { type Auth, AUTHENTICATE } from "../../wire/auth/auth.ts";
import { callBatchService } from "../../wire/grpc/call_batch.ts";
import { health } from "../../wire/grpc/health.ts";
import { reflection } from "../../wire/grpc/reflection.ts";
import { type Interceptor, type Service, ServiceTable } from "../../wire/rpc/service.ts";
import type { Streams } from "../streams/streams.ts";
import { requestLimit } from "./limits.ts";
import { OPERATION_ID } from "./operations.ts";
import type { Permissions } from "./permissions.ts";
import { robotService, type RobotServiceParts } from "./service.ts";

/** A client that offers a key to an open machine learns what to leave out. */
const OPEN: ReadonlyMap<string, string> = new Map([[
  AUTHENTICATE,
  "this machine takes no credentials (its configuration has no auth.handlers): connect without a key",
]]);

export interface TablesParts
  extends Pick<RobotServiceParts, "machine" | "operations" | "sessions" | "clock"> {
  readonly host: Environment;
  readonly streams: Pick<Streams, "service">;
  readonly logger: Logger;
  /** The outermost interceptors, around the guard. */
  readonly outermost: readonly Interceptor[];
  /** Services of a port beside the published ones; `guarded` says whether the port asks its callers for keys. */
  readonly own?: (guarded: boolean) => readonly Service[];
}

export class Tables {
  readonly #parts: TablesParts;
  readonly #around: readonly Interceptor[];
  readonly #foreign = new WeakMap<AnyApi, Service>();

  constructor(parts: TablesParts) {
    const { machine: { registry }, host, clock, logger, operations, sessions } = parts;
    this.#parts = parts;
    this.#around = [
      requestLimit({ host, registry, clock, logger }),
      operations.interceptor,
      sessions.interceptor,
    ];
  }

  /** The services of the resources, for the machine's own calls. */
  resources(guard?: Auth, permissions?: Permissions): ServiceTable {
    const { machine, clock, outermost } = this.#parts;
    const admission = [
      ...(guard ? [guard.gate] : []),
      ...(permissions ? [permissions.interceptor(machine)] : []),
    ];
    const interceptors = [...outermost, ...admission, ...this.#around];
    const serve = (api: AnyApi) => api.serve((name) => machine.find(api.name, name));
    const visiting = () => machine.foreignApis.map((api) => this.#foreign.getOrInsertComputed(api, serve));
    const table = new ServiceTable(clock, interceptors, visiting);
    for (const api of machine.registry.apis) table.add(serve(api));
    return table;
  }

  /** All services of a port; `guard` is absent on an open machine, and both are for its own modules. */
  port(robot: RobotServiceParts, guard?: Auth, permissions?: Permissions): ServiceTable {
    const table = this.resources(guard, permissions);
    const { streams, own = () => [] } = this.#parts;
    // A call within a batch is an operation of its own.
    const aboutTable = [health(table), callBatchService(table, OPERATION_ID), ...reflection(table)];
    for (
      const service of [robotService(robot), streams.service, ...own(guard !== undefined), ...aboutTable]
    ) {
      table.add(service);
    }
    if (guard) table.add(guard.service);
    else table.decline(OPEN);
    return table;
  }
}
