/**
 * The published client libraries drive the example machine, each in a process and runtime of its own.
 */

import { assertEquals, assertGreater, assertMatch, assertStringIncludes } from "@std/assert";
import { withManagedMachine } from "../cloud/managed.ts";
import { both, needingTest } from "../support/needing.ts";
import { Queue } from "../../lib/base/collections/queue.ts";
import { startServer, withDemo, writeConfig } from "../support/server.ts";
import { within } from "../support/until.ts";
import { browserProgram, browserScript, nodeFolder, ownNames, pythonProgram, run } from "./programs.ts";
import { judge, type Seen, tour } from "./tours.ts";

const HERE = new URL("./", import.meta.url).pathname;

/** The example machine, for a control plane to keep. */
async function demoConfig(): Promise<object> {
  const demo = JSON.parse(await Deno.readTextFile(`${HERE}../../examples/demo.json`));
  return { ...demo, network: { bind_address: "localhost:0" } };
}

Deno.test("the published TypeScript SDK in Node drives the demo machine over gRPC", async () => {
  const folder = await nodeFolder();
  await withDemo((server) => tour(server, ["node", `${folder}/sdk_tour.mjs`, server.url, "grpc"]));
});

Deno.test("the published TypeScript SDK in Node drives the demo machine over gRPC-web", async () => {
  const folder = await nodeFolder();
  await withDemo((server) => tour(server, ["node", `${folder}/sdk_tour.mjs`, server.url, "grpc-web"]));
});

Deno.test("the published TypeScript SDK in Node drives the demo machine over WebRTC", async () => {
  const folder = await nodeFolder();
  await withDemo(async (server) => {
    await tour(server, ["node", `${folder}/sdk_tour.mjs`, server.url, "webrtc"]);
    assertStringIncludes(server.output(), "WebRTC peer connected");
  }, ["-debug"]);
});

Deno.test("createRobotClient() in Node connects over WebRTC through a control plane and fails with a wrong key", async () => {
  const folder = await nodeFolder();
  await withManagedMachine(await demoConfig(), async ({ server, cloud, fqdn, example: { ownerKey } }) => {
    const command = ["node", `${folder}/sdk_tour.mjs`, cloud.url, "webrtc", fqdn, ownerKey.id];
    await tour(server, [...command, ownerKey.key]);
    const { code, stderr } = await run([...command, "wrong"]);
    assertEquals(code === 0, false);
    assertMatch(stderr, /invalid credentials/);
  });
});

Deno.test("the published TypeScript SDK in Deno drives the demo machine over gRPC", async () => {
  await withDemo((server) => tour(server, denoTour(server.url, "grpc")));
});

Deno.test("the published TypeScript SDK in Deno drives the demo machine over gRPC-web", async () => {
  await withDemo((server) => tour(server, denoTour(server.url, "grpc-web")));
});

const inBrowser = "the published TypeScript SDK in a browser drives the demo machine from another origin";
needingTest(inBrowser, await browserProgram(), async (browser) => {
  const script = await browserScript("browser_tour");
  await withDemo(async (server) => judge(await browserSees(browser, script, server.url)));
});

needingTest(
  "createRobotClient() in a browser connects over WebRTC and shows a camera's video",
  await browserProgram(),
  async (browser) => {
    const script = await browserScript("browser_tour");
    await withDemo(async (server) => {
      const seen = await browserSees(browser, script, server.url, "&webrtc");
      judge(seen);
      assertEquals(seen.webrtc, true);
      const { id, own, offered, small } = seen.video!;
      assertEquals([id, own, small], ["camera1", offered[0], offered[1]]);
    });
  },
);

const managed = "createRobotClient() in a browser connects over WebRTC through a control plane";
needingTest(managed, await browserProgram(), async (browser) => {
  const script = await browserScript("browser_tour");
  await withManagedMachine(await demoConfig(), async ({ cloud, fqdn, example: { ownerKey } }) => {
    const { id, key } = ownerKey;
    const seen = await browserSees(
      browser,
      script,
      cloud.url,
      `&webrtc&${new URLSearchParams({ host: fqdn, id, key })}`,
    );
    judge(seen);
    assertEquals([seen.webrtc, seen.video?.id], [true, "camera1"]);
  });
});

