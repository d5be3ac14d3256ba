/** The first steps as a person takes them: questions with answers, the check of a file, a look at this device. */

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { DenoHost } from "../../../lib/base/host_deno.ts";
import { SystemClock } from "../../../lib/base/clock.ts";
import { runFirstStep } from "./program.ts";
import { examineProxy } from "./proxy.ts";
import { styleProblems } from "../../../tests/support/json_style.ts";

async function first(folder: string, args: string[], answers: string[] = []) {
  const found = { code: -1, output: "", remarks: "", left: answers };
  const host = new DenoHost();
  host.cwd = () => folder;
  host.write = (text) => void (found.output += text);
  host.writeError = (text) => void (found.remarks += text);
  found.code = await runFirstStep(args, host, (question) => {
    found.remarks += question;
    return answers.shift();
  });
  return found;
}

async function inFolder(run: (folder: string) => Promise<void>) {
  const folder = await Deno.makeTempDir({ prefix: "svc-first-" });
  try {
    await run(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const NO_SEARCH = ["--no-discover"];

Deno.test("init: asks again until an answer fits, and writes a file that check accepts", async () => {
  await inFolder(async (folder) => {
    const file = `${folder}/m.json`;
    const { code, remarks, left } = await first(folder, ["init", file, ...NO_SEARCH], [
      "maybe",
      "n", // a control plane
      "y", // the simulated board
      "moter",
      "motor",
      "gpio",
      "nobody",
      '{"dir": "1"}', // refused: no such board, no PWM pin
      "board1",
      "no JSON",
      '{"dir": "3", "pwm": "5"}',
      "left wheel",
      "left",
      "", // one more motor
      "99999",
      "8085",
      "y", // the port, and everybody with a key
    ]);
    assertEquals([code, left], [0, []], remarks);
    for (
      const wanted of [
        "wanted y or n",
        "did you mean motor?",
        'there is no "nobody" yet',
        "needs PWM pin",
        "1 to 65535",
      ]
    ) {
      assertStringIncludes(remarks, wanted);
    }
    const { components, network, auth } = JSON.parse(await Deno.readTextFile(file));
    assertEquals(components.map((one: { name: string }) => one.name), ["board1", "motor1", "left"]);
    assertEquals(components[2].attributes, { board: "board1", pins: { dir: "3", pwm: "5" } });
    assertEquals(network, { bind_address: "0.0.0.0:8085" });
    assertEquals(auth.handlers[0].config.keys.length, 1);
    if (Deno.build.os !== "windows") assertEquals((await Deno.stat(file)).mode! & 0o777, 0o600);
    assertEquals(await first(folder, ["check", file]), {
      code: 0,
      output: `${file}: no problems\n`,
      remarks: "",
      left: [],
    });
  });
});

Deno.test("init: the credentials of a control plane; an end of the input writes nothing; no file is replaced", async () => {
  await inFolder(async (folder) => {
    const path = `${folder}/machine.json`;
    const given = ["y", "cloud.example.com", "http://10.0.0.2:8090", "part", "id", "secret"];
    const ended = await first(folder, ["init", ...NO_SEARCH], given.slice(0, 4));
    assertEquals([ended.code, await Deno.stat(path).catch(() => "none")], [1, "none"]);
    assertStringIncludes(ended.remarks, "nothing was written");
    const { code, output } = await first(folder, ["init", ...NO_SEARCH], given);
    assertEquals(code, 0);
    assertStringIncludes(output, "-allow-insecure-creds");
    assertEquals(JSON.parse(await Deno.readTextFile(path)), {
      cloud: { app_address: "http://10.0.0.2:8090", id: "part", api_key: { id: "id", key: "secret" } },
    });
    const again = await first(folder, ["init", ...NO_SEARCH], given);
    assertEquals(again.code, 1);
    assertStringIncludes(again.remarks, "machine.json exists");
    const yes = await first(folder, ["init", "yes.json", "--yes", ...NO_SEARCH]);
    assertEquals(yes.code, 0);
    assertEquals((await first(folder, ["check", `${folder}/yes.json`, path])).code, 0);
  });
});

Deno.test("check: problems of several files, for people and as JSON; the exit code says whether all are good", async () => {
  await inFolder(async (folder) => {
    const [good, bad] = [`${folder}/good.json`, `${folder}/bad.json`];
    await Deno.writeTextFile(good, '{\n "debg": true\n}');
    await Deno.writeTextFile(bad, '{\n "debug": 1,\n "jobs": [{}]\n}');
    const warned = await first(folder, ["check", good]);
    assertEquals(warned.code, 0);
    assertMatch(warned.output, /good\.json:2:10: debg: warning: .*debug.*\n.*: 0 errors, 1 warning\n$/);
    const both = await first(folder, ["check", "--json", good, bad, `${folder}/none.json`]);
    assertEquals(both.code, 1);
    const { files } = JSON.parse(both.output);
    assertEquals(styleProblems(files), []);
    assertEquals(files.map((one: { errors: number }) => one.errors > 0), [false, true, true]);
    assertEquals([files[1].problems[0].line, files[1].problems[0].path], [2, "debug"]);
    assertEquals((await first(folder, ["check"])).code, 2);
  });
});

Deno.test("doctor: looks at this device and at a configuration's port", async () => {
  await inFolder(async (folder) => {
    const file = `${folder}/m.json`;
    using taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    await Deno.writeTextFile(
      file,
      JSON.stringify({ network: { bind_address: `127.0.0.1:${taken.addr.port}` } }),
    );
    const { code, output } = await first(folder, ["doctor", "--no-network", "--json", "--config", file]);
    assertEquals(code, 1);
    const { examinations } = JSON.parse(output);
    assertEquals(styleProblems(examinations), []);
    const of = (subject: string) => examinations.find((one: { subject: string }) => one.subject === subject);
    assertEquals([of("port").outcome, of("configuration").outcome], ["problem", "ok"]);
    assertStringIncludes(of("port").found, "in use");
    if (Deno.build.os === "linux") assertStringIncludes(of("port").found, `(pid ${Deno.pid})`);
    assertStringIncludes(of("port").remedy, "network.bind_address");
  });
});

Deno.test("doctor: a proxy that is forgotten, refuses or has an unusable address is named, without its password", async () => {
  await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => {
    return new Response(null, { status: 403 });
  });
  const here = `127.0.0.1:${server.addr.port}`;
  using taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const gone = `127.0.0.1:${taken.addr.port}`;
  taken.close();
  const ask = (env: { [name: string]: string }, address?: string) =>
    examineProxy({ env: (name) => env[name] }, new SystemClock(), address);
  const cloud = "https://cloud.example";
  assertEquals(await ask({}, cloud), undefined);
  assertEquals(await ask({ HTTPS_PROXY: `http://${gone}`, NO_PROXY: ".example" }, cloud), undefined);
  assertEquals(await ask({ HTTPS_PROXY: `http://${gone}` }, "http://127.0.0.1:8090"), undefined);
  for (
    const [env, found] of [
      [{ HTTPS_PROXY: `http://u:hunter2@${gone}` }, `the proxy ${gone} of HTTPS_PROXY: cannot be reached`],
      [{ all_proxy: `socks5://u:hunter2@${gone}` }, `the proxy ${gone} of all_proxy: cannot be reached`],
      [{ HTTPS_PROXY: `http://u:hunter2@${here}` }, `the proxy ${here} of HTTPS_PROXY: it answers 403`],
      [{ HTTPS_PROXY: `ftp://u:hunter2@${here}` }, 'found a proxy of the kind "ftp"'],
    ] as const
  ) {
    const finding = await ask(env, cloud);
    assertEquals(finding?.outcome, "problem");
    assertStringIncludes(finding!.found, found);
    assertStringIncludes(finding!.remedy!, `unset ${Object.keys(env)[0]};`);
    assertEquals(JSON.stringify(finding).includes("hunter2"), false);
  }
  assertEquals((await ask({ HTTPS_PROXY: `http://u:hunter2@${gone}` }))?.outcome, "note");
});
