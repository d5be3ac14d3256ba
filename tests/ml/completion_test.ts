/**
 * Completion: the program's proposals, and their use by the shells.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { ModelType, TrainingStatus } from "../../lib/cloud_client/training_client.ts";
import { withFakeCloud } from "./fake_cloud.ts";
import { envOf, svcMl } from "./program.ts";
import { type Needed, needingTest } from "../support/needing.ts";

/** The words that are proposed for the last word of a command line. */
async function proposed(
  line: string,
  env: Record<string, string> = { SVC_HOME: "/nowhere" },
): Promise<string[]> {
  const { code, output, errors } = await svcMl(["__complete", "--", ...line.split(" ")], { env });
  assertEquals([code, errors], [0, ""]);
  return output.split("\n").filter(Boolean).map((one) => one.split("\t")[0]);
}

Deno.test("completion proposes commands, flags and values of flags", async () => {
  assertEquals(await proposed("da"), ["dataset"]);
  const ofDatasets = await proposed("dataset ");
  for (const word of ["create", "list", "add", "label", "box", "merge", "check"]) {
    assertEquals(ofDatasets.includes(word), true, word);
  }
  assertEquals(await proposed("dataset ex"), ["export"]);
  assertEquals(await proposed("submit --mod"), ["--model-type", "--model-name", "--model-version"]);
  assertEquals(await proposed("submit --model-type o"), ["object-detection"]);
  assertEquals(await proposed("dataset import --format "), ["coco", "yolo", "voc"]);
  assertEquals(await proposed("list --status r"), ["running"]);
  assertEquals(await proposed("list -o "), ["table", "json"]);
  assertEquals(await proposed("--json li"), ["list"]);
  assertEquals(await proposed("profiles "), ["use", "delete"]);
  assertEquals(await proposed("completion z"), ["zsh"]);
  assertEquals(await proposed("get "), []);
});

Deno.test("completes names in the control plane", () =>
  withFakeCloud(async (cloud) => {
    cloud.addJob({ id: "job-1", status: TrainingStatus.PENDING, modelType: ModelType.OBJECT_DETECTION });
    cloud.addJob({ id: "job-2", status: TrainingStatus.COMPLETED });
    cloud.datasets.push({ id: "dataset-1", name: "shapes" }, { id: "dataset-2", name: "two words" });
    const env = envOf(cloud);
    assertEquals(await proposed("logs -f ", env), ["job-1", "job-2"]);
    assertEquals(await proposed("submit --dataset s", env), ["shapes"]);
    assertEquals(await proposed("dataset check ", env), ["shapes", "dataset-2"]);
    assertEquals(await proposed("dataset add shapes ", env), []);
    assertEquals(await proposed("list --org-id ", env), ["org-1"]);
  }));

interface Check {
  readonly program: string;
  readonly args: (file: string) => string[];
}

const CHECKS: Record<string, Check> = {
  bash: { program: "bash", args: (file) => ["-n", file] },
  zsh: { program: "zsh", args: (file) => ["-n", file] },
  fish: { program: "fish", args: (file) => ["--no-execute", file] },
};

for (const shell of ["bash", "zsh", "fish", "powershell"]) {
  Deno.test(`the completion script for ${shell} calls svc-ml __complete`, async () => {
    const { code, output } = await svcMl(["completion", shell]);
    assertEquals(code, 0);
    assertStringIncludes(output, "svc-ml __complete -- ");
  });
}

for (const [shell, check] of Object.entries(CHECKS)) {
  const needed: Needed<Check> = await installed(check.program)
    ? { found: check }
    : { missing: `${shell} is not here` };
  needingTest(`${shell} parses its completion script`, needed, async (check) => {
    const { output } = await svcMl(["completion", shell]);
    const file = await Deno.makeTempFile();
    await Deno.writeTextFile(file, output);
    const { success, stderr } = await new Deno.Command(check.program, { args: check.args(file) }).output();
    await Deno.remove(file);
    assertEquals([success, new TextDecoder().decode(stderr)], [true, ""]);
  });
}

const bash = await installed("bash") ? { found: "bash" } : { missing: "bash is not here" };

needingTest("bash completes svc-ml with its completion script", bash, async () => {
  const { output: script } = await svcMl(["completion", "bash"]);
  // The program's output, in place of the program.
  const test = `${script}
svc-ml() { printf '%s|' "$@" >&2; printf 'export\\tWrites it\\nexamine\\n'; }
COMP_WORDS=(svc-ml dataset ex)
COMP_CWORD=2
_svc_ml 2>/dev/null
printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { success, stdout } = await new Deno.Command("bash", { args: ["-c", test] }).output();
  assertEquals([success, new TextDecoder().decode(stdout)], [true, "export\nexamine\n"]);
});

Deno.test("the error for an unknown shell lists the known ones", async () => {
  const { code, errors } = await svcMl(["completion", "tcsh"]);
  assertEquals(code, 2);
  assertStringIncludes(errors, 'found shell "tcsh", wanted bash, zsh, fish, powershell');
});

async function installed(program: string): Promise<boolean> {
  try {
    return (await new Deno.Command(program, { args: ["--version"], stdout: "null", stderr: "null" }).output())
      .success;
  } catch {
    return false;
  }
}
