/**
 * Releases and packages, from the command line to the machine that runs them.
 */

import { ROOT } from "../../cli/build/compiler.ts";
import { makeSignKey, readSignKey, writeSums } from "../../cli/build/sums.ts";
import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { packed } from "../../lib/base/files/archive.ts";
import { startServer } from "../support/server.ts";
import { type Example, serveCloud, svcCloud, svcCloudPrinted } from "./program.ts";
import { storeTest } from "./stores.ts";
import { linuxProgram } from "../support/linux_program.ts";

async function writeArchive(path: string, name: string, text: string): Promise<void> {
  const content = new TextEncoder().encode(text);
  using file = await Deno.open(path, { write: true, create: true });
  for await (const chunk of packed([{ path: name, bytes: content.length, content: [content] }])) {
    await file.write(chunk);
  }
}

function contentsIn(folder: string): number {
  const folders = [...Deno.readDirSync(`${folder}/files`)].map(({ name }) => name);
  return folders.flatMap((name) => [...Deno.readDirSync(`${folder}/files/${name}`)]).length;
}

storeTest(
  "svc-cloud package and release commands upload, list and delete packages and releases",
  async ({ flags, folder }) => {
    const run = (...args: string[]) => svcCloud(...args, ...flags);
    const json = async (...args: string[]) => JSON.parse(await run(...args, "--json"));
    await json("init");
    const [archive, program] = [`${folder}/fruit.tar.gz`, `${folder}/svc-server`];
    await writeArchive(archive, "labels.txt", "apple");
    await Deno.writeFile(program, linuxProgram(100));

    const model = ["--type", "ml_model"];
    await run("org", "namespace", "orchard");
    assertEquals(
      await run("package", "upload", "fruit", "1.0.0", archive, ...model),
      "orchard:fruit 1.0.0\n",
    );
    assertMatch(await run("package", "list"), /^orchard:fruit +ml_model +1\.0\.0 +any +private/m);
    await assertRejects(
      () => run("package", "upload", "fruit", "1.0.0", archive, ...model),
      Error,
      "already",
    );
    await assertRejects(
      () => run("package", "upload", "fruit", "1.1.0", program, ...model),
      Error,
      ".tar.gz",
    );
    await assertRejects(
      () => run("package", "upload", "fruit", "1.1.0", `${folder}/none`),
      Error,
      "there is no file or folder",
    );
    await assertRejects(() => run("package", "upload", "x", "1", archive, "--type", "song"), Error, "--type");
    await run("package", "delete", "orchard:fruit", "1.0.0");
    assertEquals(await json("package", "list"), { packages: [] });

    const publish = (version: string, ...more: string[]) =>
      run("release", "publish", "svc-server", version, program, ...more);
    assertMatch(
      await publish("1.0.0", "--channel", "stable"),
      /^svc-server 1\.0\.0 for linux\/amd64: 100 B,/,
    );
    const { remarks } = await svcCloudPrinted("release", "publish", "svc-server", "1.1.0", program, ...flags);
    assertStringIncludes(remarks, "To offer it: svc-cloud release channel svc-server 1.1.0 stable\n");
    await assertRejects(() => publish("1.2.0", "--platform", "linux/arm64"), Error, "another processor");
    await assertRejects(() => publish("1.2.0", "--platform", "windows/amd64"), Error, "windows on amd64");
    // Only what a key has signed, if that is asked for.
    const signed = (...more: string[]) => publish("1.2.0", "--require-signature", ...more);
    await assertRejects(() => signed(), Error, "SHA256SUMS");
    const key = await makeSignKey(`${folder}/key.pem`, ROOT);
    const provenance = { version: "1.2.0", revision: "", deno: "2.9.6", lockSha256: "" };
    await writeSums(folder, ["svc-server"], provenance, await readSignKey(`${folder}/key.pem`, ROOT));
    await assertRejects(() => signed(), Error, "is not signed by the key");
    await signed("--signature-key", key);
    await run("release", "delete", "svc-server", "1.2.0");
    await Deno.writeFile(program, linuxProgram(101));
    await assertRejects(() => signed("--signature-key", key), Error, "wanted the signed");
    await Deno.writeFile(program, linuxProgram(100));
    await run("release", "channel", "svc-server", "1.1.0", "dev");
    const { releases: listed }: { releases: { version: string; channel: string }[] } = await json(
      "release",
      "list",
    );
    assertEquals(listed.map((one) => [one.version, one.channel]), [["1.0.0", "stable"], ["1.1.0", "dev"]]);
    const { keys: [first] } = await json("release", "keys");
    const next = await json("release", "rotate-key");
    assertEquals([next.previous, (await json("release", "keys")).keys.length], [first.id, 2]);
    await run("release", "delete", "svc-server", "1.0.0");
    // Both versions had the same content.
    assertEquals(contentsIn(folder), 1);
    await run("release", "delete", "svc-server", "1.1.0");
    assertEquals(contentsIn(folder), 0);
    const actions = (await json("audit")).entries.map(({ action }: { action: string }) => action);
    assert(actions.includes("release channel") && actions.includes("package upload"));
    assertMatch(
      await run("fleet"),
      /^MACHINE +LOCATION +STATE +UNHEALTHY +CONFIG +SEEN.*\nexample-machine +home +never +- +- +never/,
    );
  },
);

Deno.test("a machine fetches the newest version in a package's range, and changes to the next version", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-cloud-" });
  const data = ["--data", `${folder}/data`];
  const example: Example = JSON.parse(await svcCloud("init", ...data, "--json"));
  const cloud = await serveCloud(data);
  const file = `${folder}/machine.json`;
  const own = { ...example.config.cloud, app_address: cloud.url, refresh_interval: "1s" };
  await Deno.writeTextFile(file, JSON.stringify({ cloud: own }));
  const publish = async (version: string) => {
    await writeArchive(`${folder}/${version}.tar.gz`, "about.json", version);
    await svcCloud(
      "package",
      "upload",
      "fruit",
      version,
      `${folder}/${version}.tar.gz`,
      "--type",
      "ml_model",
      ...data,
    );
  };
  await publish("1.0.0");
  const config = {
    network: { bind_address: "localhost:0" },
    packages: [{
      name: "fruit",
      package: `${example.organizationId}/fruit`,
      version: "^1",
      type: "ml_model",
    }],
    components: [{
      name: "b",
      api: "rdk:component:board",
      model: "fake",
      attributes: { note: "${packages.ml_model.fruit}/about.json" },
    }],
  };
  await Deno.writeTextFile(`${folder}/config.json`, JSON.stringify(config));
  await svcCloud("config", "set", example.partId, `${folder}/config.json`, ...data);
  const server = await startServer(file, { args: ["-allow-insecure-creds"], env: { SVC_HOME: folder } });
  const there = (version: string) =>
    Deno.readTextFile(
      `${folder}/packages/data/ml_model/${example.organizationId}-fruit-${
        version.replaceAll(".", "_")
      }/about.json`,
    );
  try {
    await server.wrote("machine is running");
    assertEquals(await there("1.0.0"), "1.0.0");
    await publish("1.1.0");
    await server.wrote("removed an unused package");
    assertEquals(await there("1.1.0"), "1.1.0");
    await assertRejects(() => there("1.0.0"));
  } finally {
    await server.stop();
    await cloud.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
