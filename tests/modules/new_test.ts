/**
 * Modules that `svc-server module new` makes: in TypeScript run by Deno, in JavaScript run by Node, with nothing
 * installed beside them.
 */

import { dirname, relative } from "node:path";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { checkCompiler } from "../../cli/build/check_compiler.ts";
import { TARGETS } from "../../cli/build/compiler.ts";
import { makeModulePackage } from "../../cli/build/module_package.ts";
import { main } from "../../cli/server/main.ts";
import { runModule } from "../../cli/server/module/program.ts";
import { runOnMachine } from "../../cli/server/running/program.ts";
import { MODULE_PACKAGE } from "../../cli/version.ts";
import { SensorApi } from "../../lib/api/sensors/sensor.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { ResourceName } from "../../lib/resource/name.ts";
import { blockWith } from "../docs/pages.ts";
import { pythonProgram, run, typeStrippingNode } from "../interop/programs.ts";
import { type Needed, needingTest } from "../support/needing.ts";
import { until } from "../support/until.ts";
import { ROOT, withModules } from "./sdk_bench.ts";

await makeModulePackage();

/** Records a command's output. */
class Host extends DenoHost {
  printed = "";
  errors = "";

  override write(text: string): void {
    this.printed += text;
  }

  override writeError(text: string): void {
    this.errors += text;
  }
}

const LANGUAGES = [["typescript", "Deno"], ["javascript", "Node"]] as const;

for (const [language, runtime] of LANGUAGES) {
  Deno.test(`a module from svc-server module new in ${language} runs in ${runtime} and answers`, async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-new-" });
    try {
      const made = `${folder}/thermo`;
      const given = relative(Deno.cwd(), made);
      const { code, host } = await moduleCommand("new", "thermo", "--language", language, "--folder", given);
      assertEquals([code, host.errors], [0, ""]);
      assertStringIncludes(host.printed, `"executable_path": "${made}/run.sh"`);
      const { components } = JSON.parse(await Deno.readTextFile(`${made}/machine.json`));
      const path = await pathWithout(folder, runtime);
      await withModules(
        { thermo: ["env", `PATH=${path}`, `${made}/run.sh`] },
        { components },
        async (machine) => {
          const sensor = SensorApi.client(ResourceName.of(SensorApi.name, "sensor1"), machine.channel);
          await machine.ready();
          assertEquals(await sensor.getReadings(), { reading: 21.5 });
          await machine.write({ components: [{ ...components[0], attributes: { reading: "warm" } }] });
          const refused = /attributes\.reading: found "warm", wanted a number/;
          await until(async () => refused.test((await machine.sick()).sensor1));
          await machine.write({ components: [{ ...components[0], attributes: { reading: 3 } }] });
          await machine.ready();
          assertEquals(await sensor.getReadings(), { reading: 3 });
          const reloaded = new Host();
          const where = ["--machine", machine.server.url, "--path", made];
          assertEquals(
            await runOnMachine(["module", "reload", "thermo", ...where], reloaded),
            0,
            reloaded.errors,
          );
          assertEquals(reloaded.printed, "thermo is ready\n");
          await Deno.stat(`${made}/module.tar.gz`);
          const broken = new Host();
          const build = ["--build", "echo no; exit 3"];
          assertEquals(await runOnMachine(["module", "reload", "thermo", ...where, ...build], broken), 1);
          assertStringIncludes(broken.errors, "ended with 3: the module was not restarted");
        },
      );
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });
}

