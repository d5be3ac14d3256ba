/**
 * The days of five people, typed as README and docs tell them: each command does what the page says, and the screens
 * are those in `days/`, which `deno task golden:days` writes.
 */

import { assertEquals } from "@std/assert";
import { textWidth } from "../../cli/progress/text_width.ts";
import { pythonProgram } from "../interop/programs.ts";
import { needingTest } from "../support/needing.ts";
import { hobbyistsDay, mlEngineersDay, operatorsDay, pythonDevelopersDay, webDevelopersDay } from "./days.ts";
import { ROOT } from "./pages.ts";
import { tableRows } from "./sessions.ts";
import { SCREEN_COLUMNS, Typist } from "./typist.ts";

Deno.test("a hobbyist's day: the demo, and a machine of one's own", () => plays("hobbyist", hobbyistsDay));

needingTest(
  "a Python developer's day: the demo from Python, and a module up to the registry",
  await pythonProgram(),
  (python) => plays("python", (typist) => pythonDevelopersDay(typist, python)),
);

Deno.test("a web developer's day: a machine and a control plane from the published library", () =>
  plays("web", webDevelopersDay));

Deno.test("an ML engineer's day: from photographs to a model, and a training script", () =>
  plays("ml", mlEngineersDay));

Deno.test("an operator's day: machines, configurations, fragments, the fleet, and a backup", () =>
  plays("operator", operatorsDay));

async function plays(name: string, day: (typist: Typist) => Promise<void>): Promise<void> {
  const file = `${ROOT}tests/docs/days/${name}.txt`;
  const screens = await Typist.day(day);
  assertEquals(
    tableRows(screens).filter((row) => textWidth(row) > SCREEN_COLUMNS),
    [],
    "tables are too wide",
  );
  if (Deno.args.includes("--update")) await Deno.writeTextFile(file, screens);
  const kept = await Deno.readTextFile(file);
  assertEquals(screens, kept, `if that is right, run: deno task golden:days`);
}
