/** The folder of the programs' files. */

import { assertEquals } from "@std/assert";
import { homeFolder } from "./home.ts";

Deno.test("the first variable that is set names the folder; an empty one is not set", () => {
  const folder = (env: Record<string, string>) => homeFolder((name) => env[name]);
  assertEquals(folder({ SVC_HOME: "/a", VIAM_HOME: "/b", HOME: "/c" }), "/a");
  assertEquals(folder({ SVC_HOME: "", VIAM_HOME: "/b", HOME: "/c" }), "/b");
  assertEquals(folder({ SVC_HOME: "", HOME: "/c" }), "/c/.svc");
  assertEquals(folder({ HOME: "", USERPROFILE: "C:\\u" }), "C:\\u/.svc");
  assertEquals(folder({ HOME: "" }), "./.svc");
});
