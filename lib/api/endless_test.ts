/** Streams without an end of their own: a caller who still listens learns that the resource behind one was closed. */

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SystemClock } from "../base/clock.ts";
import { SvcError } from "../base/error.ts";
import { ResourceName } from "../resource/name.ts";
import type { Api } from "../resource/registry.ts";
import type { Call, Resource } from "../resource/resource.ts";
import { memoryChannel } from "../wire/rpc/memory.ts";
import { ServiceTable } from "../wire/rpc/service.ts";
import { AudioInApi } from "./sensors/audio_in.ts";
import { BoardApi } from "./actuators/board.ts";
import { InputControllerApi } from "./sensors/input_controller.ts";

const NAME = "one";

/** Gives `items`, and then ends as a closed resource does, or waits for its caller if `waits`. */
async function* stream<T>(items: readonly T[], waits: boolean, call?: Call): AsyncGenerator<T> {
  yield* items;
  if (!waits) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  call?.signal?.addEventListener("abort", () => resolve(), { once: true });
  await promise;
}

/** The client of a resource with these methods. */
function served<T extends Resource>(api: Api<T>, methods: object): { client: T; close: () => void } {
  const clock = new SystemClock();
  const table = new ServiceTable(clock);
  table.add(api.serve(() => methods as T));
  const channel = memoryChannel(table);
  return { client: api.client(ResourceName.of(api.name, NAME), channel), close: () => channel.close() };
}

/** How many items came, and the code of the error at the end. */
async function heard(items: AsyncIterable<unknown>): Promise<[count: number, code: string | undefined]> {
  let count = 0;
  try {
    for await (const _ of items) count++;
  } catch (error) {
    assertStringIncludes((error as Error).message, `of ${NAME} have ended`);
    return [count, SvcError.from(error).code];
  }
  return [count, undefined];
}

Deno.test("streamTicks fails with unavailable when the board ends it, and not when its caller does", async () => {
  let waits = false;
  const ticks = [{ pinName: "i", high: true, timeNs: 1n }];
  const streamTicks = (_: unknown, call?: Call) => Promise.resolve(stream(ticks, waits, call));
  const { client, close } = served(BoardApi, { streamTicks });
  assertEquals(await heard(await client.streamTicks(["i"])), [1, "unavailable"]);

  waits = true;
  const leaving = new AbortController();
  const listening = heard(await client.streamTicks(["i"], { signal: leaving.signal }));
  leaving.abort();
  assertEquals((await listening)[1], undefined);
  close();
});

Deno.test("streamEvents fails with unavailable when the controller ends it", async () => {
  const events = [{ timeMs: 0, event: "ButtonPress", control: "ButtonSouth", value: 1 }];
  const { client, close } = served(InputControllerApi, { streamEvents: () => stream(events, false) });
  assertEquals(await heard(client.streamEvents([])), [1, "unavailable"]);
  close();
});

Deno.test("getAudio ends after its duration, and fails if it has none and the microphone ends it", async () => {
  const chunk = { data: Uint8Array.of(1), startNs: 0n, endNs: 1n, sequence: 0 };
  const { client, close } = served(AudioInApi, { getAudio: () => stream([chunk], false) });
  const wanted = { codec: "pcm16", previousNs: 0n };
  assertEquals(await heard(client.getAudio({ ...wanted, durationSeconds: 1 })), [1, undefined]);
  assertEquals(await heard(client.getAudio({ ...wanted, durationSeconds: 0 })), [1, "unavailable"]);
  const refused = () => Array.fromAsync(client.getAudio({ ...wanted, durationSeconds: -1 }));
  await assertRejects(refused, SvcError, "open the stream again");
  close();
});
