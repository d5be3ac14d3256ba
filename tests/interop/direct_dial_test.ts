/**
 * Programs in Java and C++ dial a machine directly as client libraries do: with the
 * published libraries of gRPC and stubs made from our contracts, with and without a key.
 *
 * `deno task interop:java` and `deno task interop:cpp` run them: compiling takes up to minutes, so other runs leave
 * them out.
 */

import { assertEquals, assertGreater } from "@std/assert";
import { needingTest } from "../support/needing.ts";
import { startServer, writeConfig } from "../support/server.ts";
import { cppDialProgram, javaDialProgram, run } from "./programs.ts";
import { auth, components as wheel, KEY } from "./wheel.ts";

interface Seen {
  readonly resources: readonly string[];
  readonly moved: number;
  /** The code for a motor that is not there, as the language has it. */
  readonly refused: string;
  /** Read from a stream before it was canceled. */
  readonly ticks: number;
  /** Such streams that the machine still knows. */
  readonly left: number;
  /** The code of the call that ended the program. */
  readonly failed?: string;
}

const NOTHING = "-";
const components = [
  ...wheel,
  {
    name: "board",
    api: "rdk:component:board",
    model: "fake",
    attributes: { digital_interrupts: [{ name: "button", pin: "1" }] },
  },
];

const LANGUAGES = [
  { name: "Java", program: await javaDialProgram(), unknown: "UNKNOWN", unauthenticated: "UNAUTHENTICATED" },
  { name: "C++", program: await cppDialProgram(), unknown: "2", unauthenticated: "16" },
];

for (const { name, program, unknown, unauthenticated } of LANGUAGES) {
  needingTest(`a program in ${name} dials a machine without a key`, program, async (command) => {
    await withServer(
      { components },
      async (host) => judge(await seenBy(command, [host, NOTHING, NOTHING]), unknown),
    );
  });

  needingTest(
    `a program in ${name} dials a machine with its key, with a wrong one and with none`,
    program,
    async (command) => {
      await withServer({ components, auth }, async (host) => {
        judge(await seenBy(command, [host, KEY.id, KEY.key]), unknown);
        assertEquals((await seenBy(command, [host, KEY.id, "another"])).failed, unauthenticated);
        assertEquals((await seenBy(command, [host, NOTHING, NOTHING])).failed, unauthenticated);
      });
    },
  );
}

async function withServer(
  config: Record<string, unknown>,
  use: (host: string) => Promise<void>,
): Promise<void> {
  const file = await writeConfig(config);
  const server = await startServer(file);
  try {
    await server.wrote("machine is running");
    await use(new URL(server.url).host);
  } finally {
    await server.stop();
    await Deno.remove(file);
  }
}

function judge({ resources, moved, refused, ticks, left, failed }: Seen, unknown: string): void {
  assertEquals([failed, refused, ticks, left], [undefined, unknown, 3, 0]);
  assertEquals(["board", "pulses", "wheel"].filter((name) => !resources.includes(name)), []);
  assertGreater(moved, 0);
}

async function seenBy(command: readonly string[], args: readonly string[]): Promise<Seen> {
  const { code, stdout, stderr } = await run([...command, ...args]);
  if (code !== 0) throw new Error(`${command.join(" ")} failed: ${stderr}`);
  return JSON.parse(stdout);
}
