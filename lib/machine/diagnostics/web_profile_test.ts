import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import process from "node:process";
import { SystemClock } from "../../base/clock.ts";
import { ResourceName } from "../../resource/name.ts";
import type { HeaderFields } from "../../wire/rpc/metadata.ts";
import type { Node } from "../graph/machine.ts";
import { heapSnapshot, recordAllocations, recordCpu } from "./profiler.ts";
import { type Audience, graphText, profileRoutes } from "./web_profile.ts";

function node(type: string, name: string, more: Partial<Node> = {}): Node {
  const full = ResourceName.of(`rdk:component:${type}`, name);
  return { name: full, state: "ready", holds: new Set<string>(), ...more } as Node;
}

function pages(audience: Audience, signal = new AbortController().signal) {
  const machine = { nodes: [node("motor", "m")] };
  const clock = new SystemClock();
  const routes = profileRoutes({ machine, clock, audience: () => audience, signal });
  return async (
    target: string,
    remoteAddress = "127.0.0.1",
    method = "GET",
    { origin, fields = [] }: { origin?: string; fields?: HeaderFields } = {},
  ) => {
    const [path, query] = target.split("?");
    const peer = { kind: "grpc", remoteAddress, origin } as const;
    const body = (async function* () {})();
    const asked = { method, path, query: new URLSearchParams(query), fields, peer, body, signal };
    const answer = await routes.get(path)!(asked);
    return { status: answer.status, body: String(answer.body) };
  };
}

Deno.test("graphText: draws each resource with its state and its dependencies", () => {
  const nodes = [
    node("board", "b"),
    node("motor", "m", { holds: new Set(["rdk:component:board/b"]) }),
    node("arm", 'odd"\\name', { state: "unhealthy", error: 'no "answer"\nat all' }),
  ];
  assertEquals(
    graphText(nodes),
    String.raw`digraph machine {
  rankdir=LR;
  node [shape=box, style=filled];
  "rdk:component:board/b" [label="rdk:component:board/b\nready", fillcolor=palegreen];
  "rdk:component:motor/m" [label="rdk:component:motor/m\nready", fillcolor=palegreen];
  "rdk:component:motor/m" -> "rdk:component:board/b";
  "rdk:component:arm/odd\"\\name" [label="rdk:component:arm/odd\"\\name\nunhealthy", fillcolor=lightpink, tooltip="no \"answer\"\nat all"];
}
`,
  );
});

Deno.test("profileRoutes: answer no caller, callers on this computer, or every caller", async () => {
  const status = async (audience: Audience, ...from: string[]) => {
    const get = pages(audience);
    return await Promise.all(from.map(async (address) => (await get("/debug/graph", address)).status));
  };
  const callers = ["127.0.0.1", "::ffff:127.0.0.1", "::1", "192.0.2.7", "::ffff:192.0.2.7"];
  assertEquals(await status("nobody", ...callers), [404, 404, 404, 404, 404]);
  assertEquals(await status("this computer", ...callers), [200, 200, 200, 403, 403]);
  assertEquals(await status("everybody", ...callers), [200, 200, 200, 200, 200]);
  assertEquals((await pages("everybody")("/debug/graph", "::1", "POST")).status, 405);
  assertStringIncludes((await pages("everybody")("/debug/pprof/")).body, "/debug/pprof/profile?seconds=30");
});

