/** The commands about a running machine, typed against one machine that serves a real port. */

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { MODELS } from "../../../drivers/mod.ts";
import { APIS } from "../../../lib/api/mod.ts";
import { SystemClock } from "../../../lib/base/clock.ts";
import { DenoHost } from "../../../lib/base/host_deno.ts";
import { Logs } from "../../../lib/base/log/log.ts";
import { startRuntime } from "../../../lib/machine/runtime.ts";
import { Registry } from "../../../lib/resource/registry.ts";
import { runOnMachine } from "./program.ts";
import { main } from "../main.ts";
import { styleProblems } from "../../../tests/support/json_style.ts";

const KEY = { SVC_API_KEY_ID: "11111111-2222-3333-4444-555555555555", SVC_API_KEY: "the-key" };

const CONFIG = {
  network: { bind_address: "localhost:0" },
  components: [
    { name: "encoder1", api: "rdk:component:encoder", model: "fake" },
    { name: "motor1", api: "rdk:component:motor", model: "fake", attributes: { max_rpm: 100 } },
    { name: "arm1", api: "rdk:component:arm", model: "fake", attributes: { "arm-model": "ur5e" } },
    { name: "twin", api: "rdk:component:sensor", model: "fake" },
    { name: "twin", api: "rdk:component:generic", model: "fake" },
    { name: "bad", api: "rdk:component:motor", model: "gpio", attributes: { board: "none", pins: {} } },
  ],
};

interface Typed {
  readonly code: number;
  readonly output: string;
  readonly errors: string;
}

type Type = (...args: string[]) => Promise<Typed>;

/** Runs a machine; `type` types a command about it. */
async function withMachine(
  config: object,
  env: { readonly [name: string]: string },
  use: (type: Type, url: string, logs: Logs) => Promise<void>,
): Promise<void> {
  const path = await Deno.makeTempFile({ prefix: "svc-running-", suffix: ".json" });
  const home = await Deno.makeTempDir({ prefix: "svc-running-" });
  await Deno.writeTextFile(path, JSON.stringify(config));
  const clock = new SystemClock();
  const logs = new Logs(clock, []);
  const runtime = await startRuntime({
    configPath: path,
    debug: false,
    noTls: false,
    showConfigDiffs: false,
    webrtc: false,
    page: { load: () => Promise.resolve(undefined), remedy: "" },
    diagnostics: { ftdc: false, webProfile: false, telemetry: false },
    stop: () => {},
  }, {
    registry: new Registry(APIS, MODELS),
    host: new DenoHost(),
    clock,
    logs,
    version: "1.0.0",
  });
  try {
    await runtime.ready;
    await use(
      async (...args) => {
        const typed = { code: -1, output: "", errors: "" };
        const host = new DenoHost();
        const given: { readonly [name: string]: string } = {
          SVC_MACHINE: runtime.url,
          SVC_HOME: home,
          ...env,
        };
        host.env = (name) => given[name];
        host.columns = () => 80;
        host.coloured = () => false;
        host.write = (text) => void (typed.output += text);
        host.writeError = (text) => void (typed.errors += text);
        typed.code = await runOnMachine(args, host);
        return typed;
      },
      runtime.url,
      logs,
    );
  } finally {
    await runtime.close();
    await Deno.remove(path);
    await Deno.remove(home, { recursive: true });
  }
}

Deno.test("svc-server module names the commands about modules, wherever they run", async () => {
  let [output, errors] = ["", ""];
  const host = new DenoHost();
  host.write = (text) => void (output += text);
  host.writeError = (text) => void (errors += text);
  assertEquals(await main(["module", "--help"], host), 0);
  for (const words of ["new [NAME]", "restart NAME", "reload NAME"]) {
    assertStringIncludes(output, `  ${words} `);
  }
  output = "";
  assertEquals(await main(["help", "module", "restart"], host), 0);
  assertStringIncludes(output, "Usage: svc-server module restart NAME");
  assertEquals(await main(["module", "restrat", "x"], host), 2);
  assertStringIncludes(errors, "did you mean restart?");
  assertEquals(await main(["module", "--json", "restart"], host), 2);
  assertStringIncludes(errors, "svc-server module restart: found no NAME");
});

