/** The screen at the start, as a person sees it in 80 columns. */

import { assertEquals } from "@std/assert";
import { type StartFacts, startScreen } from "./screen.ts";

const FACTS: StartFacts = {
  version: "0.1.0",
  url: "http://localhost:8080",
  hasPage: true,
  resources: [
    { name: "motor1", state: "ready" },
    {
      name: "camera1",
      state: "unhealthy",
      error: 'cannot use /dev/video7: cannot open the device "/dev/video7": No such file or directory',
    },
  ],
  modules: [{ name: "acme", state: "ready" }],
  file: "machine.json",
};

Deno.test("startScreen: address, resources, what is unhealthy and why, and what to do next", () => {
  assertEquals(
    startScreen(FACTS, 80).join("\n"),
    `
svc-server 0.1.0 is running

  address    http://localhost:8080 (open it in a browser: the machine's page)
  resources  1 ready, 1 unhealthy: camera1, motor1
  unhealthy  camera1: cannot use /dev/video7: cannot open the device
             "/dev/video7": No such file or directory
  next       svc-server status, once you have mended it
             change machine.json: it applies when you save it
             Ctrl-C ends the machine
`,
  );
});

Deno.test("startScreen: a machine without resources or page, at another port, of a control plane", () => {
  const facts = { ...FACTS, hasPage: false, resources: [], url: "https://localhost:9000" };
  assertEquals(startScreen(facts, 80).slice(3, 6), [
    "  address    https://localhost:9000",
    "  resources  none yet",
    "  next       svc-server init writes a first configuration",
  ]);
  const managed = startScreen({ ...FACTS, managedBy: "https://cloud.example", resources: [] }, 60);
  assertEquals(managed.every((line) => line.length <= 60), true);
});

Deno.test("startScreen: a module that does not run is told like a resource", () => {
  const modules = [{ name: "acme", state: "unhealthy", error: "it ended with exit code 1" }];
  assertEquals(startScreen({ ...FACTS, resources: [], modules }, 80).slice(4, 7), [
    "  resources  none yet",
    "  unhealthy  module acme: it ended with exit code 1",
    "  next       svc-server status, once you have mended it",
  ]);
});

Deno.test("startScreen: text of a resource moves no cursor, and many unhealthy ones are counted", () => {
  const resources = Array.from(
    { length: 20 },
    (_, at) => ({ name: `c${at}`, state: "unhealthy", error: "\x1b[2J" }),
  );
  const lines = startScreen({ ...FACTS, resources }, 10);
  assertEquals(lines.join("").includes("\x1b"), false);
  assertEquals(lines.filter((line) => line.includes("and 12 more")).length, 1);
});