Deno.test("a browser on this computer shows the pages to a person, and to no site that the person visits", async () => {
  const status = async (remoteAddress: string, origin: string, ...fields: HeaderFields) => {
    const asked = (audience: Audience) =>
      pages(audience)("/debug/graph", remoteAddress, "GET", { origin, fields });
    return (await Promise.all([asked("this computer"), asked("everybody")])).map(({ status }) => status);
  };
  const typed: [string, string] = ["sec-fetch-site", "none"];
  for (const host of ["localhost", "127.0.0.1", "[::1]", "robot.localhost", "192.0.2.7"]) {
    assertEquals(await status("127.0.0.1", `http://${host}:8080`, typed), [200, 200], host);
  }
  const here = "http://localhost:8080";
  for (const site of ["cross-site", "same-site"]) {
    assertEquals(await status("::1", here, ["sec-fetch-site", site]), [403, 403], site);
  }
  assertEquals(await status("::1", here, ["origin", "https://site.example"]), [403, 403]);
  assertEquals(await status("::1", here, ["origin", "http://localhost:3000"]), [403, 403]);
  assertEquals(await status("::1", here, ["origin", here]), [200, 200]);
  // The site has pointed its own name at this computer.
  assertEquals(await status("::1", "http://site.example:8080", typed), [403, 403]);
  assertEquals(await status("192.0.2.7", "http://robot.example:8080", typed), [403, 200]);
});

Deno.test("profileRoutes: profiles open in the developer tools, and a second simultaneous recording gets 503", async () => {
  const get = pages("everybody");
  const first = get("/debug/pprof/profile?seconds=0.05");
  const second = await get("/debug/pprof/profile");
  assertEquals(second.status, 503);
  assertMatch(second.body, /being recorded already/);
  const { status, body } = await first;
  assertEquals(status, 200);
  assertProfile(body);
  const heap = await get("/debug/pprof/heap?seconds=0.05");
  assertEquals(Object.keys(JSON.parse(heap.body)).sort(), ["head", "samples"]);
});

Deno.test("profileRoutes: refuse invalid durations, and end a recording when the machine closes", async () => {
  const closing = new AbortController();
  const get = pages("everybody", closing.signal);
  for (const seconds of ["x", "0", "-1", "601", "NaN"]) {
    assertEquals((await get(`/debug/pprof/profile?seconds=${seconds}`)).status, 400, seconds);
  }
  const profile = get("/debug/pprof/profile");
  closing.abort(new Error("the end"));
  assertEquals(await profile, { status: 503, body: "the end\n" });
});

Deno.test("recordCpu: the CPU profile contains the function that used the time", async () => {
  const clock = new SystemClock();
  const recording = await recordCpu(clock, 100);
  // By its own time: where others take the processor, the clock goes on without a sample.
  const busyWithNothing = () => {
    const begun = process.cpuUsage();
    let sum = 0;
    while (process.cpuUsage(begun).user < 100_000) sum += Math.sqrt(sum + 1);
    return sum;
  };
  assert(busyWithNothing() > 0);
  const profile = assertProfile(await recording.stop());
  assert(profile.nodes.some(({ callFrame }) => callFrame.functionName === "busyWithNothing"));
});

Deno.test("recordAllocations and heapSnapshot: return parsable profiles of the memory", async () => {
  const clock = new SystemClock();
  const recording = await recordAllocations(clock);
  const kept = Array.from({ length: 50_000 }, (_, index) => ({ index }));
  const { head } = JSON.parse(await recording.stop());
  assert(head.children.length > 0);
  assertEquals(kept.length, 50_000);
  const snapshot = JSON.parse(await heapSnapshot(clock));
  assertEquals(snapshot.nodes.length > 0 && snapshot.strings.length > 0, true);
});

/** What Chrome's developer tools need of a `.cpuprofile`. */
function assertProfile(text: string) {
  const profile = JSON.parse(text) as {
    nodes: { id: number; callFrame: { functionName: string; url: string }; children?: number[] }[];
    startTime: number;
    endTime: number;
    samples: number[];
    timeDeltas: number[];
  };
  assertEquals(Object.keys(profile).sort(), ["endTime", "nodes", "samples", "startTime", "timeDeltas"]);
  const ids = new Set(profile.nodes.map(({ id }) => id));
  assert(profile.nodes.every(({ children = [] }) => children.every((id) => ids.has(id))));
  assert(profile.samples.every((id) => ids.has(id)));
  assertEquals(profile.samples.length, profile.timeDeltas.length);
  assert(profile.startTime < profile.endTime);
  return profile;
}
