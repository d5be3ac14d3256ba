/** Calls within the program behave as calls over a socket do. */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { AudioOutService } from "../../../proto/gen/audio_out_pb.ts";
import { EchoService } from "../../../proto/gen/echo_pb.ts";
import { client } from "./channel.ts";
import { all, each, echoTable } from "../../../tests/support/echo.ts";
import { memoryChannel } from "./memory.ts";
import { Metadata } from "./metadata.ts";

Deno.test("memoryChannel: supports all four call shapes, metadata and errors", async () => {
  const channel = memoryChannel(echoTable().table);
  const echo = client(EchoService, channel);
  let header: Metadata | undefined, trailer: Metadata | undefined;
  const answer = await echo.echo({ message: "hi" }, {
    header: Metadata.from([["x-a", "1"]]),
    onHeader: (metadata) => header = metadata,
    onTrailer: (metadata) => trailer = metadata,
  });
  assertEquals([answer.message, header?.get("x-a"), trailer?.get("t-x-a")], ["hi", "1", "1"]);
  assertEquals((await all(echo.echoMultiple({ message: "ab" }))).length, 2);
  assertEquals((await all(echo.echoBiDi(each({ message: "a" }, { message: "b" })))).length, 2);
  await client(AudioOutService, channel).playStream(each());
  const error = await assertRejects(() => echo.echo({ message: "fail:aborted:no:1500" }), SvcError);
  assertEquals([error.code, error.message, error.retryMs], ["aborted", "no", 1500]);
});

Deno.test("memoryChannel: supports deadlines, cancellation, a reader that stops, and close", async () => {
  const { table, seen } = echoTable();
  const channel = memoryChannel(table);
  const echo = client(EchoService, channel);
  const late = await assertRejects(() => echo.echo({ message: "hang" }, { timeoutMs: 10 }), SvcError);
  assertEquals(late.code, "deadline_exceeded");
  const signal = AbortSignal.abort();
  const canceled = await assertRejects(() => echo.echo({ message: "hang" }, { signal }), SvcError);
  assertEquals(canceled.code, "canceled");
  for await (const { message } of echo.echoMultiple({ message: "endless" })) if (message.length > 1) break;
  await seen.canceled;
  const hanging = assertRejects(() => echo.echo({ message: "hang" }), SvcError);
  channel.close();
  assertEquals((await hanging).code, "canceled");
  const closed = await assertRejects(() => echo.echo({ message: "" }), SvcError);
  assert(closed.message.includes("closed"));
});
