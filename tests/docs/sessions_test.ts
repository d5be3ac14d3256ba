/** README and docs, run: shell sessions, and the programs in TypeScript and Python. */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { pythonProgram, run } from "../interop/programs.ts";
import { needingTest } from "../support/needing.ts";
import { withDemo } from "../support/server.ts";
import { blockWith, ROOT } from "./pages.ts";
import { runDeno, runScript } from "./scripts.ts";
import { type Context, runSession, SESSIONS, tableRows, withContext } from "./sessions.ts";

/** A control plane serves these sessions already. */
const isServing = (command: string) => /^svc-cloud serve\b/.test(command);

for (const session of SESSIONS) {
  Deno.test(`the commands in ${session.page} print what the page shows`, async () => {
    await withContext((context) => runSession(session, context, isServing));
  });
}

Deno.test("the tables in an output are found, with other text around them", () => {
  const table = ["MACHINE  SEEN (UTC)           PART ID", "rover    2024-01-02 03:04:05  58a7"];
  const output = ["{", ...table, "", "done: 2  machines", "NAME", "id  x"].join("\n");
  assertEquals(tableRows(output), table);
});

Deno.test("README's TypeScript program moves the demo's motor", async () => {
  const { text } = await blockWith("README.md", "MotorClient");
  await withDemo(async ({ url }) => {
    assertStringIncludes(await runScript(text.replace("http://localhost:8080", url)), "motor1");
  });
});

needingTest(
  "README's Python program lists the demo's resources",
  await pythonProgram(),
  async (python) => {
    const { text } = await blockWith("README.md", "RobotClient.at_address");
    await withDemo(async ({ url }) => {
      const program = text.replace("localhost:8080", new URL(url).host);
      const { code, stdout, stderr } = await run([python, "-c", program]);
      assertEquals(code, 0, stderr);
      assertStringIncludes(stdout, "motor1");
    });
  },
);

Deno.test("README's control plane program lists the organizations", async () => {
  const { text } = await blockWith("README.md", "createViamClient");
  await withContext(async ({ cloud, example }: Context) => {
    const program = text.replace("http://localhost:8090", cloud.url)
      .replace("<key id>", example.ownerKey.id).replace("<key>", example.ownerKey.key);
    assertStringIncludes(await runScript(program), example.organizationId);
  });
});

Deno.test("the program in docs/training.md submits a training job", async () => {
  const { text } = await blockWith("docs/training.md", "MlTrainingClient");
  await withContext(async ({ cloud, example }: Context) => {
    const imports = [
      ["{ connectApp }", "lib/cloud_client/app_channel.ts"],
      ["{ MlTrainingClient, ModelType }", "lib/cloud_client/training_client.ts"],
      ["{ SystemClock }", "lib/base/clock.ts"],
      ["{ Secret }", "lib/base/secret.ts"],
    ].map(([names, file]) => `import ${names} from "${ROOT}${file}";`);
    const { id, key } = example.ownerKey;
    const given = { keyId: id, key, org: example.organizationId, dataset: "no-such-dataset" };
    const values = Object.entries(given).map(([name, value]) => `const ${name} = ${JSON.stringify(value)};`);
    const program = [...imports, ...values, text.replace("http://localhost:8090", cloud.url)].join("\n");
    // The example has no images, so the furthest that the program gets is the control plane's answer.
    const { stderr } = await runDeno(program, `${ROOT}deno.json`);
    assertStringIncludes(stderr, "no-such-dataset");
  });
});
