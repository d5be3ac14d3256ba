/**
 * The published client libraries drive the example machine, each in a process and runtime of its own.
 */

import {
  assert,
  assertEquals,
  assertGreater,
  assertLess,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { needingTest } from "../support/needing.ts";
import { type ServerProcess, withDemo } from "../support/server.ts";
import { browserProgram, browserTour, nodeFolder, pythonProgram, run } from "./programs.ts";

const HERE = new URL("./", import.meta.url).pathname;

/** What a tour sees; see tour.mjs and python_tour.py. */
interface Seen {
  /** The tour went over WebRTC. */
  webrtc?: boolean;
  /** Sizes of a camera's video: its own, those that are offered, and the second of them when it was asked for. */
  video?: { id: string; own: number[]; offered: number[][]; small: number[] };
  resources: string[];
  version: { platform: string; version: string; apiVersion: string };
  machine: { state: number; unhealthy: number };
  joints: { wanted: number[]; found: number[] };
  armErrorMm: number;
  motion: { moved: boolean; errorMm: number };
  encoder: { before: number; after: number };
  power: { on: boolean; pct: number };
  gpio: boolean;
  ticks: { high: boolean; time: string }[];
  images: { sourceName: string; mimeType: string; bytes: number }[];
  capturedAt: boolean;
  pointCloudBytes: number;
  detections: number;
  stopped: boolean;
  missing?: { code: number; message: string };
  again: number;
}

Deno.test("the published TypeScript SDK in Node, over gRPC", async () => {
  const folder = await nodeFolder();
  await withDemo((server) => tour(server, ["node", `${folder}/sdk_tour.mjs`, server.url, "grpc"]));
});

Deno.test("the published TypeScript SDK in Node, over gRPC-web", async () => {
  const folder = await nodeFolder();
  await withDemo((server) => tour(server, ["node", `${folder}/sdk_tour.mjs`, server.url, "grpc-web"]));
});

Deno.test("the published TypeScript SDK in Deno, over gRPC", async () => {
  await withDemo((server) => tour(server, denoTour(server.url, "grpc")));
});

Deno.test("the published TypeScript SDK in Deno, over gRPC-web", async () => {
  await withDemo((server) => tour(server, denoTour(server.url, "grpc-web")));
});

const inBrowser = "the published TypeScript SDK in a browser, from a page of another origin";
needingTest(inBrowser, await browserProgram(), async (browser) => {
  const script = await browserTour();
  await withDemo(async (server) => judge(await browserSees(browser, script, server.url)));
});

needingTest("createRobotClient() in a browser, over WebRTC", await browserProgram(), async (browser) => {
  const script = await browserTour();
  await withDemo(async (server) => {
    const seen = await browserSees(browser, script, server.url, "&webrtc");
    judge(seen);
    assertEquals(seen.webrtc, true);
    const { id, own, offered, small } = seen.video!;
    assertEquals([id, own, small], ["camera1", offered[0], offered[1]]);
  });
});

needingTest("the published Python SDK, over gRPC", await pythonProgram(), async (python) => {
  await withDemo((server) => tour(server, [python, `${HERE}python_tour.py`, new URL(server.url).host]));
});

needingTest("the published Python SDK, over WebRTC", await pythonProgram(), async (python) => {
  await withDemo(async (server) => {
    // By the name localhost the library connects directly.
    const address = `127.0.0.1:${new URL(server.url).port}`;
    await tour(server, [python, `${HERE}python_tour.py`, address, "webrtc"]);
    assertStringIncludes(server.output(), "WebRTC peer connected");
  }, ["-debug"]);
});

/** Opens a page with the script in a browser without a window, and gives what the page posts. */
async function browserSees(browser: string, script: string, machine: string, how = ""): Promise<Seen> {
  const profile = await Deno.makeTempDir({ prefix: "svc-browser-" });
  const seen = Promise.withResolvers<Seen & { failed?: string }>();
  const page = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const { pathname } = new URL(request.url);
    if (pathname === "/seen") seen.resolve(await request.json());
    if (pathname !== "/tour.js") return html('<!doctype html><script type="module" src="/tour.js"></script>');
    return new Response(script, { headers: { "content-type": "text/javascript" } });
  });
  const address = `http://127.0.0.1:${page.addr.port}/?machine=${encodeURIComponent(machine)}${how}`;
  const options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-proxy-server"];
  const child = new Deno.Command(browser, {
    args: [...options, `--user-data-dir=${profile}`, address],
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  // Its helpers have this open for as long as they live, and write to the profile.
  const alone = child.stderr.pipeTo(new WritableStream());
  const ended = child.status.then(({ code }) => {
    throw new Error(`${browser} ended with code ${code} before the tour did`);
  });
  try {
    const found = await Promise.race([seen.promise, ended]);
    assertEquals(found.failed, undefined);
    return found;
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

async function tour(server: ServerProcess, command: string[]): Promise<void> {
  const { code, stdout, stderr } = await run(command);
  assertEquals(
    code,
    0,
    `${command.join(" ")} failed:\n${stderr}\nthe server wrote:\n${server.output()}`,
  );
  judge(JSON.parse(stdout.trim().split("\n").at(-1)!));
}

function judge(seen: Seen): void {
  const wanted = [
    "arm/arm1",
    "board/board1",
    "camera/camera1",
    "encoder/encoder1",
    "motion/builtin",
    "motor/motor1",
    "vision/vision1",
  ];
  assertEquals(wanted.filter((name) => !seen.resources.includes(name)), []);
  assertEquals(seen.version.platform, "rdk");
  assertMatch(seen.version.version, /^v?\d+\.\d+\.\d+$/);
  assertMatch(seen.version.apiVersion, /^v\d+\.\d+\.\d+$/);
  assertEquals(seen.machine, { state: 2, unhealthy: 0 });
  assertEquals(seen.joints.found, seen.joints.wanted);
  assertLess(seen.armErrorMm, 0.1);
  assertEquals(seen.motion.moved, true);
  assertLess(seen.motion.errorMm, 0.1);
  assertGreater(seen.encoder.after, seen.encoder.before);
  assertEquals(seen.power, { on: true, pct: 0.5 });
  assertEquals(seen.gpio, true);
  assertEquals(seen.ticks.length, 3);
  assert(seen.ticks.every(({ time }) => BigInt(time) > 0n));
  assertGreater(seen.images.length, 0);
  assert(
    seen.images.every(({ bytes, mimeType }) => bytes > 0 && mimeType.startsWith("image/")),
  );
  assertEquals(seen.capturedAt, true);
  assertGreater(seen.pointCloudBytes, 0);
  assertGreater(seen.detections, 0);
  assertEquals(seen.stopped, true);
  assertEquals(seen.missing?.code ?? 2, 2);
  assertEquals(seen.again, seen.resources.length);
}
