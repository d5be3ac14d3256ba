/** `Stop` of every API reaches its resource through a client and a server, with what the caller added. */

import { assertEquals, assertGreater } from "@std/assert";
import { SystemClock } from "../base/clock.ts";
import { ResourceName } from "../resource/name.ts";
import type { Call, Resource } from "../resource/resource.ts";
import { connectGrpc } from "../wire/grpc/grpc_channel.ts";
import { openPort } from "../wire/port/port.ts";
import { ServiceTable } from "../wire/rpc/service.ts";
import { APIS } from "./mod.ts";

type Stoppable = Resource & { stop?(call?: Call): Promise<void> };

/** A resource of any API that can only be stopped. */
class Recorder implements Stoppable {
  constructor(
    readonly name: ResourceName,
    private readonly stopped: (name: ResourceName, call?: Call) => void,
  ) {}

  stop(call?: Call): Promise<void> {
    this.stopped(this.name, call);
    return Promise.resolve();
  }

  doCommand = () => Promise.resolve({});
  getStatus = () => Promise.resolve({});
  close = () => Promise.resolve();
}

Deno.test("stop reaches the resource of every API that has it, once and with its extra", async () => {
  const clock = new SystemClock();
  const stopped: [api: string, name: string, extra: unknown][] = [];
  const table = new ServiceTable(clock);
  for (const api of APIS) {
    const stop = (name: ResourceName, call?: Call) => void stopped.push([api.name, name.short, call?.extra]);
    table.add(api.serve((name) => new Recorder(ResourceName.of(api.name, name), stop)));
  }
  const port = await openPort({ table, bind: { host: "127.0.0.1", port: 0 }, clock });
  const channel = connectGrpc(`127.0.0.1:${port.port}`, { clock });
  try {
    const wanted: typeof stopped = [];
    for (const api of APIS) {
      const resource = api.client(ResourceName.of(api.name, "one"), channel) as Stoppable;
      if (!resource.stop) continue;
      await resource.stop({ extra: { gently: true } });
      wanted.push([api.name, "one", { gently: true }]);
    }
    assertEquals(stopped, wanted);
    assertGreater(wanted.length, 5);
  } finally {
    channel.close();
    await port.close(0);
  }
});
