/**
 * The examples at work: the machines of `examples/` as one machine, its modules, and the client programs.
 * `tests/modules/examples_test.ts` has the modules that work together, `tests/accuracy/depth_test.ts` the obstacles.
 */

import { assert, assertEquals, assertGreater, assertMatch, assertRejects } from "@std/assert";
import { BaseApi } from "../../lib/api/actuators/base.ts";
import { BoardApi } from "../../lib/api/actuators/board.ts";
import { SlamApi } from "../../lib/api/services/slam.ts";
import { VisionApi } from "../../lib/api/services/vision.ts";
import { SvcError } from "../../lib/base/error.ts";
import { parseJsonc } from "../../lib/base/schema/jsonc.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { readPcd } from "../../lib/geometry/cloud/pcd.ts";
import { mimeTypeOf } from "../../lib/geometry/image/image.ts";
import { ResourceName } from "../../lib/resource/name.ts";
import type { AnyApi } from "../../lib/resource/registry.ts";
import { bundledScript, nodeFolder, pythonProgram, run } from "../interop/programs.ts";
import { fromSource, ROOT, withModules } from "../modules/sdk_bench.ts";
import { bytesIn } from "../support/pieces.ts";
import { blockWith } from "./pages.ts";
import { until } from "../support/until.ts";
import { browserPath, launch } from "../web/browser.ts";

const MODULES = {
  leds: fromSource("examples/modules/leds/main.ts"),
  colors: fromSource("examples/modules/colors/main.ts"),
};

/** What the programs of `examples/clients` print. */
const DRIVEN = /^the encoder counted 4\d\d ticks\n.*: \d+ bytes of image\/\w+\n$/;

