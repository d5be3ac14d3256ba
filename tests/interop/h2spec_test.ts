/**
 * h2spec, the conformance tests of HTTP/2, against the port: all of them must pass.
 *
 * The requested page is answered after the request's end, because a server ignores the rest of a request that it has
 * answered early.
 *
 * The program is written in Go. If it is not installed, a Go toolchain builds it, once, in the folder for temporary
 * files; without a toolchain the test is ignored.
 */

import { assertEquals } from "@std/assert";
import { withPort } from "../support/echo.ts";
import { needingTest } from "../support/needing.ts";
import { h2specProgram, run } from "./programs.ts";
import type { RouteAnswer, RouteRequest } from "../../lib/wire/port/route.ts";

const TESTS = 145;

needingTest(
  `h2spec passes all ${TESTS} tests, also in strict mode`,
  await h2specProgram(),
  (program) =>
    withPort({ http: { routes: new Map([["/", answerAtTheEnd]]) } }, async (port) => {
      assertEquals(await results(program, ["-p", String(port.port)]), {
        summary: `${TESTS} tests, ${TESTS} passed, 0 skipped, 0 failed`,
        failures: "",
      });
      const strict = await results(program, ["-p", String(port.port), "--strict"]);
      assertEquals(strict.failures, "");
    }),
);

async function answerAtTheEnd({ body }: RouteRequest): Promise<RouteAnswer> {
  for await (const _ of body);
  return { status: 200, contentType: "text/plain", body: "all of it has come" };
}

async function results(program: string, args: string[]): Promise<{ summary: string; failures: string }> {
  const { stdout, stderr } = await run([program, "--timeout", "10", ...args]);
  const [, failures = ""] = stdout.split("Failures:");
  const summary = /\d+ tests, .*/.exec(stdout)?.[0] ?? `no summary: ${stdout}${stderr}`;
  console.log(`h2spec ${args.slice(2).join(" ")}: ${summary}`);
  return { summary, failures: failures.trim() };
}
