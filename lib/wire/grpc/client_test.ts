/** The gRPC client beside servers that have limits, close their connections, refuse calls or mean harm. */

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { createServer } from "node:net";
import { type Clock, settle, SystemClock } from "../../base/clock.ts";
import { FakeClock, passing } from "../../../tests/support/fake_clock.ts";
import { SvcError } from "../../base/error.ts";
import { EchoService } from "../../../proto/gen/echo_pb.ts";
import { PortAllowance } from "../flow/byte_budget.ts";
import { type Channel, client } from "../rpc/channel.ts";
import { all, each, echoTable } from "../../../tests/support/echo.ts";
import { connectGrpc } from "./grpc_channel.ts";
import { acceptGrpc } from "./server.ts";
import { Connection } from "../http2/connection.ts";
import type { ConnectionOptions } from "../http2/options.ts";
import { H2, TYPE, uint32 } from "../http2/frame.ts";
import {
  type Script,
  type ScriptedCall,
  type ScriptedPeer,
  withScript,
} from "../../../tests/support/http2_script.ts";
import { Metadata } from "../rpc/metadata.ts";
import type { Interceptor } from "../rpc/service.ts";
import { until } from "../../../tests/support/until.ts";

const TRIES = 5;

const echo = (channel: Channel, message: string, options = {}) =>
  client(EchoService, channel).echo({ message }, options).then((answer) => answer.message);

function failure(work: Promise<unknown>): Promise<SvcError> {
  return assertRejects(() => work, SvcError);
}