Deno.test("the machines, modules and client programs of examples/ work", async (t) => {
  const folder = await Deno.makeTempDir({ prefix: "svc-examples-" });
  await Deno.mkdir(`${folder}/lights/user`, { recursive: true });
  await Deno.writeTextFile(`${folder}/lights/user/max_brightness`, "255\n");
  await Deno.writeTextFile(`${folder}/lights/user/brightness`, "0\n");
  const config = await wholeMachine(`${folder}/lights`);
  try {
    await withModules(MODULES, config, async (machine) => {
      await machine.ready();
      const of = <A extends AnyApi>(api: A, name: string): ReturnType<A["client"]> =>
        api.client(ResourceName.of(api.name, name), machine.channel);

      await t.step("a light of the computer is a pin of the board", async () => {
        const board = of(BoardApi, "lights");
        const shown = () => Deno.readTextFile(`${folder}/lights/user/brightness`);
        await board.setGpio("user", true);
        assertEquals([await shown(), await board.getGpio("user")], ["255\n", true]);
        await board.setPwm("user", 0.2);
        assertEquals([await shown(), await board.getPwm("user")], ["51\n", 0.2]);
        for (const pin of ["other", "../lights/user", ""]) {
          await assertRejects(() => board.setGpio(pin, true), SvcError, "has no light");
        }
        await assertRejects(() => board.setPwm("user", 1.5), SvcError, "between 0 and 1");
      });

      await t.step("the vision service finds the red box of the camera's scene", async () => {
        const finder = of(VisionApi, "finder");
        const [{ className, confidence, box }, ...others] = await finder.getDetectionsFromCamera("camera");
        assertEquals([className, others.length], ["red box", 0]);
        assert(confidence > 0.2 && confidence <= 1, `${confidence}`);
        assert(box!.xMax <= 80, "the red box stands on the left");
        const all = await finder.captureAllFromCamera("", { image: true, detections: true });
        assertEquals([all.detections.length, all.image?.sourceName], [1, "color"]);
        await assertRejects(() => finder.getDetectionsFromCamera("other"), SvcError, "looks through");
      });

      await t.step("the robot maps the building", async () => {
        await of(BaseApi, "rover").moveStraight(500, 500);
        const slam = of(SlamApi, "slam");
        const points = async () => {
          const map = await bytesIn(slam.getPointCloudMap()).catch(() => new Uint8Array());
          return map.length === 0 ? 0 : readPcd(map).x.length;
        };
        await until(async () => await points() > 500);
        assertGreater(await points(), 500);
      });

      const address = machine.server.url;
      await t.step("the client program in JavaScript drives it", async () => {
        const script = `${await nodeFolder()}/drive.mjs`;
        await Deno.copyFile(`${ROOT}examples/clients/drive.mjs`, script);
        const picture = `${folder}/js.jpg`;
        const { stdout, stderr } = await run(["node", script, address, picture]);
        assertMatch(stdout, DRIVEN, stderr);
        assertMatch(mimeTypeOf(await Deno.readFile(picture)), /^image\//);
      });

      const browser = await browserPath();
      await t.step({
        name: "the client page in a browser shows the camera and drives it",
        ignore: !("found" in browser),
        fn: () => drivesFromPage("found" in browser ? browser.found : "", address),
      });

      const python = await pythonProgram();
      await t.step({
        name: "the client program in Python drives it",
        ignore: !("found" in python),
        fn: async () => {
          const picture = `${folder}/py.jpg`;
          const program = "found" in python ? python.found : "";
          const script = `${ROOT}examples/clients/drive.py`;
          const { stdout, stderr } = await run([program, script, new URL(address).host, picture]);
          assertMatch(stdout, DRIVEN, stderr);
          assertMatch(mimeTypeOf(await Deno.readFile(picture)), /^image\//);
        },
      });
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

/** Opens `examples/clients/browser` from a site of its own, as a developer's server has it. */
async function drivesFromPage(program: string, machine: string): Promise<void> {
  const folder = `${ROOT}examples/clients/browser`;
  const copy = `${await nodeFolder()}/drive_from_page.js`;
  await Deno.copyFile(`${folder}/main.js`, copy);
  const script = await bundledScript(copy);
  const html = await Deno.readTextFile(`${folder}/index.html`);
  await using site = Deno.serve({ hostname: "localhost", port: 0, onListen: () => {} }, ({ url }) => {
    const isScript = new URL(url).pathname === "/main.js";
    const type = isScript ? "text/javascript" : "text/html";
    return new Response(isScript ? script : html, { headers: { "content-type": type } });
  });
  const browser = await launch(program);
  try {
    const page = await browser.newPage();
    await page.goto(`http://localhost:${site.addr.port}/?machine=${encodeURIComponent(machine)}`);
    await page.waitForFunction("document.querySelector('#camera').videoWidth > 0");
    await page.getByRole("button", { name: "Turn the motor" }).click();
    await page.waitForFunction("document.querySelector('#ticks').value !== ''");
    assertMatch(await page.locator("#ticks").innerText(), /^the encoder is at \d+ ticks$/);
  } finally {
    await browser.close();
  }
}

Deno.test("README shows the page of the example", async () => {
  const { text } = await blockWith("README.md", "getStream");
  const script = await Deno.readTextFile(`${ROOT}examples/clients/browser/main.js`);
  assertEquals(
    script.slice(script.indexOf("const robot"), script.indexOf("\n\nconst motor")),
    text.trim().split("\n\n").slice(1).join("\n\n"),
  );
});

/** The machines of three examples as one; the lights of the computer are in `lights`. */
async function wholeMachine(lights: string): Promise<JsonObject> {
  const whole = { components: [] as JsonObject[], services: [] as JsonObject[] };
  for (const name of ["demo", "mapping", "signals"]) {
    const path = `${ROOT}examples/${name}.json`;
    const { components, services } = parseJsonc(await Deno.readFile(path), { file: path }) as typeof whole;
    whole.components.push(
      ...components.map((one) => one.name === "lights" ? { ...one, attributes: { folder: lights } } : one),
    );
    whole.services.push(...services);
  }
  return whole;
}
