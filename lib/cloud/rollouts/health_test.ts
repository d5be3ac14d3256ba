import { assertEquals } from "@std/assert";
import { type PartFacts, verdictOf } from "./health.ts";
import { checkedPlan } from "./plan.ts";
import { NO_PLAN } from "../services/fleet/rollout_service.ts";
import type { Baseline, Rollout, RolloutPart } from "./rollouts.ts";

const SECOND_MS = 1_000;
const NOW_MS = 10_000_000;
const NONE: Baseline = { errors: 0, logNumber: 0, unhealthy: [] };
const FRAGMENT: Rollout["change"] = { kind: "fragment", id: "f", version: "2" };
const SERVER: Rollout["change"] = { kind: "svc-server", id: "", version: "1.2.0" };
const MODULE: Rollout["change"] = { kind: "module", id: "acme:arm", version: "1.2.0" };

type Part = Pick<RolloutPart, "state" | "baseline" | "revision" | "appliedMs" | "takenMs">;

const applied = (agoSeconds: number, more: Partial<Part> = {}): Part => {
  const appliedMs = NOW_MS - agoSeconds * SECOND_MS;
  return { state: "applied", baseline: NONE, revision: 3, appliedMs, takenMs: null, ...more };
};
const taken = (agoSeconds: number, more: Partial<Part> = {}): Part =>
  applied(agoSeconds, { state: "taken", takenMs: NOW_MS - agoSeconds * SECOND_MS, ...more });

const online = (more: Partial<PartFacts> = {}): PartFacts => {
  return { seenMs: NOW_MS, isOnline: true, errors: 0, ...more };
};
const reported = (revision: string, unhealthy: readonly string[] = [], heldBack = false) =>
  online({ health: { revision, unhealthy, heldBack, atMs: NOW_MS } });
const agent = (more: Partial<NonNullable<PartFacts["agent"]>>) =>
  online({ agent: { agentRunning: "", serverRunning: "", refused: [], ...more } as PartFacts["agent"] });

function verdict(
  part: Part,
  facts: PartFacts,
  more: { change?: Rollout["change"]; errorsMax?: number; isSettled?: boolean } = {},
) {
  const { change = FRAGMENT, errorsMax = 0, isSettled = true } = more;
  const plan = checkedPlan({ ...NO_PLAN, soakSeconds: 60, takeSeconds: 600, errorsMax });
  const found = verdictOf({ plan, change }, part, facts, NOW_MS, isSettled);
  return typeof found === "object" ? found.problem : found;
}

Deno.test("verdictOf: a machine takes the change with the revision that it reports, or by polling", () => {
  assertEquals(verdict(applied(30), reported("2+x")), undefined);
  assertEquals(verdict(applied(30), reported("3+x")), "taken");
  assertEquals(verdict(applied(30), reported("of a file")), undefined);
  assertEquals(verdict(applied(30), online()), "taken");
  assertEquals(verdict(applied(10), online()), undefined);
  assertEquals(verdict(applied(601), reported("2")), "it does not run the changed configuration");
  assertEquals(
    verdict(applied(601), { errors: 0, seenMs: 0, isOnline: false }),
    "it is offline since the change",
  );
  assertEquals(verdict(applied(601), reported("2"), { isSettled: false }), undefined);
});

Deno.test("verdictOf: a machine's own maintenance window makes it late only while it says so", () => {
  assertEquals(verdict(applied(6_000), reported("2", [], true)), undefined);
  const gone = { ...reported("2", [], true), isOnline: false, seenMs: 0 };
  assertEquals(verdict(applied(6_000), gone), "it is offline since the change");
});