const guarded = "createRobotClient() in a browser reports a wrong key and reconnects to a restarted machine";
needingTest(guarded, await browserProgram(), async (browser) => {
  const script = await browserScript("browser_keys");
  const demo = JSON.parse(await Deno.readTextFile(`${HERE}../../examples/demo.json`));
  const auth = { handlers: [{ type: "api-key", config: { page: "right", keys: ["page"] } }] };
  const configPath = await writeConfig({ ...demo, auth, network: {} });
  const steps = new Queue<KeyStep>(8);
  let server = await startServer(configPath);
  try {
    await server.wrote("machine is running");
    const { host } = new URL(server.url);
    await withPage(browser, script, `?machine=${encodeURIComponent(server.url)}`, (step) => {
      steps.push(step as KeyStep);
    }, async () => {
      const next = async () => (await within("the next step of the page", steps.next())).value!;
      const { refused, output } = await next();
      assertMatch(refused!, /connect/i);
      assertMatch(output!.join(), /invalid credentials/);
      const first = await next();
      assertEquals([first.failed, first.over], [undefined, "connected"]);
      await server.stop();
      await next();
      await Deno.writeTextFile(
        configPath,
        JSON.stringify({ ...demo, auth, network: { bind_address: host } }),
      );
      server = await startServer(configPath);
      const again = await next();
      assertEquals([again.failed, again.over], [undefined, "connected"]);
    });
  } finally {
    assertEquals(await server.stop(), 0);
    await Deno.remove(configPath);
  }
});

/** A machine as the library's own tests configure it. */
const SPECS = {
  network: { bind_address: "localhost:0", fqdn: "specs-machine", sessions: { heartbeat_window: "3s" } },
  components: [
    { name: "fake_arm", type: "arm", model: "fake" },
    { name: "fake_camera", type: "camera", model: "fake" },
    { name: "motor1", type: "motor", model: "fake" },
  ],
  services: [{ name: "fake_vision", type: "vision", model: "fake" }],
};

Deno.test("the published TypeScript SDK's own end-to-end tests pass in Node", async () => {
  const folder = await nodeFolder();
  await withSpecs(async (url) => {
    // As their setup waits for the server.
    const page = await fetch(url);
    assertEquals(page.ok, true);
    await page.body?.cancel();
    const { code, stdout, stderr } = await run(["node", `${folder}/sdk_specs.mjs`, url]);
    if (code !== 0) throw new Error(stderr);
    judgeSpecs(JSON.parse(stdout));
  });
});

const ownSpecs = "the published TypeScript SDK's own end-to-end tests pass in a browser";
needingTest(ownSpecs, await browserProgram(), async (browser) => {
  const script = await browserScript("browser_specs");
  await withSpecs(async (url) => {
    judgeSpecs(await browserSees<SeenSpecs>(browser, script, url, "&host=specs-machine"));
  });
});

/** What `specs.mjs` sees. */
interface SeenSpecs {
  resources: string[];
  again: number;
  lifecycle: string[];
  attempts: boolean[];
  afterwards: number;
  version: { platform: string; version: string; apiVersion: string };
  status: { state: string; named: string[]; hasConfig: boolean };
  end: string[];
  joints: number[][];
  supportsPcd: string;
  images: [number, boolean];
  vision: string[];
  detections: number;
  captured: string[];
  session: { same: boolean; listed: number; kept: boolean; stopped: boolean };
}

async function withSpecs(work: (url: string) => Promise<void>): Promise<void> {
  const configPath = await writeConfig(SPECS);
  const server = await startServer(configPath);
  try {
    await server.wrote("machine is running");
    await work(server.url);
  } finally {
    assertEquals(await server.stop(), 0);
    await Deno.remove(configPath);
  }
}

function judgeSpecs(seen: SeenSpecs): void {
  const { resources, version, ...rest } = seen;
  for (const name of ["arm/fake_arm", "camera/fake_camera", "vision/fake_vision"]) {
    assertEquals(resources.includes(name), true, name);
  }
  assertEquals(version.platform, "rdk");
  assertMatch(version.version, /^v?\d+\.\d+\.\d+$/);
  assertMatch(version.apiVersion, /^v\d+\.\d+\.\d+$/);
  const connected = rest.lifecycle.filter((event) => /^(dis)?connected$/.test(event));
  assertEquals(connected, ["connected", "disconnected", "connected"]);
  assertGreater(rest.images[0], 0);
  assertGreater(rest.detections, 0);
  assertEquals([rest.again, rest.afterwards], [resources.length, resources.length]);
  assertEquals([rest.attempts, rest.images[1]], [[true, true], true]);
  assertEquals(rest.status, {
    state: rest.status.state,
    named: ["fake_arm", "fake_camera", "fake_vision", "motor1"],
    hasConfig: true,
  });
  assertEquals([rest.end, rest.joints], [["number", "number", "number"], [[0], [45]]]);
  assertEquals([rest.supportsPcd, rest.vision], ["boolean", ["boolean", "boolean", "boolean"]]);
  assertEquals(rest.captured, ["object", "list", "list", "list"]);
  assertEquals(rest.session, { same: true, listed: 1, kept: true, stopped: true });
}

