/**
 * Following a job: the display, an unreachable control plane, and Ctrl-C.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import { toTimestamp } from "../../lib/api/shared/time.ts";
import { TrainingStatus } from "../../lib/cloud_client/training_client.ts";
import { type FakeCloud, THEN_MS, withFakeCloud } from "./fake_cloud.ts";
import { EagerClock, envOf, svcMl } from "./program.ts";

const SUBMIT = ["submit", "--model-type", "object-detection", "--tags", "circle", "--model-version", "v1"];

function say(cloud: FakeCloud, message: string, level = "info"): void {
  cloud.logs.push({ level, message, time: toTimestamp(THEN_MS + cloud.logs.length * 1000) });
}

/** A job that waits, trains for five epochs, and ends. */
function play(cloud: FakeCloud, end = TrainingStatus.COMPLETED): void {
  cloud.datasets.push({ id: "dataset-1", name: "shapes" });
  cloud.steps.push(
    () => say(cloud, "waits for its turn"),
    (job) => {
      job.status = TrainingStatus.IN_PROGRESS;
      say(cloud, "epoch 1/5 loss 0.9 validation 1 mAP 0.1");
      say(cloud, "epoch 2/5 loss 0.5 validation 0.6 mAP 0.4");
    },
    () => {
      say(cloud, "epoch 3/5 loss 0.3 validation 0.4 mAP 0.6");
      say(cloud, "epoch 4/5 loss 0.2 validation 0.3 mAP 0.7");
    },
    (job) => {
      say(cloud, "epoch 5/5 loss 0.1 validation 0.2 mAP 0.85");
      say(cloud, "the model is there");
      job.status = end;
    },
  );
}

Deno.test("submit --follow prints every line of the log once, and the result", () =>
  withFakeCloud(async (cloud) => {
    play(cloud);
    const { code, output, errors } = await svcMl([...SUBMIT, "--follow"], { env: envOf(cloud) });
    assertEquals(code, 0);
    const lines = output.trimEnd().split("\n");
    assertEquals([lines[0], lines.length], ["job-1", 8]);
    assertEquals(lines[1], "2024-01-02 03:04:05  INFO   waits for its turn");
    assertEquals(lines[7], "2024-01-02 03:04:11  INFO   the model is there");
    assertStringIncludes(errors, "pending\nin progress\ncompleted\n");
    assertStringIncludes(errors, "svc-ml models download shapes --model-version v1\n");
    assertEquals(errors.includes("\x1b"), false);
  }));

Deno.test("a terminal shows a bar with the loss as a curve, and no lines with the same content", () =>
  withFakeCloud(async (cloud) => {
    play(cloud);
    const options = { env: { ...envOf(cloud), NO_COLOR: "1" }, terminal: true };
    const { code, output, errors } = await svcMl([...SUBMIT, "--follow"], options);
    assertEquals(code, 0);
    assertEquals(output.split("\n").map((line) => line.split("  ").at(-1)!.trim()), [
      "job-1",
      "waits for its turn",
      "the model is there",
      "",
    ]);
    assertStringIncludes(errors, "pending …\r\x1b[2K");
    assertStringIncludes(
      errors,
      "████████░░░░░░░░░░░░  epoch 2/5  3s left  loss 0.5 █▁  validation 0.6  mAP 0.4\r\x1b[2K",
    );
    assertStringIncludes(
      errors,
      "████████████████████  epoch 5/5  loss 0.1 █▅▃▂▁  validation 0.2  mAP 0.85\n",
    );
    const coloured = await svcMl(["logs", "job-1"], { env: envOf(cloud), terminal: true });
    assertEquals(coloured.output.includes("\x1b"), false);
  }));

Deno.test("submit --follow --json prints the job, each log line and the final job as JSON lines", () =>
  withFakeCloud(async (cloud) => {
    play(cloud, TrainingStatus.FAILED);
    const options = { env: envOf(cloud), terminal: true };
    const { code, output } = await svcMl([...SUBMIT, "--follow", "--json"], options);
    assertEquals(code, 1);
    const lines = output.trimEnd().split("\n").map((line) => JSON.parse(line));
    assertEquals(lines.length, 9);
    assertEquals(lines[0], { id: "job-1", modelName: "shapes", modelVersion: "v1" });
    assertEquals(lines[1], { level: "info", time: "2024-01-02T03:04:05Z", message: "waits for its turn" });
    assertEquals([lines[8].id, lines[8].status], ["job-1", "TRAINING_STATUS_FAILED"]);
  }));

