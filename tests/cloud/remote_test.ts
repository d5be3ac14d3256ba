/** Commands from afar: `svc-cloud` on another computer, against a control plane that runs as a program of its own. */

import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { main } from "../../cli/cloud/main.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { type CloudProcess, type Example, serveCloud, svcCloud } from "./program.ts";
import { sharedStoreTest } from "./stores.ts";
import { until } from "../support/until.ts";
import { linuxProgram } from "../support/linux_program.ts";

const PROGRAM = new URL("../../cli/cloud/main.ts", import.meta.url).pathname;

interface Ran {
  readonly code: number;
  readonly output: string;
  readonly remarks: string;
}

/** A control plane on one computer, and a person with a home of their own on another one. */
class Places implements AsyncDisposable {
  readonly host = Deno.makeTempDirSync({ prefix: "svc-host-" });
  readonly home = Deno.makeTempDirSync({ prefix: "svc-home-" });
  cloud!: CloudProcess;
  example!: Example;

  static async open(...flags: string[]): Promise<Places> {
    const places = new Places();
    places.example = await places.onHost("init");
    places.cloud = await serveCloud(["--data", places.host, ...flags], {
      env: { SVC_TEST_SECRET: "hunter2" },
    });
    return places;
  }

  // deno-lint-ignore no-explicit-any
  async onHost(...args: string[]): Promise<any> {
    return JSON.parse(await svcCloud(...args, "--data", this.host, "--json"));
  }

  start(args: readonly string[], env: Record<string, string> = {}): Deno.ChildProcess {
    return new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", PROGRAM, ...args],
      env: { SVC_HOME: this.home, NO_COLOR: "1", ...env },
      cwd: this.home,
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  }

  /** Runs the person's program in this process. */
  async run(args: readonly string[], env: Record<string, string> = {}): Promise<Ran> {
    const host = new DenoHost();
    const [output, remarks]: [string[], string[]] = [[], []];
    const own: Record<string, string> = { SVC_HOME: this.home, NO_COLOR: "1", ...env };
    host.write = (text) => void output.push(text);
    host.writeError = (text) => void remarks.push(text);
    host.env = (name) => own[name];
    host.cwd = () => this.home;
    host.columns = () => Number(own.COLUMNS) || undefined;
    const code = await main([...args], host);
    return { code, output: output.join(""), remarks: remarks.join("") };
  }

  async done(...args: string[]): Promise<string> {
    const { code, output, remarks } = await this.run(args);
    assertEquals(code, 0, `svc-cloud ${args.join(" ")}: ${remarks}`);
    return output;
  }

  async refused(...args: string[]): Promise<string> {
    const { code, output, remarks } = await this.run(args);
    assert(code !== 0, output);
    return remarks;
  }

  /** Makes an administrator with a key, and logs in with it. */
  async loggedIn(name: string): Promise<{ readonly id: string; readonly key: string }> {
    const key = await this.onHost("administrator", "add", name);
    const login = ["login", this.cloud.url, "--api-key-id", key.id, "--profile", name];
    const { code, remarks } = await this.run(login, { SVC_API_KEY: key.key });
    assertEquals(code, 0, remarks);
    return key;
  }

