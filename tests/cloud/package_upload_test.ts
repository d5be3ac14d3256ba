/**
 * The registry by command: uploads of folders and archives, what they are refused for, updates and removal.
 */

import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { packed } from "../../lib/base/files/archive.ts";
import { MAPPER_DEFAULTS } from "../../lib/slam/mapping.ts";
import { mapFile } from "../../lib/slam/pbstream/map_file.ts";
import { sampleMap } from "../support/map_states.ts";
import { svcCloud, svcCloudPrinted } from "./program.ts";

const META = {
  module_id: "acme:thermo",
  visibility: "private",
  description: "A thermometer.",
  models: [{ api: "rdk:component:sensor", model: "acme:thermo:sensor" }],
  entrypoint: "run.sh",
};

/** A program for Linux on 64-bit ARM. */
const ARM = Uint8Array.from(
  { length: 64 },
  (_, at) => [0x7f, 0x45, 0x4c, 0x46][at] ?? (at === 18 ? 0xb7 : 0),
);

/** A program for Windows on a processor of 64 bits: its header is at byte 128. */
const WINDOWS = Uint8Array.from({ length: 256 }, (_, at) => {
  return ({ 0: 0x4d, 1: 0x5a, 0x3c: 0x80, 0x80: 0x50, 0x81: 0x45, 0x84: 0x64, 0x85: 0x86 } as Record<
    number,
    number
  >)[at] ?? 0;
});

async function writeModule(folder: string, meta: unknown, program: string | Uint8Array, mode = 0o755) {
  await Deno.mkdir(`${folder}/.git`, { recursive: true });
  await Deno.writeTextFile(`${folder}/.git/config`, "a repository is no part of a package");
  const text = typeof meta === "string" ? meta : JSON.stringify(meta);
  await Deno.writeTextFile(`${folder}/meta.json`, text);
  const bytes = typeof program === "string" ? new TextEncoder().encode(program) : program;
  await Deno.writeFile(`${folder}/run.sh`, bytes, { mode });
  await Deno.chmod(`${folder}/run.sh`, mode);
}

