import { assertEquals, assertRejects } from "@std/assert";
import { createServer } from "node:http";
import { SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { selfSigned } from "../../../tests/support/echo.ts";
import { getPage } from "./http_get.ts";
import { openPort } from "./port.ts";
import { ServiceTable } from "../rpc/service.ts";

const clock = new SystemClock();
const DEADLINE_MS = 60_000;

Deno.test("getPage: reads a page of our own port, with and without TLS", async () => {
  const page = { status: 200, contentType: "application/json", body: '{"größe":1}' };
  for (const tls of [undefined, await selfSigned()]) {
    const routes = new Map([["/page", () => page]]);
    const bind = { host: "127.0.0.1", port: 0 };
    const port = await openPort({ table: new ServiceTable(clock), clock, bind, tls, http: { routes } });
    assertEquals(await getPage(`${port.url}/page?x=1`, clock, DEADLINE_MS), { status: 200, body: page.body });
    assertEquals((await getPage(`${port.url}/other`, clock, DEADLINE_MS)).status, 404);
    await port.close(0);
  }
});

Deno.test("getPage: reads a chunked page of another server", async () => {
  const server = createServer((_, response) => {
    response.write("one ");
    response.end("two");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  assertEquals(await getPage(`http://127.0.0.1:${port}/`, clock, DEADLINE_MS), {
    status: 200,
    body: "one two",
  });
  await new Promise((resolve) => server.close(resolve));
});

Deno.test("getPage: a closed port is unavailable, and a silent server exceeds the deadline", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  const accepted: Deno.Conn[] = [];
  const accepting = (async () => {
    for await (const connection of listener) accepted.push(connection);
  })().catch(() => {});
  const silent = await assertRejects(() => getPage(`http://127.0.0.1:${port}/`, clock, 50), SvcError);
  assertEquals(silent.code, "deadline_exceeded");
  listener.close();
  await accepting;
  for (const connection of accepted) connection.close();
  const gone = await assertRejects(() => getPage(`http://127.0.0.1:${port}/`, clock, DEADLINE_MS), SvcError);
  assertEquals(gone.code, "unavailable");
});