Deno.test("status, call, watch and logs of a machine", () =>
  withMachine(CONFIG, {}, async (type) => {
    const status = await type("status");
    assertEquals(status.code, 1, "one resource is unhealthy");
    assertMatch(status.output, /^RESOURCE +TYPE +STATE +SINCE \(UTC\)$/m);
    assertMatch(status.output, /^bad +motor +unhealthy/m);
    assertStringIncludes(status.output, "Not healthy:\nbad: ");
    assertEquals(Math.max(...status.output.split("\n").map((line) => line.length)) <= 80, true);
    const report = JSON.parse((await type("status", "--json")).output);
    assertEquals(styleProblems(report), []);
    const { resources } = report;
    assertEquals(
      resources.map(({ name, state }: { name: string; state: string }) => `${name} ${state}`).sort(),
      [
        "arm1 ready",
        "bad unhealthy",
        "builtin ready",
        "encoder1 ready",
        "motor1 ready",
        "twin ready",
        "twin ready",
      ],
    );

    const call = (...args: string[]) => type("call", ...args);
    assertStringIncludes((await call("motor1")).output, "  GoFor  { rpm: double, revolutions: double");
    assertEquals(await call("motor1", "set_power", '{"powerPct": 0.5}'), {
      code: 0,
      output: "{}\n",
      errors: "",
    });
    assertEquals(JSON.parse((await call("motor/motor1", "IsPowered", "--json")).output), {
      isOn: true,
      powerPct: 0.5,
    });
    const wrong: [string[], number, string][] = [
      [["motr1", "IsPowered"], 1, 'no resource "motr1"; did you mean motor1?'],
      [["motor1", "IsPowerd"], 2, 'no method "IsPowerd"; did you mean IsPowered?'],
      [["motor1", "SetPower", '{"powrPct": 1}'], 2, 'unknown field "powrPct"; did you mean powerPct?'],
      [["motor1", "SetPower", '{"powerPct": "fast"}'], 2, "wanted { powerPct: double"],
      [["motor1", "SetPower", "[1]"], 2, "found [1], wanted an object"],
      [["motor1", "SetPower", '{"powerPct"'], 2, "the request:1:"],
      [["twin", "GetReadings"], 1, "means 2 resources: "],
      [["bad", "IsPowered"], 1, "bad is unhealthy: "],
      [["generic/twin", "DoCommand", "--timout", "1s"], 2, "did you mean --timeout?"],
    ];
    for (const [args, code, text] of wrong) {
      const typed = await call(...args);
      assertStringIncludes(typed.errors, text);
      assertEquals(typed.code, code, typed.errors);
    }

    const watched = await type("watch", "motor1", "--count", "2", "--every", "20ms");
    assertEquals(watched.output.replaceAll(/^[\d:]{8}/gm, "T").split("\n"), [
      'T  state  "ready"',
      'T  GetPosition  {"position":0}',
      'T  IsPowered  {"isOn":true,"powerPct":0.5}',
      "",
    ], "only what changes");
    // How an encoder counts is no argument that a person must give.
    assertMatch((await type("watch", "encoder1", "--count", "1")).output, / GetPosition {2}\{/);
    const bad = await type("watch", "bad", "IsPowered", "--count", "1", "--json");
    assertStringIncludes(bad.output, '"what":"state","value":"unhealthy: ');

    const logs = await type("logs", "--level", "info", "--filter", "machine is running");
    assertMatch(logs.output, /^[\dTZ:.-]+\tINFO\trdk\tmachine is running\t/);
    assertEquals((await type("logs", "--level", "loud")).code, 2);
    assertStringIncludes((await type("module", "restart", "m")).errors, 'no module "m"; it has none');
    assertStringIncludes(
      (await type("status", "--machine", "localhost:1")).errors,
      "is the machine running?",
    );
  }));

Deno.test("logs prints as many lines as were asked for, however many messages they come in", () =>
  withMachine({ network: CONFIG.network }, {}, async (type, _, logs) => {
    const logger = logs.logger("test");
    for (let number = 1; number <= 700; number++) logger.info(`record ${number}`);
    const { output } = await type("logs", "--lines", "700");
    const numbers = [...output.matchAll(/\trecord (\d+)$/gm)].map(([, number]) => Number(number));
    assertEquals(numbers, Array.from({ length: 700 }, (_, at) => at + 1));

    logger.warn("the last one", { pin: "a7" });
    const json = await type("logs", "--json", "--lines", "1");
    const { time, level, message, fields } = JSON.parse(json.output);
    assertEquals([level, message, fields], ["warn", "the last one", { pin: "a7" }]);
    assertMatch(time, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  }));

Deno.test("a machine with keys wants one, and a key does not travel in the clear to other computers", async () => {
  const auth = {
    handlers: [{
      type: "api-key",
      config: { [KEY.SVC_API_KEY_ID]: KEY.SVC_API_KEY, keys: [KEY.SVC_API_KEY_ID] },
    }],
  };
  await withMachine({ network: CONFIG.network, auth }, {}, async (type) => {
    const { code, errors } = await type("status");
    assertEquals(code, 1);
    assertStringIncludes(errors, "set SVC_API_KEY_ID and SVC_API_KEY");
  });
  await withMachine({ network: CONFIG.network, auth }, KEY, async (type) => {
    assertEquals((await type("status")).code, 0);
    const elsewhere = await type("status", "--machine", "http://192.0.2.1:8080");
    assertStringIncludes(elsewhere.errors, "a key does not travel without TLS");
  });
});
