import { assertEquals } from "@std/assert";
import { ArmService } from "../../../proto/gen/arm_pb.ts";
import { assertRefused } from "../../../tests/support/refusals.ts";
import { SystemClock } from "../../base/clock.ts";
import { ResourceName } from "../../resource/name.ts";
import type { Resource } from "../../resource/resource.ts";
import { connectGrpc } from "../../wire/grpc/grpc_channel.ts";
import { openPort } from "../../wire/port/port.ts";
import { client } from "../../wire/rpc/channel.ts";
import { ServiceTable } from "../../wire/rpc/service.ts";
import { type Arm, ArmApi, type TrajectoryPoint } from "./arm.ts";

/** An arm that only follows trajectories, and keeps the times of their points. */
class Follower implements Resource, Pick<Arm, "moveThroughJointPositionsStreamed"> {
  readonly name = ResourceName.of(ArmApi.name, "one");
  readonly timesMs: number[][] = [];

  async *moveThroughJointPositionsStreamed(batches: AsyncIterable<readonly TrajectoryPoint[]>) {
    for await (const batch of batches) {
      this.timesMs.push(batch.map(({ timeMs }) => timeMs));
      yield;
    }
  }

  doCommand = () => Promise.resolve({});
  getStatus = () => Promise.resolve({});
  close = () => Promise.resolve();
}

Deno.test("streamed trajectories: the arm first, then batches, each acknowledged", async () => {
  const clock = new SystemClock();
  const arm = new Follower();
  const table = new ServiceTable(clock);
  table.add(ArmApi.serve(() => arm as Resource as Arm));
  const port = await openPort({ table, bind: { host: "127.0.0.1", port: 0 }, clock });
  const channel = connectGrpc(`127.0.0.1:${port.port}`, { clock });
  const rpc = client(ArmService, channel);
  const init = { name: "one", message: { case: "init", value: {} } } as const;
  const points = [{ time: { seconds: 1n }, positions: { values: [5] } }];
  const batch = { message: { case: "batch", value: { points } } } as const;
  const play = async (...messages: readonly (typeof init | typeof batch | { name: string })[]) => {
    const requests = async function* () {
      yield* messages;
    };
    return (await Array.fromAsync(rpc.moveThroughJointPositionsStreamed(requests()))).length;
  };

  try {
    assertEquals(await play(init, batch, batch), 2);
    assertEquals(arm.timesMs, [[1000], [1000]]);
    for (const messages of [[], [batch, batch], [{ name: "one" }, batch]]) {
      await assertRefused("invalid_argument", "first message must be Init", () => play(...messages));
    }
    await assertRefused("invalid_argument", "expected TrajectoryBatch, got init", () => play(init, init));
    const nothing = { name: "one" };
    await assertRefused(
      "invalid_argument",
      "expected TrajectoryBatch, got nothing",
      () => play(init, nothing),
    );
    assertEquals(arm.timesMs.length, 2);
  } finally {
    channel.close();
    await port.close(0);
  }
});
