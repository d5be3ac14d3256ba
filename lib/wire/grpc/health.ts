/** The standard health service (`grpc.health.v1`): served services are healthy, others unknown. */

import { Health, HealthCheckResponse_ServingStatus as Status } from "../../../proto/gen/health_pb.ts";
import { SvcError } from "../../base/error.ts";
import { type CallContext, type Service, service, type ServiceTable } from "../rpc/service.ts";

/** Reports on the services of `table`; the empty name means the server as a whole. */
export function health(table: ServiceTable): Service {
  const isServed = (name: string) =>
    name === "" || [...table.services].some(({ desc }) => desc.typeName === name);
  return service(Health, {
    check({ service: name }) {
      if (!isServed(name)) throw new SvcError("not_found", `there is no service "${name}" here`);
      return { status: Status.SERVING };
    },
    list() {
      const names = ["", ...Array.from(table.services, ({ desc }) => desc.typeName)];
      return { statuses: Object.fromEntries(names.map((name) => [name, { status: Status.SERVING }])) };
    },
    async *watch({ service: name }, ctx) {
      yield { status: isServed(name) ? Status.SERVING : Status.SERVICE_UNKNOWN };
      await over(ctx);
    },
  });
}

/** Rejects when the call ends. */
function over({ signal }: CallContext): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
