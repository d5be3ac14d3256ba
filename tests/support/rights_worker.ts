/** A thread that tells its rights, and what it could open with them. */

import { rightsLeft } from "../../lib/base/native/permissions.ts";

const doors: Record<string, () => unknown> = {
  "a file": () => Deno.readTextFileSync(new URL(import.meta.url)),
  "a port": () => Deno.listen({ hostname: "127.0.0.1", port: 0 }).close(),
  "a program": () => new Deno.Command(Deno.execPath(), { args: ["--version"] }).outputSync(),
  "a library": () => Deno.dlopen("libc.so.6", {}).close(),
  "the environment": () => Deno.env.get("HOME"),
};
const open = Object.keys(doors).filter((name) => {
  try {
    doors[name]();
    return true;
  } catch {
    return false;
  }
});
(self as unknown as { postMessage(logged: unknown): void }).postMessage({ left: rightsLeft(), open });
