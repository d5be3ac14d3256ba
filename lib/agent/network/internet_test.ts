/** Who is asked whether the internet answers, and who is believed. */

import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { Internet, reaches } from "./internet.ts";

const { signal } = new AbortController();

/** The service's view, and the answers of the service and of the control plane. */
interface Case {
  readonly internet: boolean;
  readonly checksInternet: boolean;
  readonly reached?: boolean;
  readonly service?: boolean;
  readonly cloud?: boolean;
  readonly asked: string;
  readonly online: boolean;
}

const CASES: readonly Case[] = [
  { internet: true, checksInternet: true, reached: true, asked: "", online: true },
  { internet: true, checksInternet: true, service: true, asked: "service", online: true },
  { internet: true, checksInternet: true, service: false, asked: "service", online: false },
  { internet: false, checksInternet: true, service: false, asked: "service", online: false },
  { internet: true, checksInternet: false, cloud: true, asked: "cloud", online: true },
  { internet: true, checksInternet: false, cloud: false, asked: "cloud", online: false },
  { internet: true, checksInternet: false, asked: "cloud", online: true },
  { internet: false, checksInternet: false, cloud: true, asked: "", online: false },
  // A cable that the service does not manage; and a Wi-Fi that has just gone.
  { internet: false, checksInternet: true, reached: true, cloud: true, asked: "cloud", online: true },
  { internet: false, checksInternet: true, reached: true, cloud: false, asked: "cloud", online: false },
];

for (const one of CASES) {
  const { internet, checksInternet, reached = false, service = false, cloud, asked, online } = one;
  Deno.test(`internet: ${JSON.stringify(one)}`, async () => {
    const clock = new FakeClock();
    const questions: string[] = [];
    const found = new Internet({
      port: {
        check: () => {
          questions.push("service");
          return Promise.resolve(service);
        },
      },
      clock,
      reachesCloud: () => reached,
      tryCloud: () => {
        questions.push("cloud");
        return Promise.resolve(cloud);
      },
    });
    const view = { internet, checksInternet, inRange: [], profiles: [] };
    assertEquals([await found.answers(view, signal), questions.join()], [online, asked]);
    const again = await found.answers(view, signal);
    assertEquals(again, online);
  });
}

Deno.test("internet: a check without an answer counts as offline after 5 s", async () => {
  const clock = new FakeClock();
  const found = new Internet({
    port: {
      check: (late) =>
        new Promise((_, reject) => late.addEventListener("abort", () => reject(late.reason), { once: true })),
    },
    clock,
    reachesCloud: () => false,
    tryCloud: () => Promise.resolve(undefined),
  });
  const answer = found.answers({ internet: true, checksInternet: true, inRange: [], profiles: [] }, signal);
  await clock.advance(5_000);
  assertEquals(await answer, false);
});

Deno.test("reaches: any answer counts but that of a sign-in page, which sends the caller elsewhere", async () => {
  let status = 200;
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, () => {
    return new Response(null, { status, headers: { location: "http://127.0.0.1:1/sign-in" } });
  });
  const found: number[] = [];
  for (status of [200, 204, 299, 300, 302, 307, 399, 400, 403, 404, 503, 511]) {
    if (await reaches(`http://127.0.0.1:${server.addr.port}/`, signal)) found.push(status);
  }
  await server.shutdown();
  assertEquals(found, [200, 204, 299, 400, 403, 404, 503]);
});
