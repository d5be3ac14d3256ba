import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { assertEquals } from "@std/assert";
import { DeviceAgentConfigResponseSchema } from "../../../proto/gen/agent_pb.ts";
import { FakeClock } from "../../../tests/support/fake_clock.ts";
import { type LogRecord, Logs, memorySink } from "../../base/log/log.ts";
import { CloudTargets } from "./cloud_targets.ts";
import type { Release } from "./release.ts";

function bench() {
  const logged: LogRecord[] = [], chosen: string[] = [];
  const chooserOf = (name: string) => ({
    setTarget: (release?: Release) => void chosen.push(`${name} ${release?.version}`),
  });
  const logger = new Logs(new FakeClock(), [memorySink(logged)]).logger("agent");
  const targets = new CloudTargets({ agent: chooserOf("agent"), server: chooserOf("server") }, logger);
  const adopt = (answer: MessageInitShape<typeof DeviceAgentConfigResponseSchema>) =>
    targets.adopt(create(DeviceAgentConfigResponseSchema, answer));
  return { targets, chosen, adopt, lines: () => logged.splice(0).map(({ message }) => message) };
}

const GOOD = { version: "1.2.3", url: "https://cloud/agent" };

Deno.test("CloudTargets: each program gets its version, and an unusable one is told once", () => {
  const { chosen, adopt, lines } = bench();
  const answerOf = (url: string) => ({ agentUpdateInfo: { ...GOOD, url }, viamServerUpdateInfo: GOOD });
  adopt(answerOf("https://cloud/agent"));
  assertEquals(chosen.splice(0), ["agent 1.2.3", "server 1.2.3"]);
  adopt(answerOf("gopher://cloud"));
  adopt(answerOf("gopher://cloud"));
  assertEquals(chosen.splice(0), ["server 1.2.3", "server 1.2.3"]);
  assertEquals(lines().map((line) => line.slice(0, 54)), [
    "no update of svc-agent: the cloud wants svc-agent with",
  ]);
  adopt({});
  assertEquals(chosen, [], "an answer without versions changes none");
  for (const url of ["https://cloud/agent", "gopher://cloud"]) adopt(answerOf(url));
  assertEquals(lines().length, 1, "and again when it comes back");
});

Deno.test("CloudTargets: the cloud's problems are shown while it has them, and logged when they change", () => {
  const { targets, adopt, lines } = bench();
  for (let time = 0; time < 2; time++) {
    adopt({ versionProblems: ["no such version"], deviceProblems: ["old"] });
  }
  assertEquals([targets.problems, targets.deviceProblems], [["no such version"], ["old"]]);
  assertEquals(lines().length, 2);
  adopt({});
  assertEquals([targets.problems, targets.deviceProblems], [[], []]);
});