/** A server of ours that takes `maxStreams` calls at once. */
async function withLimit(
  maxStreams: number,
  test: (channel: Channel, peak: () => number) => Promise<void>,
  clock: Clock = new SystemClock(),
): Promise<void> {
  let running = 0, peak = 0;
  const counted: Interceptor = () => {
    peak = Math.max(peak, ++running);
    return () => void running--;
  };
  const { table } = echoTable([counted]);
  const options: ConnectionOptions = {
    role: "server",
    clock: new SystemClock(),
    accept: acceptGrpc(table, { kind: "grpc" }, new PortAllowance().connection()),
    maxStreams,
  };
  const connections: Connection[] = [];
  const server = createServer(
    { noDelay: true },
    (socket) => void connections.push(new Connection(socket, options)),
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const channel = connectGrpc(`127.0.0.1:${(server.address() as { port: number }).port}`, { clock });
  try {
    await test(channel, () => peak);
  } finally {
    channel.close();
    for (const connection of connections) connection.destroy(new SvcError("canceled", "the test is over"));
    await new Promise((resolve) => server.close(resolve));
  }
}

Deno.test("gRPC client: 200 calls at once all succeed on a server with 10 streams", () =>
  withLimit(10, async (channel, peak) => {
    const texts = Array.from({ length: 200 }, (_, index) => `call ${index}`);
    assertEquals(await Promise.all(texts.map((text) => echo(channel, text))), texts);
    assert(peak() <= 10, `${peak()} at once`);
    const streams = texts.map((text) => all(client(EchoService, channel).echoBiDi(each({ message: text }))));
    assertEquals((await Promise.all(streams)).map(([{ message }]) => message), texts);
  }));

Deno.test("gRPC client: waiting calls start in their order", async () => {
  const script: Script = {
    opened: (peer) => peer.settings(1),
    ended: (peer, { stream, messages }) => peer.answer(stream, messages[0]),
  };
  await withScript(new SystemClock(), script, async (channel, peers) => {
    await echo(channel, "the limit is known");
    const texts = Array.from({ length: 20 }, (_, index) => `${index}`);
    await Promise.all(texts.map((text) => echo(channel, text)));
    assertEquals(peers[0].calls.slice(1).map(({ messages }) => messages[0]), texts);
  });
});

Deno.test("gRPC client: a waiting call ends at its deadline or on cancel, and leaves the queue", async () => {
  const clock = new FakeClock();
  const held: [ScriptedPeer, ScriptedCall][] = [];
  const script: Script = {
    opened: (peer) => peer.settings(1),
    ended(peer, call) {
      if (peer.calls.length === 1) peer.answer(call.stream, "yes");
      else held.push([peer, call]);
    },
  };
  await withScript(clock, script, async (channel, peers) => {
    assertEquals(await echo(channel, "the limit is known"), "yes");
    const first = echo(channel, "first");
    await until(() => held.length === 1);
    const late = failure(echo(channel, "late", { timeoutMs: 500 }));
    const cancel = new AbortController();
    const canceled = failure(echo(channel, "canceled", { signal: cancel.signal }));
    const last = echo(channel, "last");
    await clock.advance(500);
    assertEquals((await late).code, "deadline_exceeded");
    assertStringIncludes((await late).message, "room");
    cancel.abort();
    assertEquals((await canceled).code, "canceled");
    held[0][0].answer(held[0][1].stream, "one");
    assertEquals(await first, "one");
    await until(() => held.length === 2);
    held[1][0].answer(held[1][1].stream, "two");
    assertEquals(await last, "two");
    assertEquals(peers[0].calls.map(({ messages }) => messages[0]).slice(1), ["first", "last"]);
  });
});

Deno.test("gRPC client: the call after 10000 waiting calls fails with resource_exhausted", () =>
  withScript(new SystemClock(), { opened: (peer) => peer.settings(0) }, async (channel) => {
    const calls = Array.from({ length: 10_000 }, () => failure(echo(channel, "waits")));
    const error = await failure(echo(channel, "one too many"));
    assertEquals(error.code, "resource_exhausted");
    channel.close();
    assertEquals(new Set((await Promise.all(calls)).map(({ code }) => code)), new Set(["canceled"]));
  }));

Deno.test("gRPC client: a connection on which calls get no answer is replaced soon", async () => {
  const clock = new FakeClock();
  let swallowed = 0;
  const script: Script = {
    ended: (peer, { stream, messages: [message] }) => {
      if (message === "large") swallowed++;
      else peer.answer(stream, message);
    },
  };
  await withScript(clock, script, async (channel, peers) => {
    assertEquals(await echo(channel, "small", { timeoutMs: 15_000 }), "small");
    const lost = passing(clock, 20_000, failure(echo(channel, "large", { timeoutMs: 15_000 })));
    assertEquals((await lost).code, "deadline_exceeded");
    const waiting = await passing(clock, 30_000, failure(echo(channel, "large")));
    assertEquals([waiting.code, /did not answer a ping/.test(waiting.message)], ["unavailable", true]);
    assertEquals(await echo(channel, "small"), "small");
    assertEquals([swallowed, peers.length], [2, 2]);
  }, 120_000);
});

Deno.test("gRPC client: a raised stream limit starts waiting calls, and a lowered limit holds them", async () => {
  const held: ScriptedCall[] = [];
  const script: Script = { opened: (peer) => peer.settings(1), ended: (_, call) => void held.push(call) };
  await withScript(new SystemClock(), script, async (channel, peers) => {
    const calls = Array.from({ length: 5 }, (_, index) => echo(channel, `${index}`));
    await until(() => held.length >= 1);
    const [peer] = peers;
    // Those that left before the limit was known are for the server to refuse.
    for (const call of held.splice(1)) peer.refuse(call.stream);
    peer.settings(3);
    await until(() => held.length === 3);
    peer.settings(2);
    const ping = peer.calls.length;
    peer.answer(held[0].stream, "a");
    await calls[0];
    assertEquals(peer.calls.length, ping);
    peer.answer(held[1].stream, "a");
    await until(() => held.length === 4);
    peer.settings(100);
    await until(() => held.length === 5);
    for (const call of held.slice(2)) peer.answer(call.stream, "a");
    assertEquals(await Promise.all(calls), Array(5).fill("a"));
    assertEquals(peers.length, 1);
  });
});

Deno.test("gRPC client: a refused call is retried at once, with the same message", async () => {
  const script: Script = {
    ended(peer, { stream, messages }) {
      if (peer.calls.length === 1) peer.refuse(stream);
      else peer.answer(stream, messages[0]);
    },
  };
  const clock = new FakeClock();
  await withScript(clock, script, async (channel, peers) => {
    assertEquals(await echo(channel, "again"), "again");
    assertEquals(peers.map(({ calls }) => calls.map(({ path, messages }) => [path, ...messages])), [
      Array(2).fill(["/proto.rpc.examples.echo.v1.EchoService/Echo", "again"]),
    ]);
    assertEquals(clock.pending, 0);
  });
});

Deno.test("gRPC client: a call that is always refused is tried five times, with growing pauses", async () => {
  const clock = new FakeClock();
  const tries: number[] = [];
  const script: Script = {
    ended(peer, { stream }) {
      tries.push(clock.nowMs());
      peer.refuse(stream);
    },
  };
  await withScript(clock, script, async (channel, peers) => {
    const error = await passing(clock, 10_000, failure(echo(channel, "never")));
    assertEquals(error.code, "unavailable");
    assertStringIncludes(error.message, `${TRIES} tries`);
    assertEquals([tries.length, peers.length, clock.pending], [TRIES, 1, 0]);
    const pauses = tries.slice(1).map((at, index) => at - tries[index]);
    for (const [index, wanted] of [0, 100, 200, 400].entries()) {
      assert(pauses[index] >= 0.8 * wanted, `pauses of ${pauses} ms`);
    }
  });
});

Deno.test("gRPC client: a call in its retry pause ends at its deadline or on cancel", async () => {
  const clock = new FakeClock();
  const script: Script = { ended: (peer, { stream }) => peer.refuse(stream) };
  await withScript(clock, script, async (channel, peers) => {
    const late = failure(echo(channel, "late", { timeoutMs: 20 }));
    const cancel = new AbortController();
    const canceled = failure(echo(channel, "canceled", { signal: cancel.signal }));
    await until(() => peers[0]?.calls.length === 4 && clock.pending === 3);
    cancel.abort();
    assertEquals((await canceled).code, "canceled");
    await clock.advance(20);
    assertEquals((await late).code, "deadline_exceeded");
    assertEquals(clock.pending, 0);
    await clock.advance(1000);
    assertEquals(peers[0].calls.length, 4);
  });
});

Deno.test("gRPC client: calls above the last stream of GOAWAY move to a new connection", async () => {
  const opened: ScriptedPeer[] = [];
  const script: Script = {
    opened(peer) {
      opened.push(peer);
      peer.settings();
    },
    ended(peer, { stream, messages }) {
      if (peer !== opened[0]) return peer.answer(stream, `new: ${messages[0]}`);
      if (peer.calls.filter(({ messages }) => messages.length > 0).length < 4) return;
      peer.goaway(3);
      for (const call of peer.calls.slice(0, 2)) peer.answer(call.stream, `old: ${call.messages[0]}`);
    },
  };
  await withScript(new SystemClock(), script, async (channel, peers) => {
    const answers = await Promise.all(["1", "2", "3", "4"].map((text) => echo(channel, text)));
    assertEquals(answers, ["old: 1", "old: 2", "new: 3", "new: 4"]);
    assertEquals(peers.map(({ calls }) => calls.length), [4, 2]);
    await until(() => peers[0].closed);
  });
});

Deno.test("gRPC client: waiting calls move to a new connection after GOAWAY or a lost connection", async () => {
  for (const hangUp of [false, true]) {
    const script: Script = {
      opened: (peer) => peer.settings(1),
      ended(peer, { stream, messages }) {
        if (messages[0] !== "held") peer.answer(stream, messages[0]);
      },
    };
    await withScript(new SystemClock(), script, async (channel, peers) => {
      await echo(channel, "the limit is known");
      const held = echo(channel, "held");
      held.catch(() => {});
      const waiting = ["a", "b"].map((text) => echo(channel, text));
      await until(() => peers[0].calls.at(-1)!.messages[0] === "held");
      if (hangUp) peers[0].hangUp();
      else peers[0].goaway(3);
      assertEquals(await Promise.all(waiting), ["a", "b"]);
      assertEquals(peers.map(({ calls }) => calls.length), [2, 2]);
      if (hangUp) assertEquals((await failure(held)).code, "unavailable");
      else {
        peers[0].answer(3, "at last");
        assertEquals(await held, "at last");
        await until(() => peers[0].closed);
      }
    });
  }
});

Deno.test("gRPC client: waiting calls move on when an idle connection is lost", async () => {
  let connections = 0;
  const script: Script = {
    opened: (peer) => peer.settings(++connections === 1 ? 0 : undefined),
    ended: (peer, { stream, messages }) => peer.answer(stream, messages[0]),
  };
  await withScript(new SystemClock(), script, async (channel, peers) => {
    const first = echo(channel, "left before the limit was known");
    await until(() => peers[0]?.calls.length === 1 && peers[0].calls[0].messages.length === 1);
    assertEquals(await first, "left before the limit was known");
    const waiting = echo(channel, "waits");
    await settle();
    assertEquals(peers[0].calls.length, 1);
    peers[0].hangUp();
    assertEquals(await waiting, "waits");
  });
});

Deno.test("gRPC client: 1500 calls with 4 KB header fields each wait until they can be sent", async () => {
  const script: Script = {
    opened: (peer) => peer.settings(100_000),
    ended: (peer, { stream, messages }) => peer.answer(stream, messages[0]),
  };
  await withScript(new SystemClock(), script, async (channel, peers) => {
    const header = Metadata.from([["x-large", "y".repeat(4000)]]);
    const texts = Array.from({ length: 1500 }, (_, index) => `${index}`);
    assertEquals(await Promise.all(texts.map((text) => echo(channel, text, { header }))), texts);
    assertEquals(peers.length, 1);
  });
});

Deno.test("gRPC client: a call is not retried after part of its answer has arrived", async () => {
  const script: Script = {
    call: (peer, { stream }) => peer.header(stream),
    ended(peer, { stream, messages }) {
      if (messages[0] === "message") peer.message(stream, "half");
      if (messages[0] === "goaway") peer.goaway(0);
      else peer.refuse(stream);
    },
  };
  for (const text of ["header", "message", "goaway"]) {
    await withScript(new SystemClock(), script, async (channel, peers) => {
      assertEquals((await failure(echo(channel, text))).code, "unavailable");
      assertEquals(peers.map(({ calls }) => calls.length), [1]);
    });
  }
});

Deno.test("gRPC client: only REFUSED_STREAM is retried, not other resets or a lost connection", async () => {
  for (const code of [H2.cancel, H2.internal, H2.noError, H2.calm]) {
    const script: Script = { ended: (peer, { stream }) => peer.send(TYPE.reset, 0, stream, uint32(code)) };
    await withScript(new SystemClock(), script, async (channel, peers) => {
      await failure(echo(channel, "once"));
      assertEquals(peers.map(({ calls }) => calls.length), [1]);
    });
  }
  await withScript(new SystemClock(), { ended: (peer) => peer.hangUp() }, async (channel, peers) => {
    assertEquals((await failure(echo(channel, "once"))).code, "unavailable");
    assertEquals(peers.map(({ calls }) => calls.length), [1]);
  });
});

Deno.test("gRPC client: a retried stream sends all its earlier messages again", async () => {
  const script: Script = {
    ended(peer, { stream, messages }) {
      peer.header(stream);
      for (const message of messages) peer.message(stream, message);
      peer.end(stream);
    },
  };
  await withScript(new SystemClock(), script, async (channel, peers) => {
    const requests = new TransformStream<{ message: string }, { message: string }>();
    const writer = requests.writable.getWriter();
    const answers = all(client(EchoService, channel).echoBiDi(requests.readable));
    await writer.write({ message: "one" });
    await writer.write({ message: "two" });
    await until(() => peers[0].calls[0]?.messages.length === 2);
    peers[0].refuse(1);
    await until(() => peers[0].calls[1]?.messages.length === 2);
    peers[0].goaway(0);
    await until(() => peers[1]?.calls[0]?.messages.length === 2);
    await writer.write({ message: "three" });
    await writer.close();
    assertEquals((await answers).map(({ message }) => message), ["one", "two", "three"]);
  });
});

Deno.test("gRPC client: a stream that sent more than the retry buffer is not retried", () =>
  withScript(new SystemClock(), {}, async (channel, peers) => {
    const requests = new TransformStream<{ message: string }, { message: string }>();
    const writer = requests.writable.getWriter();
    const answers = failure(all(client(EchoService, channel).echoBiDi(requests.readable)));
    for (let i = 0; i < 2; i++) {
      // The window of a server that says nothing is 64 KiB.
      await until(() => peers.length > 0);
      if (i === 0) peers[0].send(TYPE.window, 0, 0, uint32(1_000_000));
      const written = writer.write({ message: "x".repeat(140_000) });
      await until(() => peers[0].calls.length > 0);
      peers[0].send(TYPE.window, 0, 1, uint32(200_000));
      await written;
    }
    await until(() => peers[0].calls[0].messages.length === 2);
    peers[0].refuse(1);
    assertEquals((await answers).code, "unavailable");
    assertEquals(peers.map(({ calls }) => calls.length), [1]);
    writer.abort().catch(() => {});
  }));

Deno.test("gRPC client: a server with GOAWAY on every connection gets at most five tries per call", async () => {
  const clock = new FakeClock();
  for (const limit of [undefined, 0]) {
    const opened = (peer: ScriptedPeer) => {
      peer.settings(limit);
      peer.goaway(0);
    };
    await withScript(clock, { opened }, async (channel, peers) => {
      const errors = await passing(
        clock,
        10_000,
        Promise.all(["a", "b", "c"].map((text) => failure(echo(channel, text)))),
      );
      assertEquals(errors.map(({ code }) => code), Array(3).fill("unavailable"));
      assert(peers.length <= 3 * TRIES, `${peers.length} connections`);
      await until(() => peers.every(({ closed }) => closed));
      assertEquals(clock.pending, 0);
    });
  }
});

Deno.test("gRPC client: keeps at most 16 connections after GOAWAY and closes the oldest beyond that", async () => {
  const script: Script = { call: (peer, { stream }) => peer.goaway(stream) };
  await withScript(new SystemClock(), script, async (channel, peers) => {
    const calls: Promise<SvcError>[] = [];
    for (let n = 1; n <= 20; n++) {
      calls.push(failure(echo(channel, `${n}`)));
      await until(() => peers.length === n && peers[n - 1].calls.length === 1);
    }
    await until(() => peers.filter(({ closed }) => closed).length === 4);
    assertEquals(
      new Set((await Promise.all(calls.slice(0, 4))).map(({ code }) => code)),
      new Set(["unavailable"]),
    );
    channel.close();
    assertEquals(new Set((await Promise.all(calls.slice(4))).map(({ code }) => code)), new Set(["canceled"]));
    await until(() => peers.every(({ closed }) => closed));
  });
});

Deno.test("gRPC client: a server that sends nothing for 20 s is unavailable", async () => {
  const clock = new FakeClock();
  await withScript(clock, { opened() {} }, async (channel, peers) => {
    const call = failure(echo(channel, "anybody?"));
    await until(() => peers[0]?.calls.length === 1);
    await clock.advance(20_000);
    assertEquals((await call).code, "unavailable");
    assertStringIncludes((await call).message, "20 s");
    await until(() => peers[0].closed);
    assertEquals(clock.pending, 0);
  });
});

Deno.test("gRPC client: floods of SETTINGS, resets and header fields fail only the affected call", async () => {
  const script: Script = {
    ended(peer, { stream, messages }) {
      for (let limit = 0; limit < 20; limit++) peer.settings(limit % 2);
      for (let other = 1; other < stream; other += 2) peer.refuse(other);
      // Few bytes, a thousand references to one large field.
      if (messages[0] === "bomb") {
        peer.header(stream, Array(1000).fill(["user-agent", "y".repeat(2000)]));
      } else peer.answer(stream, messages[0]);
    },
  };
  await withScript(new SystemClock(), script, async (channel, peers) => {
    assertEquals(await echo(channel, "before"), "before");
    assertEquals((await failure(echo(channel, "bomb"))).code, "internal");
    assertEquals(await echo(channel, "after"), "after");
    assertEquals(peers.flatMap(({ calls }) => calls).length, 3);
  });
});