Deno.test("verdictOf: versions of programs are those that the agent reports; modules come with the configuration", () => {
  const change = SERVER;
  assertEquals(verdict(applied(30), agent({ serverRunning: "1.1.0" }), { change }), undefined);
  assertEquals(verdict(applied(30), agent({ serverRunning: "1.2.0" }), { change }), "taken");
  assertEquals(
    verdict(applied(601), agent({ serverRunning: "1.1.0" }), { change }),
    "it runs svc-server 1.1.0, wanted 1.2.0",
  );
  assertEquals(verdict(applied(601), online(), { change }), "it runs no svc-server, wanted 1.2.0");
  const refused = agent({ refused: ["svc-server 1.2.0"] });
  assertEquals(verdict(applied(1), refused, { change }), "its agent has refused svc-server 1.2.0");
  const own: Rollout["change"] = { ...SERVER, kind: "svc-agent" };
  assertEquals(verdict(applied(30), agent({ agentRunning: "1.2.0" }), { change: own }), "taken");
  const stable = { ...SERVER, version: "stable" };
  assertEquals(verdict(applied(30), reported("3"), { change: stable }), "taken");
  assertEquals(verdict(applied(30), reported("3"), { change: MODULE }), "taken");
});

Deno.test("verdictOf: a version that its agent still tries is not healthy yet, and one that it has left never", () => {
  for (const kind of ["svc-server", "svc-agent"] as const) {
    const change: Rollout["change"] = { ...SERVER, kind };
    const facts = (running: string, installed: string) =>
      agent(
        kind === "svc-server"
          ? { serverRunning: running, serverInstalled: installed }
          : { agentRunning: running, agentInstalled: installed },
      );
    assertEquals(verdict(taken(61), facts("1.2.0", "1.1.0"), { change }), undefined);
    // A runtime that falls again and again runs only now and then.
    assertEquals(verdict(taken(61), facts("", "1.1.0"), { change }), undefined);
    assertEquals(verdict(taken(61), facts("1.2.0", "1.2.0"), { change }), "healthy");
    const unaccepted = `its agent has not accepted ${kind} 1.2.0`;
    assertEquals(verdict(taken(661), facts("1.2.0", "1.1.0"), { change }), unaccepted);
    assertEquals(verdict(taken(661), facts("1.2.0", "1.1.0"), { change, isSettled: false }), undefined);
    assertEquals(
      verdict(taken(1), facts("1.1.0", "1.1.0"), { change }),
      `it went back to ${kind} 1.1.0 since the change`,
    );
    // A channel may lead to any version.
    const stable = { ...change, version: "stable" };
    assertEquals(verdict(taken(61), facts("1.1.0", "1.0.0"), { change: stable }), "healthy");
  }
});

Deno.test("verdictOf: what is broken since the change counts, what was broken before does not", () => {
  const baseline = { ...NONE, unhealthy: ["arm/left: no such file"] };
  assertEquals(verdict(taken(59, { baseline }), reported("3", ["eye: gone"])), undefined);
  assertEquals(verdict(taken(61, { baseline }), reported("3", ["arm/left: another reason"])), "healthy");
  const many = ["a: 1", "b: 2", "c: 3", "d: 4"];
  assertEquals(
    verdict(taken(61, { baseline }), reported("3", many)),
    "broken since the change: a: 1; b: 2; c: 3; and 1 more",
  );
  const gone: PartFacts = { errors: 0, seenMs: 0, isOnline: false };
  assertEquals(verdict(taken(61), gone), "it is offline since the change");
  assertEquals(verdict(taken(61), gone, { isSettled: false }), undefined);
});

Deno.test("verdictOf: no more errors than in the same time before", () => {
  const baseline = { ...NONE, errors: 5 };
  assertEquals(verdict(taken(30, { baseline }), online({ errors: 5 })), undefined);
  assertEquals(
    verdict(taken(30, { baseline }), online({ errors: 6 })),
    "6 errors in its log since the change, 5 in the same time before",
  );
  assertEquals(verdict(taken(30, { baseline }), online({ errors: 8 }), { errorsMax: 3 }), undefined);
  assertEquals(
    verdict(taken(30, { baseline }), online({ errors: 9 }), { errorsMax: 3 }),
    "9 errors in its log since the change, 5 in the same time before, wanted at most 3 more",
  );
  assertEquals(verdict(applied(600, { baseline }), online({ errors: 50 })), "taken", "ten times as long");
  assertEquals(
    verdict(applied(600, { baseline }), online({ errors: 51 })),
    "51 errors in its log since the change, 50 in the same time before",
  );
});
