import { assert, assertEquals, assertRejects } from "@std/assert";
import { busDaemon, PrivateBus } from "../../../tests/support/private_bus.ts";
import { needingTest } from "../../../tests/support/needing.ts";
import { QuickClock } from "../../../tests/support/quick_clock.ts";
import { SvcError } from "../error.ts";
import { openBus } from "./bus.ts";

/** A socket in place of a bus, whose connections `serve` gets. */
async function withSocket(
  serve: (connection: Deno.Conn, count: number) => Promise<void>,
  work: (host: { env(): string }, connections: () => number) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-bus-" });
  const path = `${folder}/socket`;
  const listener = Deno.listen({ transport: "unix", path });
  const open: Deno.Conn[] = [];
  const serving = (async () => {
    for await (const connection of listener) {
      open.push(connection);
      serve(connection, open.length).catch(() => {});
    }
  })();
  try {
    await work({ env: () => `unix:path=${path}` }, () => open.length);
  } finally {
    listener.close();
    await serving;
    for (const connection of open) {
      try {
        connection.close();
      } catch {
        // It has ended.
      }
    }
    await Deno.remove(folder, { recursive: true });
  }
}

const NOT_ON_WINDOWS = { ignore: Deno.build.os === "windows" };

/** Answers the authentication, and then reads without an answer. */
async function authenticate(connection: Deno.Conn): Promise<void> {
  const buffer = new Uint8Array(4096);
  for (let text = ""; !text.includes("BEGIN");) {
    const count = await connection.read(buffer);
    if (count === null) return;
    text += new TextDecoder().decode(buffer.subarray(0, count));
    if (text.includes("AUTH") && !text.includes("BEGIN")) {
      await connection.write(new TextEncoder().encode("OK 1234deadbeef1234deadbeef12345678\r\n"));
    }
  }
  while (await connection.read(buffer) !== null);
}

for (
  const [what, serve] of [
    ["accepts and says nothing", () => Promise.resolve()],
    ["authenticates and does not answer the greeting", authenticate],
  ] as const
) {
  Deno.test({
    name: `a bus that ${what} is no bus, and nothing goes on after that`,
    ...NOT_ON_WINDOWS,
    fn: () =>
      withSocket(serve, async (host, connections) => {
        const clock = new QuickClock();
        const error = await assertRejects(() => openBus(host, clock), SvcError, "did not answer within 10 s");
        assertEquals(error.code, "unavailable");
        await clock.sleep(50_000);
        assertEquals(connections(), 1);
      }),
  });
}

Deno.test({
  name: "a bus that hangs up, or is not there, is no bus, and nobody connects to it again",
  ...NOT_ON_WINDOWS,
  fn: async () => {
    await withSocket((connection) => Promise.resolve(connection.close()), async (host, connections) => {
      const clock = new QuickClock();
      assertEquals((await assertRejects(() => openBus(host, clock), SvcError)).code, "unavailable");
      // The library would connect again after 100 ms.
      await clock.sleep(50_000);
      assertEquals(connections(), 1);
    });
    const nowhere = () => openBus({ env: () => "unix:path=/nowhere/bus" }, new QuickClock());
    await assertRejects(nowhere, SvcError, "there is no message bus at unix:path=/nowhere/bus");
  },
});

const NEEDED = await busDaemon();

needingTest("a bus that answers gives the connection a name", NEEDED, async () => {
  const privateBus = await PrivateBus.start();
  const bus = await privateBus.open();
  const call = (member: string) =>
    bus.call<string[]>({
      ...{ destination: "org.freedesktop.DBus", path: "/org/freedesktop/DBus" },
      ...{ interface: "org.freedesktop.DBus", member },
    });
  assert((await call("ListNames")).some((name) => name.startsWith(":")));
  await bus.close();
  await bus.close();
  await privateBus.stop();
});