needingTest(
  "the published Python SDK drives the demo machine over gRPC",
  await pythonProgram(),
  async (python) => {
    await withDemo((server) => tour(server, [python, `${HERE}python_tour.py`, new URL(server.url).host]));
  },
);

needingTest(
  "the published Python SDK drives the demo machine over WebRTC",
  await pythonProgram(),
  async (python) => {
    await withDemo(async (server) => {
      // By the name localhost the library connects directly.
      const address = `127.0.0.1:${new URL(server.url).port}`;
      await tour(server, [python, `${HERE}python_tour.py`, address, "webrtc"]);
      assertStringIncludes(server.output(), "WebRTC peer connected");
    }, ["-debug"]);
  },
);

for (const over of ["http", "https"]) {
  const byName =
    `RobotClient.at_address() of the published Python SDK connects through a control plane over ${over}`;
  needingTest(byName, await both(pythonProgram(), ownNames()), async ([python, withNames]) => {
    await withManagedMachine(await demoConfig(), async (managed) => {
      const { server, cloud, fqdn, folder, authority, example: { ownerKey } } = managed;
      // As a name server would say it: the machine's name leads to the control plane.
      await Deno.writeTextFile(`${folder}/hosts`, `127.0.0.1 localhost ${fqdn}\n`);
      const address = `${fqdn}:${new URL(cloud.url).port}`;
      const [trusting, tls] = over === "https" ? [["env", `SSL_CERT_FILE=${authority}`], ["tls"]] : [[], []];
      const touring = (key: string) => {
        const args = [address, "webrtc", ownerKey.id, key, ...tls];
        return withNames(`${folder}/hosts`, [...trusting, python, `${HERE}python_tour.py`, ...args]);
      };
      await tour(server, touring(ownerKey.key));
      const { code, stderr } = await run(touring("wrong"));
      assertEquals(code === 0, false);
      assertMatch(stderr, /Unable to establish a connection/);
    }, { cloudFlags: over === "https" ? ["--tls"] : [] });
  });
}

/** The observations of the page of keys in one step. */
interface KeyStep {
  readonly refused?: string;
  readonly output?: string[];
  readonly over?: string;
  readonly failed?: string;
}

/** Opens a page with the script in a browser, and returns what the page posts. */
async function browserSees<T = Seen>(browser: string, script: string, machine: string, how = ""): Promise<T> {
  const seen = Promise.withResolvers<T & { failed?: string }>();
  const query = `?machine=${encodeURIComponent(machine)}${how}`;
  const tell = (found: unknown) => seen.resolve(found as T & { failed?: string });
  const found = await withPage(browser, script, query, tell, () => seen.promise);
  assertEquals(found.failed, undefined);
  return found;
}

/** Runs `use` while a browser without a window shows a page with the script; `tell` receives what the page posts. */
async function withPage<T>(
  browser: string,
  script: string,
  query: string,
  tell: (posted: unknown) => void,
  use: () => Promise<T>,
): Promise<T> {
  const profile = await Deno.makeTempDir({ prefix: "svc-browser-" });
  const page = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const { pathname } = new URL(request.url);
    if (pathname === "/seen") tell(await request.json());
    if (pathname !== "/tour.js") return html('<!doctype html><script type="module" src="/tour.js"></script>');
    return new Response(script, { headers: { "content-type": "text/javascript" } });
  });
  const options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-proxy-server"];
  const child = new Deno.Command(browser, {
    args: [...options, `--user-data-dir=${profile}`, `http://127.0.0.1:${page.addr.port}/${query}`],
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  // Its helpers have this open for as long as they live, and write to the profile.
  const alone = child.stderr.pipeTo(new WritableStream());
  const ended = child.status.then(({ code }) => {
    throw new Error(`${browser} ended with code ${code} before the page did`);
  });
  try {
    return await Promise.race([use(), ended]);
  } finally {
    child.kill("SIGTERM");
    await ended.catch(() => {});
    await alone;
    await page.shutdown();
    await Deno.remove(profile, { recursive: true });
  }
}

function html(text: string): Response {
  return new Response(text, { headers: { "content-type": "text/html" } });
}

function denoTour(url: string, transport: string): string[] {
  const options = ["-A", "--no-lock", "--config", `${HERE}packages.json`];
  return [
    Deno.execPath(),
    "run",
    ...options,
    `${HERE}sdk_tour.mjs`,
    url,
    transport,
  ];
}