  async write(name: string, content: unknown): Promise<string> {
    const path = `${this.home}/${name}`;
    await Deno.writeTextFile(path, JSON.stringify(content));
    return path;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cloud.stop();
    for (const folder of [this.host, this.home]) await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("commands from afar print and do what the same commands on the host do", async () => {
  await using places = await Places.open();
  await places.loggedIn("ann");
  const { partId } = places.example;

  for (
    const words of [["machine", "list"], ["fleet"], ["key", "list"], ["config", "show", partId], ["audit"]]
  ) {
    for (const flags of [[], ["--json"]]) {
      const afar = await places.done(...words, ...flags);
      const near = await svcCloud(...words, ...flags, "--data", places.host);
      // Calls of its own are in the log, and in the use of keys.
      if (words[0] === "audit" || words[0] === "key") assert(afar.length > 0);
      else assertEquals(afar, near, words.join(" "));
    }
  }
  assertStringIncludes(
    await places.refused("config", "show", "example-machin"),
    "did you mean example-machine",
  );
  assertMatch((await places.run(["config", "show"])).remarks, /found no PART/);

  // A file that the command names is the caller's, and is called as the caller calls it.
  const file = await places.write("rover.json", { components: [], disable_mdns: true });
  assertMatch(await places.done("config", "set", partId, file), /^revision \d+\n$/);
  assertStringIncludes(await places.done("config", "show", partId), '"disable_mdns": true');
  assertStringIncludes(await places.done("config", "history", partId), "ann");
  const wrong = await places.write("wrong.json", []);
  assertStringIncludes(
    await places.refused("config", "set", partId, wrong),
    `${wrong}: found an empty array, wanted an object`,
  );
  const missing = `${places.home}/missing.json`;
  assertStringIncludes(await places.refused("config", "set", partId, missing), `there is no file ${missing}`);
  assertStringIncludes(await places.done("config", "restore", partId, "1"), "revision");

  // Terminal width and colours are the caller's.
  const narrow = await places.run(["machine", "list"], { COLUMNS: "40" });
  assert(narrow.output.split("\n").every((line) => line.length <= 40), narrow.output);
  assertEquals((await places.onHost("audit", "--action", "config set")).entries[0].whoName, "ann");
  const ran = (await places.onHost("audit", "--action", "RunCommand")).entries.map((
    one: { resource: string },
  ) => one.resource);
  assert(ran.includes("command config set"));
  assert(!JSON.stringify(ran).includes("rover.json"), "what a command is given is not in the log");
});

Deno.test("a package, a release, a fragment and an export go to and from afar with their files", async () => {
  await using places = await Places.open();
  await places.loggedIn("ann");
  const { partId } = places.example;
  await Deno.mkdir(`${places.home}/module/bin`, { recursive: true });
  await places.write("module/meta.json", {
    module_id: "wheel",
    type: "module",
    entrypoint: "bin/run",
    models: [],
  });
  await Deno.writeTextFile(`${places.home}/module/bin/run`, "#!/bin/sh\n", { mode: 0o755 });
  assertMatch(await places.done("package", "upload", "1.0.0", `${places.home}/module`), /^wheel 1\.0\.0\n$/);
  assertStringIncludes(await places.done("package", "list"), "wheel");

  const fragment = await places.write("eye.json", { components: [] });
  assertStringIncludes(await places.done("fragment", "set", "eye", fragment), "eye is at revision 1");

  const program = `${places.home}/svc-agent`;
  await Deno.writeFile(program, linuxProgram(100_000));
  assertStringIncludes(await places.done("release", "publish", "svc-agent", "9.0.0", program), "SHA-256");
  assertMatch(
    await places.refused("release", "publish", "svc-agent", "9.0.1", program, "--require-signature"),
    /SHA256SUMS/,
  );

  assertStringIncludes(await places.refused("data", "export", "readings.csv"), "there are no such readings");
  const rollout = ["rollout", "start", partId, "--fragment", "eye", "--config", fragment];
  assertStringIncludes(await places.refused(...rollout), "has this configuration already at revision 1");
});

Deno.test("logs --follow runs until its reader leaves, and ends at the control plane when the client is killed", async () => {
  await using places = await Places.open();
  await places.loggedIn("ann");
  const running = async () => (await commandProcesses(places.cloud.pid)).length;
  const following = places.start(["logs", "--follow", "--json"]);
  const reader = following.stdout.getReader();
  assertEquals(new TextDecoder().decode((await reader.read()).value), '{"entries":[]}\n');
  following.kill("SIGINT");
  assertEquals((await following.status).code, 0, "as on the host");
  await reader.cancel();
  await following.stderr.cancel();
  await until(async () => await running() === 0);

  const killed = places.start(["logs", "--follow"]);
  await until(async () => await running() === 1);
  const [pid] = await commandProcesses(places.cloud.pid);
  const shown = await Deno.readTextFile(`/proc/${pid}/cmdline`);
  assert(!shown.includes(places.host), "other users see no folder");
  assert(
    !(await Deno.readTextFile(`/proc/${pid}/environ`)).includes("hunter2"),
    "nor gets it the environment",
  );
  killed.kill("SIGKILL");
  await killed.output();
  await until(async () => await running() === 0);
});

Deno.test("a removed administrator is refused at once, and a running command of theirs ends", async () => {
  await using places = await Places.open();
  await places.loggedIn("ann");
  const following = places.start(["logs", "--follow"]);
  await until(async () => (await commandProcesses(places.cloud.pid)).length === 1);
  await places.onHost("administrator", "remove", "ann");
  assertMatch(await places.refused("machine", "list"), /svc-cloud login/);
  const { code } = await following.output();
  assertEquals(code, 1);
  await until(async () => (await commandProcesses(places.cloud.pid)).length === 0);
});

Deno.test("only administrators run commands: no owner, no machine, no key that an organization has got", async () => {
  await using places = await Places.open();
  const { ownerKey, config } = places.example;
  for (const { id, key } of [ownerKey, config.cloud.api_key]) {
    const login = ["login", places.cloud.url, "--api-key-id", id];
    const { code, remarks } = await places.run(login, { SVC_API_KEY: key });
    assertEquals(code, 1);
    assertStringIncludes(remarks, "svc-cloud administrator add");
  }
  assertEquals(JSON.parse(await places.done("profile", "list", "--json")), { profiles: [] });
  const { id } = await places.onHost("administrator", "add", "robot");
  for (const command of ["grant", "own", "rotate", "revoke"]) {
    await assertRejects(() => places.onHost("key", command, id), Error, "no API key");
  }
});

Deno.test("a person logs in over TLS with a password from an administrator's link, edits, and logs out", async () => {
  await using places = await Places.open("--tls");
  const { url } = places.cloud;
  const ca = `${places.home}/ca.pem`;
  await Deno.writeTextFile(ca, await svcCloud("authority", "--data", places.host));
  using http = Deno.createHttpClient({ caCerts: [await Deno.readTextFile(ca)] });
  const accept = async (link: string, password: string) => {
    const body = JSON.stringify({ link: link.split("/").at(-1), password });
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${url}/account/accept`, { method: "POST", client: http, headers, body });
    assertEquals(answer.status, 200, await answer.text());
  };
  // Somebody who was to invite the person has opened the link in place of the person.
  const { link } = await places.onHost("account", "invite", "ann@example.com", "--role", "viewer");
  await accept(link, "the-attacker-chose-this");
  const { link: granted } = await places.onHost("administrator", "add", "ann@example.com");
  const login = ["login", url, "--email", "ann@example.com", "--ca-file", ca];
  const as = (password: string) => places.run(login, { SVC_CLOUD_PASSWORD: password });
  const wrong = await as("the-attacker-chose-this");
  assertEquals(wrong.code, 1);
  assertStringIncludes(wrong.remarks, "the e-mail address or the password is wrong");
  await accept(granted, "correct horse battery staple");
  const { code, output, remarks } = await as("correct horse battery staple");
  assertEquals(code, 0, remarks);
  assertStringIncludes(output, "as ann@example.com");
  const file = `${places.home}/cloud_profiles.json`;
  assertEquals((await Deno.stat(file)).mode! & 0o777, 0o600);
  assert(!(await Deno.readTextFile(file)).includes("correct horse"));
  assertEquals(JSON.parse(await places.done("profile", "list", "--json")).profiles[0].who, "ann@example.com");

  const { partId } = places.example;
  const edited = await places.run(["config", "edit", partId], {
    VISUAL: 'sed -i 1s/{/{"disable_mdns":true,/',
  });
  assertMatch(edited.output, /revision \d+/, edited.remarks);
  assertStringIncludes(
    (await places.run(["config", "edit", partId], { VISUAL: "true" })).output,
    "nothing changes",
  );
  const [change] = (await places.onHost("audit", "--action", "config set")).entries;
  assertEquals(change.whoName, "ann@example.com");
  const old = await places.write("old.json", {});
  assertStringIncludes(
    await places.refused("config", "set", partId, old, "--expected", old),
    "somebody else has changed this configuration meanwhile",
  );
  assertStringIncludes(await places.refused("account", "reset", "ann@example.com"), "on the host alone");
  assertStringIncludes(await places.refused("backup", "x", "--profile", "default"), "does not run from afar");

  const isSvcCloud = (one: { agent: string }) => one.agent.startsWith("svc-cloud ");
  const sessions = async () =>
    (await places.onHost("account", "sessions", "ann@example.com")).sessions.filter(isSvcCloud);
  assertEquals((await sessions()).length, 1);
  await places.done("logout");
  assertEquals((await sessions()).length, 0);
  assertEquals(JSON.parse(await places.done("profile", "list", "--json")), { profiles: [] });
});

Deno.test("one administrator's commands do not take the places of another one's", async () => {
  const limits = await Deno.makeTempFile();
  await Deno.writeTextFile(
    limits,
    JSON.stringify({ commands_per_administrator: 1, file_bytes_per_command: 1000 }),
  );
  await using places = await Places.open("--limits", limits);
  await places.loggedIn("ann");
  const following = places.start(["logs", "--follow", "--profile", "ann"]);
  await until(async () => (await commandProcesses(places.cloud.pid)).length === 1);
  assertStringIncludes(await places.refused("fleet"), "limit commands_per_administrator");
  await places.loggedIn("bob");
  const large = await places.write("large.json", { components: [], note: "x".repeat(2000) });
  assertStringIncludes(
    await places.refused("config", "set", places.example.partId, large),
    "limit file_bytes_per_command",
  );
  await places.done("fleet");
  following.kill("SIGKILL");
  await following.output();
  await Deno.remove(limits);
});

sharedStoreTest("a command from afar works on PostgreSQL", async ({ flags }) => {
  const home = await Deno.makeTempDir({ prefix: "svc-home-" });
  await svcCloud("init", ...flags);
  const { id, key } = JSON.parse(await svcCloud("administrator", "add", "ann", "--json", ...flags));
  const cloud = await serveCloud(flags);
  try {
    const host = new DenoHost();
    const written: string[] = [];
    host.write = (text) => void written.push(text);
    host.writeError = (text) => void written.push(text);
    host.cwd = () => home;
    host.env = (name) => ({ SVC_HOME: home, SVC_API_KEY: key })[name];
    assertEquals(await main(["login", cloud.url, "--api-key-id", id], host), 0, written.join(""));
    written.length = 0;
    assertEquals(await main(["machine", "list", "--json"], host), 0, written.join(""));
    assertEquals(written.join(""), await svcCloud("machine", "list", "--json", ...flags));
  } finally {
    await cloud.stop();
    await Deno.remove(home, { recursive: true });
  }
});

/** The processes of commands that a control plane runs. */
async function commandProcesses(parent: number): Promise<number[]> {
  const children = await Deno.readTextFile(`/proc/${parent}/task/${parent}/children`).catch(() => "");
  const found: number[] = [];
  for (const pid of children.trim().split(" ").filter((one) => one !== "").map(Number)) {
    const line = await Deno.readTextFile(`/proc/${pid}/cmdline`).catch(() => "");
    if (line.includes("command-worker")) found.push(pid);
  }
  return found;
}