needingTest(
  "a new module in typescript runs in Node that takes it; of an older one, or none, its log tells",
  await typeStrippingNode(),
  async (node) => {
    const folder = await Deno.makeTempDir({ prefix: "svc-new-" });
    try {
      const made = `${folder}/thermo`;
      assertEquals((await moduleCommand("new", "thermo", "--folder", made)).code, 0);
      const bin = await pathWithout(folder, "Node");
      const tell = () => run(["env", `PATH=${bin}`, `${made}/run.sh`, "socket"]);
      await Deno.remove(`${bin}/node`);
      assertStringIncludes((await tell()).stderr, "needs Deno, or Node 22.18 or newer; found none");
      await Deno.writeTextFile(`${bin}/node`, '#!/bin/sh\n[ "$1" = --version ] && echo v20.1.0', {
        mode: 0o755,
      });
      assertStringIncludes((await tell()).stderr, "found v20.1.0");
      await Deno.remove(`${bin}/node`);
      await Deno.symlink(node, `${bin}/node`);
      const { components } = JSON.parse(await Deno.readTextFile(`${made}/machine.json`));
      const command = ["env", `PATH=${bin}`, `${made}/run.sh`];
      await withModules({ thermo: command }, { components }, async ({ channel, ready }) => {
        await ready();
        const sensor = SensorApi.client(ResourceName.of(SensorApi.name, "sensor1"), channel);
        assertEquals(await sensor.getReadings(), { reading: 21.5 });
      });
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);

needingTest(
  "the npm package, packed and installed, runs a TypeScript module in Node directly",
  await typeStrippingNode(),
  async (node) => {
    const folder = await Deno.makeTempDir({ prefix: "svc-npm-" });
    const npm = async (...args: string[]) => {
      const { code, stdout, stderr } = await run(["npm", "--prefix", folder, "--silent", ...args]);
      assertEquals(code, 0, stderr);
      return stdout.trim();
    };
    try {
      const packed = await npm("pack", `${ROOT}${MODULE_PACKAGE}`, "--pack-destination", folder);
      await Deno.writeTextFile(`${folder}/package.json`, '{ "private": true, "type": "module" }');
      await npm("install", "--offline", "--no-audit", `${folder}/${packed}`);
      const { text } = await blockWith("docs/writing_modules.md", "serveModule");
      await Deno.writeTextFile(`${folder}/main.ts`, text);
      await runsThermometer(["env", "-C", folder, node, "main.ts"]);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);

needingTest(
  "a TypeScript module compiled by Deno to one file runs without other files",
  await moduleCompiler(),
  async (compiler) => {
    const folder = await Deno.makeTempDir({ prefix: "svc-compiled-" });
    try {
      const { text } = await blockWith("docs/writing_modules.md", "serveModule");
      const library = new URL(`${MODULE_PACKAGE}/mod.js`, `file://${ROOT}`).href;
      await Deno.writeTextFile(`${folder}/main.ts`, text.replace('"svc-module"', JSON.stringify(library)));
      const options = ["compile", "--quiet", "--allow-all", "--no-check", "--no-config", "--no-lock"];
      const { code, stderr } = await run([
        compiler,
        ...options,
        "-o",
        `${folder}/thermo`,
        `${folder}/main.ts`,
      ]);
      assertEquals(code, 0, stderr);
      await Deno.remove(`${folder}/main.ts`);
      await runsThermometer(["env", "-i", `${folder}/thermo`]);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);

needingTest(
  "the module in Python of the docs answers, and refuses a wrong setting in its words",
  await pythonProgram(),
  async (python) => {
    const folder = await Deno.makeTempDir({ prefix: "svc-page-" });
    try {
      const { text } = await blockWith("docs/writing_modules.md", "run_from_registry");
      await Deno.writeTextFile(`${folder}/main.py`, text);
      await runsThermometer([python, `${folder}/main.py`]);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);

/** Runs a module that docs/writing_modules.md shows, asks its resource, and gives it a wrong setting. */
async function runsThermometer(command: string[]): Promise<void> {
  const components = [{
    name: "t",
    api: SensorApi.name,
    model: "acme:weather:thermometer",
    attributes: { celsius: 8 },
  }];
  await withModules({ thermo: command }, { components }, async ({ channel, ready, sick, write }) => {
    await ready();
    const sensor = SensorApi.client(ResourceName.of(SensorApi.name, "t"), channel);
    assertEquals(await sensor.getReadings(), { celsius: 8 });
    await write({ components: [{ ...components[0], attributes: { celsius: "warm" } }] });
    await until(async () => /celsius: found ["']warm["'], wanted a number/.test((await sick()).t));
  });
}

/** A Deno that can compile here: the runtime of the pinned one cannot be had everywhere. */
async function moduleCompiler(): Promise<Needed<string>> {
  try {
    return { found: (await checkCompiler(TARGETS[0])).deno };
  } catch (error) {
    return { missing: `no Deno can compile here: ${error}` };
  }
}

Deno.test("the library's types find errors in a module, and no others", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-new-" });
  try {
    const { code } = await moduleCommand("new", "thermo", "--folder", `${folder}/thermo`);
    assertEquals(code, 0);
    const file = async (name: string, text: string) => {
      await Deno.writeTextFile(`${folder}/thermo/${name}`, text);
      return `${folder}/thermo/${name}`;
    };
    // One check of several files costs hardly more than that of one.
    const check = (...files: string[]) =>
      run([Deno.execPath(), "check", "--no-config", "--no-lock", ...files]);
    const page = (await blockWith("docs/writing_modules.md", "serveModule")).text;
    const shown = await file("page.ts", page.replace('"svc-module"', '"./svc-module/mod.js"'));
    const good = await check(`${folder}/thermo/model.ts`, shown);
    assertEquals(good.code, 0, good.stderr);

    const text = await Deno.readTextFile(`${folder}/thermo/model.ts`);
    const bad = await check(
      await file("reading.ts", text.replace("attributes.reading }", "attributes.raeding }")),
      await file("method.ts", text.replace("getReadings", "getReading")),
    );
    assertStringIncludes(bad.stderr, "Property 'raeding' does not exist");
    assertStringIncludes(bad.stderr, "is not assignable to type 'Made<Sensor>");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

needingTest(
  "a new module in Python answers, and starts again with -hot when a file is saved, also after a crash",
  await pythonProgram(),
  async (python) => {
    const folder = await Deno.makeTempDir({ prefix: "svc-new-" });
    try {
      const made = `${folder}/thermo`;
      const args = ["new", "thermo", "--language", "python", "--namespace", "acme", "--folder", made];
      assertEquals((await moduleCommand(...args)).code, 0);
      const tests = await run(["env", "-C", made, python, "-W", "ignore", "-m", "unittest"]);
      assertEquals(tests.code, 0, tests.stderr);
      const { components } = JSON.parse(await Deno.readTextFile(`${made}/machine.json`));
      const env = { PATH: `${dirname(python)}:${Deno.env.get("PATH")}` };
      const modules = [{ name: "thermo", executable_path: `${made}/run.sh`, env }];
      const text = await Deno.readTextFile(`${made}/model.py`);
      await withModules({}, { modules, components }, async ({ channel, ready, server }) => {
        await ready();
        const sensor = SensorApi.client(ResourceName.of(SensorApi.name, "sensor1"), channel);
        assertEquals(await sensor.getReadings(), { reading: 21.5 });
        await Deno.writeTextFile(`${made}/model.py`, "this is no Python\n");
        await server.wrote('module "thermo" starts again: model.py changed');
        await server.wrote("SyntaxError");
        await Deno.writeTextFile(`${made}/model.py`, text.replace("self.reading}", "self.reading + 1}"));
        const reads = () => sensor.getReadings().catch(() => ({}));
        await until(async () => (await reads() as { reading?: number }).reading === 22.5);
      }, ["-hot", made]);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);

Deno.test("svc-server module new writes a stub of every method, in each language, or names the types that it knows", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-new-" });
  try {
    for (const api of ["motor", "camera", "rdk:service:slam", "arm", "mlmodel", "generic"]) {
      for (const language of ["typescript", "javascript", "python"]) {
        const made = `${folder}/${api.split(":").at(-1)}-${language}`;
        const { code, host } = await moduleCommand(
          "new",
          "x",
          "--api",
          api,
          "--language",
          language,
          "--folder",
          made,
        );
        assertEquals([code, host.errors], [0, ""]);
      }
    }
    const typed = ["motor", "slam", "generic"].flatMap((kind) =>
      ["main.ts", "model_test.ts"].map((file) => `${folder}/${kind}-typescript/${file}`)
    );
    const checked = await run([Deno.execPath(), "check", "--no-config", "--no-lock", ...typed]);
    assertEquals(checked.code, 0, checked.stderr);
    for (const test of ["camera-javascript/model_test.js"]) {
      const { code, stdout } = await run([
        Deno.execPath(),
        "test",
        "--no-config",
        "--no-lock",
        `${folder}/${test}`,
      ]);
      assertEquals(code, 0, stdout);
    }
    for (const method of ["setPower", "goFor", "stop", "isMoving"]) {
      assertStringIncludes(
        await Deno.readTextFile(`${folder}/motor-javascript/model.js`),
        `${method}: async (`,
      );
    }
    const refused = await moduleCommand("new", "x", "--api", "motr", "--folder", `${folder}/no`);
    assertStringIncludes(refused.host.errors, "did you mean Motor?");
    const built = await run([`${folder}/motor-python/build.sh`]);
    assertEquals(built.code, 0, built.stderr);
    const { stdout } = await run(["tar", "-tzf", `${folder}/motor-python/module.tar.gz`]);
    for (const file of ["meta.json", "run.sh", "setup.sh", "model.py"]) assertStringIncludes(stdout, file);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("svc-server module new without a name asks, until the answers fit", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-new-" });
  const host = new Host();
  const answers = ["1x", "heater", "pyton", "python", "Acme!", "acme", "motor", "heat-er"];
  try {
    const code = await runModule(["new", "--folder", `${folder}/made`], host, () => answers.shift());
    assertEquals([code, answers], [0, []], host.errors);
    const meta = JSON.parse(await Deno.readTextFile(`${folder}/made/meta.json`));
    assertEquals([meta.module_id, meta.models], ["acme:heater", [
      { api: "rdk:component:motor", model: "acme:heater:heat-er" },
    ]]);
    assertEquals(await runModule(["new"], host, () => undefined), 1);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("svc-server module new refuses an existing folder and bad names", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-new-" });
  try {
    const there = await moduleCommand("new", "thermo", "--folder", folder);
    assertEquals(there.code, 1);
    assertStringIncludes(there.host.errors, "there is something already");
    for (const name of ["a b", "a:b", "../a", "1a"]) {
      const { code, host } = await moduleCommand("new", name, "--folder", `${folder}/new`);
      assertEquals(code, 2);
      assertStringIncludes(host.errors, `"${name}" cannot be the name of a module`);
    }
    assertEquals([...Deno.readDirSync(folder)], []);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

async function moduleCommand(...words: string[]) {
  const host = new Host();
  return { code: await main(["module", ...words], host), host };
}

/** A path of programs on which the runtime is, and the other one is not. */
async function pathWithout(folder: string, runtime: "Deno" | "Node"): Promise<string> {
  const bin = `${folder}/bin`;
  await Deno.mkdir(bin);
  const node = (await run(["sh", "-c", "command -v node"])).stdout.trim();
  assert(node !== "");
  const [name, program] = runtime === "Deno" ? ["deno", Deno.execPath()] : ["node", node];
  await Deno.symlink(await Deno.realPath(program), `${bin}/${name}`);
  for (const tool of ["sh", "dirname", "sed"]) {
    await Deno.symlink((await run(["sh", "-c", `command -v ${tool}`])).stdout.trim(), `${bin}/${tool}`);
  }
  return bin;
}
