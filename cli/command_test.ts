import { assertEquals } from "@std/assert";
import { lengthOf, opensNamedFiles } from "./command.ts";

Deno.test("opensNamedFiles: a word, a value of a flag or a shared value that may be a path of the runtime's own", () => {
  const opens = (takes: readonly string[], values: readonly string[], shared: readonly unknown[] = []) => {
    const flags = values.map((
      value,
    ) => ({ name: "flag", type: "string", default: "", value, help: "" } as const));
    return opensNamedFiles({ takes, flags }, shared);
  };
  assertEquals(opens(["PART", "FILE"], []), true);
  assertEquals(opens(["PART"], ["FOLDER"]), true);
  assertEquals(opens(["PART"], ["N"]), false);
  assertEquals(opens([], [], ["/dev/fd/63"]), true);
  assertEquals(opens([], [], ["/proc/self/fd/3"]), true);
  assertEquals(opens([], [], ["ca.pem", "/etc/ca.pem", undefined]), false);
});

Deno.test("lengthOf: a command without words is the program itself", () => {
  assertEquals(["", "org", "org create"].map((words) => lengthOf({ words })), [0, 1, 2]);
});
