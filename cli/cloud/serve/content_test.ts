import { assertEquals, assertStringIncludes } from "@std/assert";
import { SystemClock } from "../../../lib/base/clock.ts";
import { SvcError } from "../../../lib/base/error.ts";
import { DenoHost } from "../../../lib/base/host_deno.ts";
import { type LogRecord, Logs, memorySink } from "../../../lib/base/log/log.ts";
import { withContent } from "../../../lib/cloud/sandbox/content/process.ts";
import { parseFlags } from "../../flags.ts";
import { openInference } from "./content.ts";
import { INFERENCE_FLAGS } from "./flags.ts";

/** What happens to a picture of one pixel on a computer without a sandbox. */
async function picture(...flags: string[]): Promise<{ readonly outcome: string; readonly output: string }> {
  const clock = new SystemClock();
  const records: LogRecord[] = [];
  const logger = new Logs(clock, [memorySink(records)]).logger("cloud");
  const { values } = parseFlags(INFERENCE_FLAGS, "gnu", flags);
  const { content } = openInference(
    values,
    { host: new DenoHost(), clock, logger },
    "there is no bubblewrap",
  );
  const png = Uint8Array.fromBase64(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  );
  const request = { ask: "picture", bytes: png.length } as const;
  const late = () => new SvcError("deadline_exceeded", "too late");
  const { signal } = new AbortController();
  const opening = withContent(content, 60_000, late, signal, (process, signal) => {
    return process.ask(request, [png], signal);
  });
  const outcome = await opening.then(
    () => "opened",
    (error) => `${SvcError.from(error).code}: ${error.message}`,
  );
  return { outcome, output: records.map(({ level, message }) => `${level} ${message}`).join("\n") };
}

Deno.test("without a sandbox uploads are opened only with --uploads-without-sandbox", async () => {
  const refused = await picture();
  assertStringIncludes(refused.outcome, "failed_precondition: this control plane opens no models, pictures");
  assertStringIncludes(refused.outcome, "svc-cloud serve --uploads-without-sandbox");
  assertStringIncludes(refused.output, "warn uploaded models, pictures and maps are not opened");
  const { outcome, output } = await picture("--uploads-without-sandbox");
  assertEquals(outcome, "opened");
  assertStringIncludes(output, "but without a sandbox: there is no bubblewrap");
});
