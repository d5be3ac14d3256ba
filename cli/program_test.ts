/** What every program answers: version, help, and a command line that is wrong. */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { DenoHost } from "../lib/base/host_deno.ts";
import { main as agent } from "./agent/main.ts";
import { main as cloud } from "./cloud/main.ts";
import { main as ml } from "./ml/main.ts";
import { main as server } from "./server/main.ts";
import { VERSION } from "./version.ts";

const PROGRAMS = { "svc-agent": agent, "svc-cloud": cloud, "svc-ml": ml };
const ALL = { ...PROGRAMS, "svc-server": server };

/** Runs a program on a terminal that remembers. */
async function run(program: keyof typeof ALL, args: string[], env: Record<string, string> = {}) {
  const found = { code: -1, output: "", errors: "" };
  const host = new DenoHost();
  host.write = (text) => void (found.output += text);
  host.writeError = (text) => void (found.errors += text);
  host.env = (name) => env[name];
  found.code = await ALL[program](args, host);
  return found;
}

for (const program of Object.keys(PROGRAMS) as (keyof typeof PROGRAMS)[]) {
  Deno.test(`${program} prints its version and its flags`, async () => {
    for (const flag of ["--version", "-version", "-v"]) {
      const { code, output, errors } = await run(program, [flag]);
      assertEquals([code, errors], [0, ""]);
      assertStringIncludes(output, `${program} ${VERSION} (built from source, `);
      assertEquals(output.split("\n").length, 2);
    }
    for (const flag of ["--help", "-help", "-h"]) {
      const { code, output, errors } = await run(program, [flag]);
      assertEquals([code, errors], [0, ""]);
      assertStringIncludes(output, `Usage: ${program} `);
      assertEquals(output.split("\n").filter((line) => line.length > 80), []);
    }
  });

  Deno.test(`${program} refuses an unknown flag with a suggestion and exit code 2`, async () => {
    const { code, output, errors } = await run(program, ["--verison"]);
    assertEquals([code, output], [2, ""]);
    assertEquals(errors, `${program}: Unknown flag --verison; did you mean --version?\n`);
  });
}

Deno.test("svc-agent --help lists the published options", async () => {
  const { output } = await run("svc-agent", ["--help"]);
  const published = [
    "-c, --config FILE",
    "--defaults FILE",
    "-d, --debug",
    "-w, --wait",
    "-h, --help",
    "--install",
    "--dev-mode",
    "SVC_AGENT_DEBUG",
    "SVC_AGENT_WAIT_FOR_UPDATE",
    "SVC_AGENT_DEVMODE",
    "SVC_AGENT_FAST_START",
  ];
  assertEquals(published.filter((option) => !output.includes(option)), []);
});

Deno.test("svc-agent starts with a bad value in its environment, and tells of it", async () => {
  for (const [name, value] of [["DEBUG", "loud"], ["WAIT_FOR_UPDATE", "perhaps"], ["DEVMODE", "2"]]) {
    const { code, errors } = await run("svc-agent", ["version", "--yes"], { [`SVC_AGENT_${name}`]: value });
    const found = `found "${value}", wanted true or false; it does not count`;
    assertEquals([code, errors], [
      0,
      `svc-agent version: Environment variable SVC_AGENT_${name}: ${found}\n`,
    ]);
  }
  for (const value of ["yes", "ON", "No", " true ", "Disabled"]) {
    assertEquals((await run("svc-agent", ["version", "--yes"], { SVC_AGENT_DEBUG: value })).errors, "");
  }
});

Deno.test("an empty path in the place of a default one is no path, least of all the working folder", async () => {
  const found = 'found "", wanted';
  const refused = async (program: keyof typeof PROGRAMS, ...args: string[]) => {
    const { code, errors } = await run(program, args);
    assertEquals(code, 2);
    return errors;
  };
  assertEquals(await refused("svc-agent", "--config="), `svc-agent: Flag --config: ${found} FILE\n`);
  assertEquals(
    await refused("svc-cloud", "init", "--data", ""),
    `svc-cloud init: Flag --data: ${found} FOLDER\n`,
  );
  assertEquals(
    (await refused("svc-cloud", "init", "--data")).trim(),
    "svc-cloud init: Flag --data needs a value: FOLDER",
  );
});

Deno.test("a value that an option does not have is a wrong command line", async () => {
  const wrong: [program: keyof typeof ALL, line: string, error: string][] = [
    ["svc-agent", "completion tcsh", 'found shell "tcsh", wanted bash, zsh, fish, powershell'],
    ["svc-cloud", "serve --organizations x", '--organizations: found "x", wanted operator or anybody'],
    [
      "svc-server",
      "-ftdc-read x -ftdc-format xml",
      '-ftdc-format: found "xml", wanted one of table, csv, svg',
    ],
    ["svc-server", "module new m --language constructor", "wanted typescript, javascript, python"],
    ["svc-server", "-webrtc false", 'the value of an option without one follows "=", as in -debug=false'],
  ];
  for (const [program, line, error] of wrong) {
    const { code, errors } = await run(program, line.split(" "));
    assertEquals([line, code], [line, 2]);
    assertStringIncludes(errors, error);
  }
});

Deno.test("svc-agent refuses unknown commands and surplus words", async () => {
  assertEquals(await run("svc-agent", ["-d", "rolback"]), {
    code: 2,
    output: "",
    errors: 'svc-agent: unknown command "rolback"; did you mean rollback?; see --help\n',
  });
  assertEquals(await run("svc-agent", ["status", "now"]), {
    code: 2,
    output: "",
    errors: 'svc-agent status: found "now" more than it takes, wanted svc-agent status [flags]\n',
  });
  assertEquals((await run("svc-agent", ["rollback", "svc-cloud"])).code, 2);
  assertEquals((await run("svc-agent", ["--dir", "/x", "version", "-d"])).code, 0);
});