Deno.test({
  name: "svc-cloud package: uploads, refusals, updates and removal by command",
  ignore: Deno.build.os === "windows",
  fn: async (t) => {
    const folder = await Deno.makeTempDir({ prefix: "svc-upload-test-" });
    const run = (...args: string[]) => svcCloud(...args, "--data", `${folder}/data`);
    const json = async (...args: string[]) => JSON.parse(await run(...args, "--json"));
    try {
      await run("init");
      const refuses = async (why: string | RegExp, ...args: string[]) => {
        const { message } = await assertRejects(() => run("package", "upload", ...args), Error);
        assertMatch(
          message,
          why instanceof RegExp ? why : new RegExp(why.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&")),
        );
      };
      const good = `${folder}/good`;
      await writeModule(good, META, "#!/bin/sh\n");

      await t.step(
        "a folder is packed; name and type come from meta.json, the namespace must be one's own",
        async () => {
          await refuses("has no public name yet: svc-cloud org namespace acme", "1.0.0", good);
          await run("org", "namespace", "acme");
          const { output, remarks } = await svcCloudPrinted(
            "package",
            "upload",
            "1.0.0",
            good,
            "--data",
            `${folder}/data`,
          );
          assertMatch(output, /^acme:thermo 1\.0\.0\n$/);
          assertStringIncludes(remarks, '"type":"registry","name":"thermo","module_id":"acme:thermo"');
          const { packages: [item] } = await json("package", "list");
          assertEquals([item.name, item.type, item.version, item.platform], [
            "thermo",
            "module",
            "1.0.0",
            "",
          ]);
          await refuses('there is version "1.0.0"', "1.0.0", good);
          await refuses('says "thermo"', "other", "1.0.1", good);
          await refuses("describes a module", "1.0.1", good, "--type", "ml_model");
          await refuses("wanted one such as 1.2.3", "newest", good);
        },
      );

      await t.step("meta.json may begin with a byte order mark", async () => {
        const marked = `${folder}/marked`;
        const text = JSON.stringify({ ...META, module_id: "acme:marked" });
        await writeModule(marked, `\ufeff${text}`, "#!/bin/sh\n");
        assertMatch(await run("package", "upload", "1.0.0", marked), /^acme:marked 1\.0\.0\n/);
        await run("package", "delete", "marked", "--all");
      });

      await t.step("links of a folder are packed, and an archive's are looked into", async () => {
        const linked = `${folder}/linked`, archive = `${folder}/linked.tgz`;
        await writeModule(linked, { ...META, module_id: "acme:linked", entrypoint: "run" }, "#!/bin/sh\n");
        await Deno.symlink("run.sh", `${linked}/run`);
        await Deno.symlink(".", `${linked}/self`);
        assertMatch(await run("package", "upload", "1.0.0", linked), /^acme:linked 1\.0\.0\n/);
        const tar = new Deno.Command("tar", {
          args: ["-czf", archive, "-C", linked, "meta.json", "run", "run.sh"],
        });
        assertEquals((await tar.output()).code, 0);
        assertMatch(await run("package", "upload", "1.1.0", archive), /^acme:linked 1\.1\.0\n/);

        await Deno.symlink(`${folder}/good/run.sh`, `${linked}/outside`);
        await refuses("the link outside leads to no file in it", "1.2.0", linked);
        const out = new Deno.Command("tar", { args: ["-czf", archive, "-C", linked, "."] });
        assertEquals((await out.output()).code, 0);
        await refuses('the archive has the link "outside"', "1.2.0", archive);
        await run("package", "delete", "linked", "--all");
      });

      await t.step("what no machine could run is refused, in the machine's words", async () => {
        const bad: [RegExp, unknown, string | Uint8Array, number?][] = [
          [/names no program, wanted "entrypoint"/, { ...META, entrypoint: "" }, "#!/bin/sh\n"],
          [/there is no file .*main\.sh/, { ...META, entrypoint: "main.sh" }, "#!/bin/sh\n"],
          [/leads out of the package/, { ...META, entrypoint: "../run.sh" }, "#!/bin/sh\n"],
          [/is not executable; run chmod \+x/, META, "#!/bin/sh\n", 0o644],
          [/neither a program .* wanted a first line such as #!/, META, "import asyncio\n"],
          [/models\.0: wanted an object with api and model/, { ...META, models: ["x"] }, "#!/bin/sh\n"],
          [/models\.0: wanted /, { ...META, models: [{ api: "sensor", model: "a:b:c" }] }, "#!/bin/sh\n"],
          [/meta\.json: .*JSON/, "{ not JSON", "#!/bin/sh\n"],
        ];
        for (const [index, [why, meta, program, mode]] of bad.entries()) {
          await writeModule(`${folder}/bad${index}`, meta, program, mode);
          await refuses(why, "2.0.0", `${folder}/bad${index}`);
        }
        await writeModule(`${folder}/arm`, META, ARM);
        await refuses(
          "is a program for linux/arm64, wanted one for linux/amd64",
          "2.0.0",
          `${folder}/arm`,
          "--platform",
          "linux/amd64",
        );
        await run("package", "upload", "2.0.0", `${folder}/arm`);
        const platforms = (await json("package", "list")).packages.map((one: { platform: string }) =>
          one.platform
        );
        assertEquals(platforms, ["", "linux/arm64"]);
      });

      await t.step(
        "a module for Windows is uploaded from any system, with or without the ending of its name",
        async () => {
          const there = `${folder}/windows`;
          for (
            const [version, entrypoint, file] of [["3.1.0", "bin/main", "main.exe"], [
              "3.2.0",
              "bin/main.exe",
              "main.exe",
            ]]
          ) {
            await Deno.mkdir(`${there}/bin`, { recursive: true });
            await Deno.writeFile(`${there}/bin/${file}`, WINDOWS, { mode: 0o644 });
            await Deno.writeTextFile(`${there}/meta.json`, JSON.stringify({ ...META, entrypoint }));
            const upload = await json("package", "upload", version, there);
            assertEquals([upload.version, upload.platform], [version, "windows/amd64"]);
          }
          await refuses(
            "is a program for windows/amd64, wanted one for linux/amd64",
            "3.3.0",
            there,
            "--platform",
            "linux/amd64",
          );
          await Deno.writeTextFile(`${there}/bin/start.bat`, "main.exe %*\r\n");
          await Deno.writeTextFile(
            `${there}/meta.json`,
            JSON.stringify({ ...META, entrypoint: "bin/start.bat" }),
          );
          const batch = await json("package", "upload", "3.4.0", there, "--platform", "windows/amd64");
          assertEquals(batch.platform, "windows/amd64");
        },
      );

      await t.step(
        "an archive is looked into as a folder is; a model without meta.json wants its type",
        async () => {
          const archive = `${folder}/thermo.tar.gz`;
          const files = Object.entries({ "meta.json": JSON.stringify(META), "run.sh": "echo no interpreter" })
            .map(
              ([path, text]) => {
                const bytes = new TextEncoder().encode(text);
                return { path, bytes: bytes.length, content: [bytes], executable: true };
              },
            );
          await Deno.writeFile(
            archive,
            await new Blob(await Array.fromAsync(packed(files)) as BlobPart[]).bytes(),
          );
          await refuses(`${archive}/run.sh is neither a program`, "3.0.0", archive);
          await Deno.mkdir(`${folder}/model`);
          await Deno.writeTextFile(`${folder}/model/labels.txt`, "apple");
          await refuses("--type: wanted one of archive", "fruit", "1.0.0", `${folder}/model`);
          await refuses("NAME: wanted the package's name", "1.0.0", `${folder}/model`, "--type", "ml_model");
          await refuses(
            "wanted a .tar.gz or a folder",
            "fruit",
            "1.0.0",
            `${folder}/model/labels.txt`,
            "--type",
            "ml_model",
          );
          await run("package", "upload", "fruit", "1.0.0", `${folder}/model`, "--type", "ml_model");
        },
      );

      await t.step("a damaged map is refused, in a folder and in an archive", async () => {
        const pieces = await Array.fromAsync(mapFile(sampleMap(), MAPPER_DEFAULTS));
        const whole = await new Blob(pieces as BlobPart[]).bytes();
        const map = `${folder}/hall`;
        const upload = async (bytes: Uint8Array, ...args: string[]) => {
          await Deno.mkdir(map, { recursive: true });
          await Deno.writeFile(`${map}/internalState.pbstream`, bytes);
          return await run("package", "upload", "hall", ...args, map, "--type", "slam_map");
        };
        assertMatch(await upload(whole, "1.0.0"), /hall 1\.0\.0/);
        const flipped = whole.slice();
        flipped[whole.length >> 1] ^= 0xff;
        for (const bad of [whole.subarray(0, whole.length >> 1), new Uint8Array(), flipped]) {
          await assertRejects(
            () => upload(bad, "2.0.0"),
            Error,
            "no machine could use internalState.pbstream",
          );
        }

        const content = [whole.subarray(0, -1)];
        const file = { path: "a/map.pbstream", bytes: whole.length - 1, content, executable: false };
        const archive = `${folder}/hall.tar.gz`;
        const packedPieces = await Array.fromAsync(packed([file]));
        await Deno.writeFile(archive, await new Blob(packedPieces as BlobPart[]).bytes());
        await refuses("no machine could use a/map.pbstream", "hall", "2.0.0", archive, "--type", "slam_map");
        await run("package", "delete", "hall", "--all");
      });

      await t.step("an item is updated; a wrong one is removed and its name is free again", async () => {
        await run("package", "update", "thermo", "--visibility", "public", "--description", "Warm or cold.");
        const { packages: all } = await json("package", "list");
        assertEquals(all.filter((one: { name: string }) => one.name === "thermo")[0].visibility, "public");
        await assertRejects(() => run("package", "update", "thermo"), Error, "nothing to change");
        await assertRejects(() => run("package", "delete", "fruit"), Error, "--all");
        await assertRejects(() => run("package", "delete", "fruit", "1.0.0", "--all"), Error, "either");
        await run("package", "delete", "fruit", "--all");
        await run("package", "upload", "fruit", "1.0.0", `${folder}/model`, "--type", "archive");
        await run("package", "delete", "acme:thermo", "--all");
        assertEquals((await json("package", "list")).packages.map((one: { name: string }) => one.name), [
          "fruit",
        ]);
      });
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});