Deno.test("submit --follow retries an unavailable control plane with growing pauses", () =>
  withFakeCloud(async (cloud) => {
    play(cloud);
    const away = () => new SvcError("unavailable", "gone for a moment");
    for (let times = 0; times < 6; times++) cloud.failures.push({ method: "getTrainingJob", error: away() });
    cloud.failures.push({ method: "getTrainingJobLogs", error: away() });
    const clock = new EagerClock();
    const { code, output, errors } = await svcMl([...SUBMIT, "--follow"], { env: envOf(cloud), clock });
    assertEquals(code, 0, errors);
    assertEquals(output.trimEnd().split("\n").length, 8);
    assertStringIncludes(errors, "gone for a moment; trying again in 0.5s\n");
    assertEquals(clock.slept, [500, 1000, 2000, 4000, 8000, 15_000, 500, 1000, 1000, 1000]);
  }));

Deno.test("Ctrl-C ends the following, not the job, and says how to continue", () =>
  withFakeCloud(async (cloud) => {
    play(cloud);
    let interrupt = () => {};
    cloud.steps[2] = () => interrupt();
    const found = await svcMl([...SUBMIT, "--follow"], {
      env: envOf(cloud),
      onTermination: (run) => interrupt = run,
    });
    assertEquals(found.code, 130);
    assertStringIncludes(found.errors, "follow it with: svc-ml logs -f job-1, or: svc-ml wait job-1\n");
    assertEquals(cloud.of("cancelTrainingJob"), []);
    assertEquals(cloud.jobs[0].status, TrainingStatus.IN_PROGRESS);
  }));

Deno.test("logs selects the last lines, a level, and a time", () =>
  withFakeCloud(async (cloud) => {
    cloud.addJob({ id: "job-1", status: TrainingStatus.COMPLETED });
    for (const level of ["info", "warn", "error", "info", "warning", "odd", "debug"]) {
      say(cloud, `a ${level} line`, level);
    }
    const messages = async (...args: string[]) => {
      const { code, output } = await svcMl(["logs", "job-1", "--json", ...args], { env: envOf(cloud) });
      assertEquals(code, 0);
      return output.split("\n").filter(Boolean).map((line) => JSON.parse(line).message);
    };
    assertEquals((await messages()).length, 7);
    assertEquals(await messages("--tail", "2"), ["a odd line", "a debug line"]);
    assertEquals(await messages("--level", "warn"), [
      "a warn line",
      "a error line",
      "a warning line",
      "a odd line",
    ]);
    assertEquals(await messages("--since", "2024-01-02T03:04:10Z"), ["a odd line", "a debug line"]);
    assertEquals(await messages("--since", "1h"), []);
    const wrong = await svcMl(["logs", "job-1", "--since", "yesterday"], { env: envOf(cloud) });
    assertEquals(wrong.code, 2);
    assertStringIncludes(wrong.errors, '--since: found "yesterday", wanted a length of time such as 10m');
  }));

Deno.test("foreign texts cannot control the terminal, and are complete as JSON", () =>
  withFakeCloud(async (cloud) => {
    cloud.addJob({ id: "job-1", status: TrainingStatus.COMPLETED });
    const message = "\x1b[31mred\x1b[0m\x1b]0;title\x07 \r\u009b2J\tstays";
    say(cloud, message);
    const { output } = await svcMl(["logs", "job-1"], { env: envOf(cloud), terminal: true });
    assertEquals(
      output,
      "2024-01-02 03:04:05  INFO   \\u001b[31mred\\u001b[0m\\u001b]0;title\\u0007 \\u000d\\u009b2J\tstays\n",
    );
    const json = await svcMl(["logs", "job-1", "--json"], { env: envOf(cloud) });
    assertEquals(JSON.parse(json.output).message, message);
  }));

Deno.test("logs -f continues at its position, and ends with the job's exit code", () =>
  withFakeCloud(async (cloud) => {
    play(cloud, TrainingStatus.CANCELED);
    cloud.addJob({ id: "job-1", status: TrainingStatus.PENDING });
    say(cloud, "earlier");
    const { code, output, errors } = await svcMl(["logs", "-f", "job-1"], { env: envOf(cloud) });
    assertEquals(code, 1);
    assertEquals(output.trimEnd().split("\n").length, 8);
    assertStringIncludes(errors, "canceled\nsee: svc-ml logs job-1 --tail 20\n");
  }));

Deno.test("svc-ml wait prints the ended job without reading its log", () =>
  withFakeCloud(async (cloud) => {
    play(cloud);
    cloud.addJob({ id: "job-1", status: TrainingStatus.PENDING, modelName: "shapes", modelVersion: "v1" });
    const { code, output } = await svcMl(["wait", "job-1", "--json"], { env: envOf(cloud) });
    assertEquals([code, JSON.parse(output).status], [0, "TRAINING_STATUS_COMPLETED"]);
    assertEquals(cloud.of("getTrainingJobLogs"), []);
  }));
